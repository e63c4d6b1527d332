import { decodePaymentResponseHeader } from '@x402/core/http'
import { formatUsdc, larger } from '../budget/usdc.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import type { PaidAnswer, PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/** Records a successful answer and what it cost. */
export function conclude(
  { journal }: Pick<PaymentContext, 'journal'>,
  { key, group }: Pick<PaidCall, 'key' | 'group'>,
  answer: HttpAnswer,
  payment: SignedPayment | null,
): PaidAnswer {
  const receiptId = visible(answer.headers.get('x-receipt-id'))
  const receiptToken = visible(answer.headers.get('x-receipt-token'))
  const { receipts: earlier = [], open = null, gasMinimum = 0n } = journal.attempts.get(key) ?? {}
  const before = receiptId === null ? undefined : earlier.find((receipt) => receipt.receiptId === receiptId)
  const replayed = before !== undefined
  // The service may have taken the payment of an earlier process, which is still open beside a new one at another price.
  const maxima = open?.isSigned ? open.maxima : [payment?.maximum ?? 0n]
  const authorized = before?.maximum === undefined ? maxima.reduce(larger) : BigInt(before.maximum)
  // Without a receipt nothing would prove that less than the maximum was taken.
  const statement = receiptId === null ? null : answer.headers.get('payment-response')
  const { charge, transaction } = readSettlement(statement, authorized)
  const isWithinMaximum = charge <= authorized
  const problems = isWithinMaximum
    ? noteReServed(answer.headers)
    : [`the charge of ${formatUsdc(charge)} USDC is above the authorized maximum`]
  const recorded = record(() => {
    journal.append({
      phase: 'answered',
      key,
      charge: charge.toString(),
      transaction,
      receiptId,
      receiptToken,
      maximum: authorized.toString(),
      ...(maxima.length > 1 && { maxima: maxima.map(String) }),
      ...(gasMinimum > 0n && { gasMinimum: gasMinimum.toString() }),
      group: group ?? open?.group,
    })
    if (!isWithinMaximum)
      journal.append({
        phase: 'verified',
        key,
        receiptId: receiptId ?? '',
        outcome: 'failed',
        problems,
      })
    // Not awaited: until it is durable, the same call would be answered again without a charge.
    journal.flush().catch(() => undefined)
  })
  return {
    answer,
    payment: {
      key,
      maximum: payment === null ? null : formatUsdc(payment.maximum),
      charged: formatUsdc(charge),
      transaction,
      receiptId,
      receiptToken,
      replayed,
      verified: isWithinMaximum ? 'not_checked' : 'failed',
      problems,
      recorded,
    },
  }
}

/** The budget keeps the maximum all the same: nothing proves that the service took less. */
function noteReServed(headers: Headers): readonly string[] {
  return isReServed(headers) ? ['the operator returned this result without a charge, so it has no receipt'] : []
}

const TRANSACTION = /^0x[0-9a-f]{1,64}$/i
const VISIBLE = /^[\x21-\x7e]{1,1000}$/

/** Ids and tokens are shown and stored, so those with other characters are left out. */
function visible(value: string | null): string | null {
  return value !== null && VISIBLE.test(value) ? value : null
}

/** Returns the charge that the service states; without a readable statement the whole maximum counts as charged. */
function readSettlement(header: string | null, authorized: bigint) {
  try {
    const { amount, transaction } = decodePaymentResponseHeader(header ?? '')
    if (amount !== undefined && /^\d{1,30}$/.test(amount))
      return { charge: BigInt(amount), transaction: TRANSACTION.test(transaction) ? transaction : null }
  } catch {
    // Treated like a missing header.
  }
  return { charge: authorized, transaction: null }
}

/** A result that is paid for is returned even if the disk is full. */
function record(write: () => void): boolean {
  try {
    write()
    return true
  } catch {
    return false
  }
}

/**
 * Throws for a success that is no result: the page of a proxy or a network's login, or JSON that was cut off on its way.
 * Taken for a result, it would end the call although nobody has what was paid for.
 */
export function requireResult(
  { headers, body }: HttpAnswer,
  payment: SignedPayment | null,
  call: Pick<PaidCall, 'headers'>,
): void {
  const isStated = headers.has('x-receipt-id') || headers.has('payment-response') || isReServed(headers)
  const isJson = /\bjson\b/i.test(headers.get('content-type') ?? '')
  if (!isStated && (payment === null || !isJson))
    throw new FareboxError({
      code: 'not_the_service',
      problem: 'The server answered with a success that is no result.',
      money: payment === null ? 'none' : 'unknown',
      advice: `The answer is not from the service: check its URL, and any proxy before it.${payment === null ? '' : ' Repeat the call with the same key: it is charged at most once.'}`,
    })
  // Asked for JSON, the service sends nothing else, whatever a proxy makes of the type.
  if ((isJson || call.headers['accept'] === 'application/json') && !isReadable(body))
    throw new FareboxError({
      code: 'answer_damaged',
      problem: 'The result arrived damaged: it is no JSON.',
      money: isStated ? 'settled' : 'unknown',
      advice: 'Repeat the call with the same key: the result is sent again without another charge.',
    })
}

function isReadable(body: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    return true
  } catch {
    return false
  }
}

/** Returns whether an operator returned the result after a review: without a charge, and so without a receipt. */
export function isReServed(headers: Headers): boolean {
  return headers.get('x-resolution') === 're_served'
}
