import type { HTTPFacilitatorClient } from '@x402/core/http'
import { SettleError, type SettleResponse } from '@x402/core/types'
import type { PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator, SettlementAnswer } from '#shared/payment/remote-facilitator.ts'
import { createConfirmTransfer } from '../chain/confirm-transfer.ts'
import { confirmSettlement, findSettlement } from './find-settlement.ts'
import { createHttpClient, failureOf, type RemoteFacilitatorOptions } from './http-client.ts'
import { paymentPayload, paymentRequirements } from './payment-messages.ts'
import { loggableReason, refusalOf } from './refusals.ts'

const HASH = /^0x[0-9a-fA-F]{64}$/
/** A chain that loses its last blocks may put the settlement into one of a lower number. */
const REORGANISED_BLOCKS = 10n

/** Settles through a facilitator elsewhere; everything it claims is read again from the chain. */
export function createRemoteFacilitator(
  options: RemoteFacilitatorOptions & { readonly timeoutMs: number; readonly confirmations: number },
  chain: PublicClient,
  own: Pick<AuthorizationVerifier, 'verify'>,
): RemoteFacilitator {
  const client = createHttpClient(options, options.timeoutMs)
  const reading = { client: chain, confirmTransfer: createConfirmTransfer(chain, options.confirmations) }
  return {
    settle: async (authorization, chargeAmount) => {
      const answer = await askToSettle(client, authorization, chargeAmount)
      if ('cause' in answer) return { outcome: 'unknown', cause: answer.cause }
      return readAnswer(answer, () => own.verify(authorization, authorization.authorizedMaximum))
    },
    readFirstBlock: async () => {
      try {
        const latest = await chain.getBlockNumber()
        return { outcome: 'read', blockNumber: latest > REORGANISED_BLOCKS ? latest - REORGANISED_BLOCKS : 0n }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    confirm: (hash, authorization, chargeAmount) => confirmSettlement(reading, hash, authorization, chargeAmount),
    find: (authorization, chargeAmount, firstBlock) => findSettlement(reading, authorization, chargeAmount, firstBlock),
  }
}

type Answer = Pick<SettleResponse, 'success' | 'transaction' | 'errorReason'>

async function askToSettle(
  client: HTTPFacilitatorClient,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<Answer | { cause: unknown }> {
  try {
    return await client.settle(paymentPayload(authorization), paymentRequirements(authorization, chargeAmount))
  } catch (cause) {
    // A refusal may come with a 4xx status. Of a 5xx, a timeout or a broken answer only the chain can tell.
    if (!(cause instanceof SettleError) || cause.statusCode >= 500) return { cause: failureOf(cause) }
    return { success: false, transaction: cause.transaction, ...reasonOf(cause) }
  }
}

function reasonOf({ errorReason }: SettleError): Pick<Answer, 'errorReason'> {
  return errorReason === undefined ? {} : { errorReason }
}

/**
 * A named transaction counts, whatever is said of it. A reason that is given before anything is sent counts when it follows
 * from the payment, or our own reading agrees. The SDK's facilitator requires the signed maximum of the payer even to collect
 * a smaller charge, so that is what is read. Every other failure may have happened after the sending.
 */
async function readAnswer(
  { success, transaction, errorReason }: Answer,
  readOwn: () => ReturnType<AuthorizationVerifier['verify']>,
): Promise<SettlementAnswer> {
  if (HASH.test(transaction)) return { outcome: 'sent', hash: transaction.toLowerCase() as `0x${string}` }
  const reason = loggableReason(errorReason)
  const refusal = refusalOf(errorReason)
  if (success || !refusal)
    return { outcome: 'unknown', cause: new Error(`the facilitator names no transaction: ${reason}`) }
  if (refusal.certain) return { outcome: 'refused', code: refusal.code, reason }
  const reading = await readOwn()
  return reading.outcome === 'refused'
    ? { outcome: 'refused', code: reading.code, reason }
    : { outcome: 'not_taken', reason }
}
