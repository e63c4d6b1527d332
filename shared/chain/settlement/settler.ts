import { type Hex, keccak256, type PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { PreparedCharge, SettlementTerms, Settler, Verification } from '#shared/payment/facilitator.ts'
import { readSettledNonces } from '../reading/batched-nonces.ts'
import { createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'
import { isSameNonce } from '../reading/nonce-use.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'
import { batchGasOf, settleManyCall } from '../settlement-contract/batch-call.ts'
import { createListedKeys } from '../settlement-contract/listed-keys.ts'
import { settlementKeys } from '../signing/settlement-keys.ts'
import { settlementCall, settlementGas } from '../verification/settlement-call.ts'
import { verifySettlement } from '../verification/verify-settlement.ts'
import { createReadAffordableGas } from './affordable-gas.ts'
import { createSharedBroadcasts } from './broadcast.ts'
import { createChooseSender } from './choose-sender.ts'
import { createConfirmTransfer } from './confirm-transfer.ts'
import { createFeeEstimator, type FeeEstimator, type Fees } from './fee-estimator.ts'
import { createReadTransaction } from './mined-transactions.ts'
import { createReadEvidence } from './settlement-evidence.ts'
import { shareReadings } from './shared-readings.ts'

/** Checks whether an amount could be settled now; of the chain alone, without the policy for accounts with code. */
export type VerifySettlement = (authorization: Authorization, amount: AtomicAmount) => Promise<Verification>

export interface SettlerOptions {
  /** Confirmations that a settlement needs, its own block included. */
  readonly confirmations?: number | undefined
  readonly estimateFees?: FeeEstimator
  /** Price of the native token in US dollars, at which the cost of gas is reported. */
  readonly nativeTokenUsd?: number | undefined
  /** The newest block, where others in this process read it too. */
  readonly latest?: LatestBlock
  /** How a payment is simulated before it is signed. Default: each by itself. */
  readonly verify?: VerifySettlement
}

/**
 * Creates a settler with `privateKeys`. Each authorization names who must settle it: one of these keys, or a settlement
 * contract that lists at least one of them.
 */
export function createSettler(
  client: PublicClient,
  chainId: number,
  privateKeys: readonly Hex[],
  {
    confirmations = 1,
    estimateFees = createFeeEstimator(client),
    nativeTokenUsd,
    latest = createLatestBlock(client),
    verify = (authorization, amount) => verifySettlement(client, authorization, amount, estimateFees),
  }: SettlerOptions = {},
): Settler {
  const keys = settlementKeys(privateKeys)
  const listedKeys = createListedKeys(client, keys.facilitators)
  const chooseSender = createChooseSender(keys.facilitators, listedKeys, createReadAffordableGas(client))
  const countAccountNonce = firstAccountNonce(client)
  const transactions = shareReadings(createReadTransaction(client, confirmations, latest))
  const confirm = createConfirmTransfer(client, transactions.read, nativeTokenUsd)
  const broadcasts = createSharedBroadcasts(client)
  const readEvidence = createReadEvidence(client)
  const readSender = async (facilitator: Hex) => {
    const fees = await estimateFees()
    const chosen = await chooseSender(facilitator, fees.maxFeePerGas)
    if (chosen === 'not_listed') return chosen
    return { ...chosen, fees, minimumAccountNonce: await countAccountNonce(chosen.sender) }
  }
  return {
    prepare: async (authorization, chargeAmount) => {
      const [verification, reading] = await Promise.all([
        verify(authorization, chargeAmount),
        unlessUnreachable(() => readSender(lowerCase(authorization.facilitator))),
      ])
      if (verification.outcome !== 'valid') return verification
      if (reading.outcome === 'unreachable') return reading
      if (reading.value === 'not_listed') return { outcome: 'not_listed' }
      const { fees, ...sender } = reading.value
      return { outcome: 'ready', terms: termsOf(authorization, fees, verification.needsPermit), ...sender }
    },
    sign: async (authorization, chargeAmount, terms, accountNonce) => {
      const { gasLimit, maxFeePerGas, maxPriorityFeePerGas } = terms
      const raw = keys.signTransaction(lowerCase(authorization.facilitator), {
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
    signBatch: async (charges, sender, accountNonce) => {
      const items = charges.map(({ authorization, chargeAmount, terms }) => ({
        gas: terms.gasLimit,
        call: settlementCall(authorization, chargeAmount, terms).data,
      }))
      const raw = keys.signTransaction(lowerCase(sender), {
        type: 'eip1559',
        chainId,
        nonce: Number(accountNonce),
        gas: batchGasOf(items.map(({ gas }) => gas)),
        maxFeePerGas: highest(charges.map(({ terms }) => terms.maxFeePerGas)),
        maxPriorityFeePerGas: highest(charges.map(({ terms }) => terms.maxPriorityFeePerGas)),
        ...settleManyCall(contractOf(charges), items),
      })
      return { raw, hash: keccak256(raw) }
    },
    batchGas: (terms) => batchGasOf(terms.map(({ gasLimit }) => gasLimit)),
    broadcast: (transaction) => broadcasts.broadcast(transaction),
    confirm: async (hash, authorization, chargeAmount) => {
      const confirmation = await confirm(hash, authorization, chargeAmount)
      // Perhaps because the key was taken off the list.
      if (confirmation.outcome === 'batch_reverted') listedKeys.forget(lowerCase(authorization.facilitator))
      return confirmation
    },
    readEvidence: async (authorization, senders, at) => {
      const evidence = await readEvidence(authorization, senders, at === 'newest' ? 1 : confirmations)
      // The caller judges receipts by it, which must not be older, and may send again what it finds missing.
      transactions.forget()
      broadcasts.forget()
      return evidence
    },
    findTransfer: createFindTransfer(client),
  }
}

function termsOf(
  authorization: Authorization,
  { maxFeePerGas, maxPriorityFeePerGas }: Fees,
  submitsPermit: boolean,
): SettlementTerms {
  return { maxFeePerGas, maxPriorityFeePerGas, gasLimit: settlementGas(authorization, submitsPermit), submitsPermit }
}

/** Returns the contract that all payers of a batch signed. The proxy would refuse the payments of others. */
function contractOf(charges: readonly PreparedCharge[]): Hex {
  const [contract, ...others] = new Set(charges.map(({ authorization }) => lowerCase(authorization.facilitator)))
  if (contract === undefined || others.length > 0)
    throw new Error('a batch needs payments whose payers signed the same settlement contract')
  return contract
}

function highest(amounts: readonly bigint[]): bigint {
  return amounts.reduce((one, other) => (other > one ? other : one), 0n)
}

function lowerCase(address: Hex): Hex {
  return address.toLowerCase() as Hex
}

/** Reads the chain's transaction count of an account once. Later settlements continue from the ledger's count. */
function firstAccountNonce(client: PublicClient): (facilitator: `0x${string}`) => Promise<bigint> {
  const counts = new Map<string, bigint>()
  return async (facilitator) => {
    const counted = counts.get(facilitator)
    if (counted !== undefined) return counted
    const count = BigInt(await client.getTransactionCount({ address: facilitator, blockTag: 'latest' }))
    counts.set(facilitator, count)
    return count
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

/**
 * Creates the search of the log index for a payment in given transactions. Two concurrent RPC calls. A transfer in a batch
 * proves nothing by itself, since the payer may have other payments in it: there the event of the contract counts.
 */
function createFindTransfer(client: PublicClient): Settler['findTransfer'] {
  return async (hashes, authorization, fromBlock) => {
    const { facilitator, payer } = authorization
    try {
      const [transfers, settled] = await Promise.all([
        readPaymentTransfers(client, authorization, fromBlock, 'latest'),
        readSettledNonces(client, facilitator, { payer, fromBlock, toBlock: 'latest' }),
      ])
      const batches = new Set(settled.map(({ transactionHash }) => transactionHash))
      const isSettled = settled.some(
        (nonce) => hashes.includes(nonce.transactionHash) && isSameNonce(nonce, authorization),
      )
      const isTransferred = transfers.some(
        ({ transactionHash }) => hashes.includes(transactionHash) && !batches.has(transactionHash),
      )
      return isSettled || isTransferred ? 'found' : 'missing'
    } catch {
      return 'unreachable'
    }
  }
}
