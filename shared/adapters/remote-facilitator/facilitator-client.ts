import type { HTTPFacilitatorClient } from '@x402/core/http'
import { SettleError, type SettleResponse } from '@x402/core/types'
import type { PublicClient } from 'viem'
import { createConfirmTransfer } from '#shared/chain/settlement/confirm-transfer.ts'
import { createReadTransaction } from '#shared/chain/settlement/mined-transactions.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator, SettlementAnswer } from '#shared/payment/remote-facilitator.ts'
import { confirmSettlement, findSettlement } from './find-settlement.ts'
import { createHttpClient, failureOf, type RemoteFacilitatorOptions } from './http-client.ts'
import { paymentPayload, paymentRequirements } from './payment-messages.ts'
import { loggableReason, refusalOf } from './refusals.ts'

const HASH = /^0x[0-9a-fA-F]{64}$/
/** A reorganization can move the settlement into a block with a lower number. */
const REORGANIZATION_DEPTH = 10n

/** Creates a facilitator that settles through a remote one and checks everything it claims against the chain. */
export function createRemoteFacilitator(
  options: RemoteFacilitatorOptions & { readonly timeoutMs: number; readonly confirmations: number },
  chain: PublicClient,
  own: Pick<AuthorizationVerifier, 'verify'>,
): RemoteFacilitator {
  const client = createHttpClient(options, options.timeoutMs)
  const read = createReadTransaction(chain, options.confirmations)
  const reading = { client: chain, confirmTransfer: createConfirmTransfer(chain, read) }
  return {
    settle: async (authorization, chargeAmount) => {
      const answer = await requestSettlement(client, authorization, chargeAmount)
      if ('cause' in answer) return { outcome: 'unknown', cause: answer.cause }
      return readAnswer(answer, () => own.verify(authorization, authorization.authorizedMaximum))
    },
    readFirstBlock: async () => {
      try {
        const latest = await chain.getBlockNumber()
        return { outcome: 'read', blockNumber: latest > REORGANIZATION_DEPTH ? latest - REORGANIZATION_DEPTH : 0n }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    confirm: (hash, authorization, chargeAmount) => confirmSettlement(reading, hash, authorization, chargeAmount),
    find: (authorization, chargeAmount, firstBlock) => findSettlement(reading, authorization, chargeAmount, firstBlock),
  }
}

type Answer = Pick<SettleResponse, 'success' | 'transaction' | 'errorReason'>

async function requestSettlement(
  client: HTTPFacilitatorClient,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<Answer | { cause: unknown }> {
  try {
    return await client.settle(paymentPayload(authorization), paymentRequirements(authorization, chargeAmount))
  } catch (cause) {
    // A refusal may have a 4xx status. After a 5xx, a timeout or a broken response only the chain shows the outcome.
    if (!(cause instanceof SettleError) || cause.statusCode >= 500) return { cause: failureOf(cause) }
    return { success: false, transaction: cause.transaction, ...reasonOf(cause) }
  }
}

function reasonOf({ errorReason }: SettleError): Pick<Answer, 'errorReason'> {
  return errorReason === undefined ? {} : { errorReason }
}

/**
 * Interprets the facilitator's answer. A named transaction counts, whatever else the answer says. A refusal before
 * sending counts when it follows from the payment itself or our own verification agrees. That verifies the signed
 * maximum, because the SDK's facilitator requires the payer to have it even for a smaller charge. Any other failure may
 * have happened after the transaction was sent.
 */
async function readAnswer(
  { success, transaction, errorReason }: Answer,
  verifyOwn: () => ReturnType<AuthorizationVerifier['verify']>,
): Promise<SettlementAnswer> {
  if (HASH.test(transaction)) return { outcome: 'sent', hash: transaction.toLowerCase() as `0x${string}` }
  const reason = loggableReason(errorReason)
  const refusal = refusalOf(errorReason)
  if (success || !refusal)
    return { outcome: 'unknown', cause: new Error(`the facilitator named no transaction: ${reason}`) }
  if (refusal.certain) return { outcome: 'refused', code: refusal.code, reason }
  const verification = await verifyOwn()
  return verification.outcome === 'refused'
    ? { outcome: 'refused', code: verification.code, reason }
    : { outcome: 'not_taken', reason }
}
