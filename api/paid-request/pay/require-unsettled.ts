import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { SettlementOnChain, SettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { resolvedError } from '../answer/respond.ts'
import { isChainRefusal } from './payer-memory.ts'
import type { VerificationContext } from './verify-authorization.ts'

/** What is asked about a payment that is refused. */
export interface RefusalContext extends Pick<
  VerificationContext,
  'terms' | 'verifier' | 'payers' | 'limitVerifications'
> {
  readonly settlementSearch: SettlementSearch
  readonly store: Pick<AcceptanceStore, 'findKnownRequest' | 'recordUnknownSettlement' | 'findUnknownEnding'>
  readonly logger: Logger
}

/**
 * Throws unless it is certain that the refused payment moved no money: the answer to a refusal says so, and asks for
 * another payment. A ledger that was restored from a backup does not know the payments of the lost time, so the chain is
 * asked. Throws `payment_already_settled` (409) and records the settlement for a person, the error of the resolution once
 * that person has ended it, `settlement_under_review` (503) when the use of the nonce cannot be explained, and `payment_state_unknown` (503) when the chain cannot be read.
 *
 * A signature that is not the payer's, or not addressed to this service, is not looked up; any other counts against the
 * allowance of its network, as a verification does.
 */
export async function requireUnsettled(
  context: RefusalContext,
  { decoded }: PaymentHeader,
  refusal: AppError,
  idempotencyKey: string,
  request: Pick<FastifyRequest, 'id' | 'ip'>,
): Promise<void> {
  const { terms, verifier, payers, limitVerifications, settlementSearch, store, logger } = context
  // The ledger knows this payment.
  if (refusal.code === 'fresh_signature_required' || decoded.outcome !== 'decoded') return
  const { authorization } = decoded.payment
  const signedBy = verifier.isSignedByPayer(authorization)
  if (!isAddressedToUs(authorization, terms) || signedBy === 'no') return
  // The chain refused nothing but the signature, so the payment is not used.
  if (refusal.code === 'payment_signature_invalid' || refusal.code === 'payer_not_deployed') return
  const isKnown = signedBy === 'key' && payers.isKnown(authorization.payer)
  const wasVerified = isChainRefusal(refusal.code, signedBy) && !isKnown
  if (!wasVerified) limitVerifications(request)
  if (signedBy === 'ask_chain') {
    const answer = await verifier.askWallet(authorization)
    if (answer.outcome === 'unreachable') throw new AppError('payment_state_unknown', { cause: answer.cause })
    if (answer.outcome === 'not_signed') return
  }
  const found = await settlementSearch.find(authorization)
  if (found.outcome === 'unused' || found.outcome === 'cancelled') return
  if (found.outcome === 'unreachable') throw new AppError('payment_state_unknown', { cause: found.cause })
  // Read last: the same payment may have been accepted and settled meanwhile.
  const { claim } = await store.findKnownRequest(idempotencyKey, authorization)
  if (claim !== null) return
  if (found.outcome === 'unexplained') {
    logger.error('a payment is used on chain, and its settlement was not found', { requestId: request.id })
    throw new AppError('settlement_under_review')
  }
  const ending = await store.findUnknownEnding(authorization)
  if (ending?.outcome === 'written_off')
    throw new AppError('payment_already_settled', {
      message: `This payment was settled in transaction ${found.transaction}, but its result is lost. The operator closed this case without a refund. Do not pay again for this call.`,
    })
  if (ending) throw resolvedError(ending)
  logger.error('a payment was settled that the ledger does not know', { reason: found.transaction })
  await store.recordUnknownSettlement({ authorization, found, idempotencyKey, requestId: request.id, jobId: null })
  throw new AppError('payment_already_settled', {
    message: `This payment was settled in transaction ${found.transaction}, but its result is lost. Do not pay again for this call. The operator has been notified; contact them with the request id for a refund.`,
  })
}

export function isAddressedToUs(authorization: Authorization, terms: PaymentTerms): boolean {
  return (
    authorization.network === terms.network &&
    authorization.asset === terms.asset &&
    terms.acceptedRecipients.includes(authorization.payTo) &&
    authorization.spender === terms.spender &&
    // Otherwise payers could settle tiny payments themselves, and have each recorded and reported to the operator.
    terms.acceptedFacilitators.includes(authorization.facilitator)
  )
}

/** How long an answer is repeated that a later block may change. */
const SHORT_MS = 10_000
const MAXIMUM_ANSWERS = 20_000
/** Searches that run or wait: strangers may cause more than the node can answer, and each keeps its request. */
const MAXIMUM_SEARCHES = 200

/**
 * Wraps a search to answer from memory when a payment with the same nonce is presented again: a final answer for as
 * long as there is space, any other for seconds. With too many searches at a time the chain counts as unreachable.
 */
export function createRememberedSearch(
  search: SettlementSearch,
  now: () => number = () => performance.now(),
): SettlementSearch {
  const answers = new LRUCache<string, { readonly found: SettlementOnChain; readonly until: number }>({
    max: MAXIMUM_ANSWERS,
  })
  let searches = 0
  return {
    find: async (authorization, since) => {
      // Not the signature: a payer can sign any number of payments with one nonce, of which one can be settled at most.
      const key = `${authorization.payer}:${authorization.nonce}`
      const known = answers.get(key)
      if (known && now() < known.until) return known.found
      if (searches >= MAXIMUM_SEARCHES)
        return { outcome: 'unreachable', cause: new Error(`more than ${MAXIMUM_SEARCHES} searches`) }
      searches += 1
      const found = await search.find(authorization, since)
      searches -= 1
      if (found.outcome !== 'unreachable') {
        const isFinal = found.outcome === 'settled' || found.outcome === 'cancelled'
        answers.set(key, { found, until: isFinal ? Number.POSITIVE_INFINITY : now() + SHORT_MS })
      }
      return found
    },
  }
}
