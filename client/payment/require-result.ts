import { FareboxError } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { isReServed } from './is-re-served.ts'
import type { PaidCall } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

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
