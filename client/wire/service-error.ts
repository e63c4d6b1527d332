import { FareboxError, type MoneyState } from './farebox-error.ts'
import type { HttpAnswer } from './http-answer.ts'

/** The next step that the service allows. `new_payment` means the same request with a newly signed payment. */
export type RetryAdvice = 'never' | 'same_request' | 'new_payment'

/** A refusal or failure that the service reported. */
export class ServiceError extends FareboxError {
  override readonly name = 'ServiceError'
  readonly status: number
  readonly retry: RetryAdvice
  readonly param: string | null
  readonly retryAfterMs: number | undefined
  /** The whole answer, for callers that expect an HTTP response. */
  readonly answer: HttpAnswer

  constructor(answer: HttpAnswer, report: ErrorReport) {
    super({ ...report, advice: adviceFor(report) })
    this.status = answer.status
    this.retry = report.retry
    this.param = report.param
    this.retryAfterMs = readRetryAfter(answer.headers)
    this.answer = answer
  }
}

interface ErrorReport {
  readonly code: string
  readonly problem: string
  readonly money: MoneyState
  readonly retry: RetryAdvice
  readonly param: string | null
  readonly requestId: string | undefined
}

const MONEY_STATES: ReadonlySet<unknown> = new Set<MoneyState>(['none', 'authorized', 'settled', 'unknown'])
const RETRIES: ReadonlySet<unknown> = new Set<RetryAdvice>(['never', 'same_request', 'new_payment'])

/** Codes whose next step the general advice does not cover. */
const ADVICE: Readonly<Record<string, string>> = {
  insufficient_funds: 'Add USDC to the wallet and repeat the call.',
  funds_reserved: 'Wait until other calls have settled, or add USDC to the wallet.',
  payer_has_code: 'Pay from an account without code.',
  permit2_allowance_required: 'Approve Permit2 once with approve(), or configure an RPC URL for permits.',
  payment_expired: 'Check this machine’s clock, then repeat the call.',
  payment_not_yet_valid: 'Check this machine’s clock, then repeat the call.',
  idempotency_key_reused: 'Use another key for another request.',
  payment_already_settled: 'Do not pay again; contact the operator with the request id for a refund.',
  result_expired: 'The result is gone; its receipt is still available. A new call is charged again.',
  settlement_under_review: 'Contact the operator with the request id.',
  unpaid_debt: 'Repeat the earlier call that is unpaid (GET /v1/account/debts lists it), then this one.',
}

const RETRY_ADVICE: Readonly<Record<RetryAdvice, string>> = {
  never: 'Change the request; repeating it has the same result.',
  same_request: 'Repeat the call with the same key.',
  new_payment: 'Repeat the call with the same key; it signs a new payment.',
}

function adviceFor({ code, retry, requestId }: ErrorReport): string {
  const advice = ADVICE[code] ?? RETRY_ADVICE[retry]
  return requestId === undefined ? advice : `${advice} (request ${requestId})`
}

/** Reads the error of an answer that is not a success, from the service or from anything between. */
export function readServiceError(answer: HttpAnswer, hasPaid: boolean): ServiceError {
  const body = parseObject(answer.body)
  // A 402 or 412 has the members next to the challenge, every other error within `error`.
  const fields = isObject(body['error']) ? body['error'] : body
  const requestId = text(body['request_id']) ?? answer.headers.get('x-request-id') ?? undefined
  const message = text(fields['message'])
  const code = text(fields['code']) ?? (answer.status === 402 ? 'payment_required' : `http_${answer.status}`)
  // Without the service's own word, a signed payment may have been used.
  const fallback: MoneyState = hasPaid && answer.status !== 402 ? 'unknown' : 'none'
  return new ServiceError(answer, {
    code,
    problem: message === undefined ? `The server answered with status ${answer.status}.` : withoutMoney(message),
    money: MONEY_STATES.has(fields['payment']) ? (fields['payment'] as MoneyState) : fallback,
    retry: RETRIES.has(fields['retry']) ? (fields['retry'] as RetryAdvice) : retryOf(answer.status),
    param: text(fields['param']) ?? null,
    requestId,
  })
}

/** Removes the sentence that the client's own message repeats. */
function withoutMoney(message: string): string {
  return message.replace(/ ?Nothing was charged\.$/, '')
}

function retryOf(status: number): RetryAdvice {
  return status === 408 || status === 429 || status >= 500 ? 'same_request' : 'never'
}

/** Returns the wait that `retry-after-ms` or `Retry-After` (seconds or a date) asks for. */
export function readRetryAfter(headers: Headers, now = Date.now()): number | undefined {
  const milliseconds = Number.parseFloat(headers.get('retry-after-ms') ?? '')
  if (milliseconds >= 0) return milliseconds
  const value = headers.get('retry-after')
  if (value === null) return undefined
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

function parseObject(bytes: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
