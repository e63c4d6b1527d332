import { keccak256, type PublicClient } from 'viem'
import type { SettlementTerms, Settler } from '#shared/payment/facilitator.ts'
import { createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'
import { settlementKeys } from '../signing/settlement-keys.ts'
import { SETTLE_GAS, SETTLE_WITH_PERMIT_GAS, settlementCall } from '../verification/settlement-call.ts'
import { verifySettlement } from '../verification/verify-settlement.ts'
import { broadcast } from './broadcast.ts'
import { createConfirmTransfer } from './confirm-transfer.ts'
import { createFeeEstimator, type FeeEstimator } from './fee-estimator.ts'
import { readEvidence } from './settlement-evidence.ts'

export interface SettlerOptions {
  /** Confirmations that a settlement needs, its own block included. */
  readonly confirmations?: number
  readonly estimateFees?: FeeEstimator
  /** Price of the native token in US dollars, at which the cost of gas is reported. */
  readonly nativeTokenUsd?: number
  /** The newest block, where others in this process read it too. */
  readonly latest?: LatestBlock
}

/** Creates a settler with `privateKeys`. Each authorization names the facilitator address that must send it. */
export function createSettler(
  client: PublicClient,
  chainId: number,
  privateKeys: readonly `0x${string}`[],
  {
    confirmations = 1,
    estimateFees = createFeeEstimator(client),
    nativeTokenUsd,
    latest = createLatestBlock(client),
  }: SettlerOptions = {},
): Settler {
  const keys = settlementKeys(privateKeys)
  const countAccountNonce = firstAccountNonce(client)
  return {
    prepare: async (authorization, chargeAmount) => {
      const [verification, reading] = await Promise.all([
        verifySettlement(client, authorization, chargeAmount, estimateFees),
        unlessUnreachable(() =>
          Promise.all([estimateFees(), countAccountNonce(authorization.facilitator)]).then(([fees, count]) => ({
            fees,
            minimumAccountNonce: count,
          })),
        ),
      ])
      if (verification.outcome !== 'valid') return verification
      if (reading.outcome === 'unreachable') return reading
      const { fees, minimumAccountNonce } = reading.value
      const terms: SettlementTerms = {
        maxFeePerGas: fees.maxFeePerGas,
        maxPriorityFeePerGas: fees.maxPriorityFeePerGas,
        gasLimit: verification.needsPermit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS,
        submitsPermit: verification.needsPermit,
      }
      return { outcome: 'ready', terms, minimumAccountNonce }
    },
    sign: async (authorization, chargeAmount, terms, accountNonce) => {
      const { gasLimit, maxFeePerGas, maxPriorityFeePerGas } = terms
      const raw = keys.signTransaction(authorization.facilitator, {
        type: 'eip1559',
        chainId,
        nonce: Number(accountNonce),
        gas: gasLimit,
        maxFeePerGas,
        maxPriorityFeePerGas,
        ...settlementCall(authorization, chargeAmount, terms),
      })
      return { raw, hash: keccak256(raw) }
    },
    broadcast: (transaction) => broadcast(client, transaction),
    confirm: createConfirmTransfer(client, confirmations, nativeTokenUsd, latest),
    readEvidence: (authorization, at) => readEvidence(client, authorization, at === 'newest' ? 1 : confirmations),
    findTransfer: async (hashes, authorization, fromBlock) => {
      const transfers = await unlessUnreachable(() => readPaymentTransfers(client, authorization, fromBlock, 'latest'))
      if (transfers.outcome === 'unreachable') return 'unreachable'
      return transfers.value.some(({ transactionHash }) => hashes.includes(transactionHash)) ? 'found' : 'missing'
    },
  }
}

/** Reads the chain's transaction count of an account once. Later settlements continue from the ledger's count. */
function firstAccountNonce(client: PublicClient): (facilitator: `0x${string}`) => Promise<bigint> {
  const counted = new Set<string>()
  return async (facilitator) => {
    if (counted.has(facilitator)) return 0n
    const count = await client.getTransactionCount({ address: facilitator, blockTag: 'latest' })
    counted.add(facilitator)
    return BigInt(count)
  }
}

async function unlessUnreachable<T>(
  read: () => Promise<T>,
): Promise<{ outcome: 'read'; value: T } | { outcome: 'unreachable'; cause: unknown }> {
  try {
    return { outcome: 'read', value: await read() }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
