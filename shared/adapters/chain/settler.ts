import { keccak256, type PublicClient } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import { confirmTransfer } from './confirm-transfer.ts'
import { diagnoseRefusal } from './diagnose-refusal.ts'
import { settlementCall, simulateSettlement } from './settlement-call.ts'

/** Measured on the devnet: 91,000 to 128,000 gas for `settle`, 177,000 for `settleWithPermit`; unused gas is not paid. */
const SETTLE_GAS = 200_000n
const SETTLE_WITH_PERMIT_GAS = 300_000n

/** What a node answers when it has the transaction already, or its account nonce is taken: `confirm` tells which. */
const ALREADY_SENT = /already known|already imported|nonce too low|known transaction/i

/** Settles with the private keys given; each authorization names the facilitator address that must send it. */
export function createSettler(client: PublicClient, chainId: number, privateKeys: readonly `0x${string}`[]): Settler {
  const accounts = new Map(
    privateKeys.map((key) => privateKeyToAccount(key)).map((account) => [account.address.toLowerCase(), account]),
  )
  const senderOf = ({ facilitator }: Authorization): PrivateKeyAccount => {
    const account = accounts.get(facilitator)
    if (!account) throw new Error(`no settlement key for the facilitator ${facilitator}`)
    return account
  }
  return {
    prepare: async (authorization, chargeAmount) => {
      const simulation = await simulateSettlement(client, authorization, chargeAmount)
      if (simulation.outcome === 'unreachable') return simulation
      if (simulation.outcome === 'reverts') {
        const diagnosis = await diagnoseRefusal(client, authorization, chargeAmount)
        return diagnosis.outcome === 'valid' ? { outcome: 'refused', code: 'payment_rejected' } : diagnosis
      }
      return await readTerms(client, authorization)
    },
    sign: async (authorization, chargeAmount, { gasLimit, maxFeePerGas, maxPriorityFeePerGas }, accountNonce) => {
      const raw = await senderOf(authorization).signTransaction({
        type: 'eip1559',
        chainId,
        nonce: Number(accountNonce),
        gas: gasLimit,
        maxFeePerGas,
        maxPriorityFeePerGas,
        ...settlementCall(authorization, chargeAmount),
      })
      return { raw, hash: keccak256(raw) }
    },
    broadcast: async ({ raw }) => {
      try {
        await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
        return { outcome: 'sent' }
      } catch (cause) {
        if (cause instanceof Error && ALREADY_SENT.test(cause.message)) return { outcome: 'sent' }
        return { outcome: 'unreachable', cause }
      }
    },
    confirm: (hash, authorization, chargeAmount) => confirmTransfer(client, hash, authorization, chargeAmount),
  }
}

async function readTerms(client: PublicClient, { facilitator, gasSponsoring }: Authorization) {
  try {
    const [fees, accountNonce] = await Promise.all([
      client.estimateFeesPerGas(),
      client.getTransactionCount({ address: facilitator, blockTag: 'latest' }),
    ])
    return {
      outcome: 'ready' as const,
      minimumAccountNonce: BigInt(accountNonce),
      terms: {
        maxFeePerGas: fees.maxFeePerGas,
        maxPriorityFeePerGas: fees.maxPriorityFeePerGas,
        gasLimit: gasSponsoring ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS,
      },
    }
  } catch (cause) {
    return { outcome: 'unreachable' as const, cause }
  }
}
