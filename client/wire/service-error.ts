import { clockDifference } from './clock-difference.ts'
import { FareboxError, type MoneyState } from './farebox-error.ts'
import type { HttpAnswer } from './http-answer.ts'
import { isObject, parseObject } from './json.ts'
import { plainText } from './plain-text.ts'

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
    super({ ...report, advice: adviceFor(report, clockDifference(answer.headers, Date.now())) })
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
  /** Whether the answer is from something between client and service. */
  readonly isForeign: boolean
}

const MONEY_STATES: ReadonlySet<unknown> = new Set<MoneyState>(['none', 'authorized', 'settled', 'unknown'])
const RETRIES: ReadonlySet<unknown> = new Set<RetryAdvice>(['never', 'same_request', 'new_payment'])

const PREPARE = 'Let "farebox transcribe" prepare the recording: it converts, and splits what is longer or larger.'
const NEW_KEY = 'Use another key for another request.'

/** Codes whose next step the general advice does not cover. */
const ADVICE: Readonly<Record<string, string>> = {
  unsupported_audio: `Name a recording; it is sent as an MP3. ${PREPARE}`,
  audio_too_short: 'Leave the recording out, or join it with what was recorded before or after it.',
  audio_too_long: PREPARE,
  audio_too_large: PREPARE,
  insufficient_funds: 'Add USDC to the wallet and repeat the call.',
  owner_balance_too_low: 'Add USDC to the wallet; until then calls are paid one after the other, each with a permit.',
  funds_reserved: 'Wait until other calls have settled, or add USDC to the wallet.',
  settlement_retry_limit: 'Keep funds in the wallet until the settlement, and repeat the call with the same key.',
  payer_has_code: 'Pay from an account without code, or from a wallet that the service knows.',
  payer_not_deployed:
    'Deploy the wallet by its first transaction, which can approve Permit2 for USDC, and repeat the call with the same key.',
  owner_has_code: 'Approve Permit2 in a transaction of the wallet’s own, or use an account without code.',
  permit2_allowance_required:
    'Approve Permit2 once with approve(), which needs no gas; a contract wallet approves it in a transaction of its own.',
  permit_already_used: 'Repeat the call with the same key later; approve() lets calls run in parallel.',
  permit_expired: 'Check this machine’s clock, then approve again.',
  permits_not_stored:
    'Approve Permit2 in a transaction of your own, which needs ETH for gas; until then each call brings a permit.',
  payment_signature_invalid: 'Check that the wallet signs for its own address, then repeat the call with the same key.',
  payment_expired: 'Check this machine’s clock, then repeat the call.',
  payment_not_yet_valid: 'Check this machine’s clock, then repeat the call.',
  receipt_token_required: 'Name the receipt token that came with the result.',
  not_found: 'Check the URL of the service, and the id if one was named.',
  method_not_allowed: 'Check the URL of the service.',
  request_timeout: 'Repeat the call with the same key over a faster connection, or with fewer calls at once.',
  idempotency_key_reused: NEW_KEY,
  challenge_mismatch: NEW_KEY,
  authorization_already_used: NEW_KEY,
  payment_already_settled: 'Do not pay again; contact the operator with the request id for a refund.',
  payment_refunded: 'Nothing is left to pay or to repeat; a new call needs another key.',
  payment_resolved_outside: 'Do not pay again; a new call needs another key.',
  payment_written_off: 'Do not pay again for this call; a new call needs another key.',
  result_expired: 'The result is gone; its receipt is still available. A new call is charged again.',
  settlement_under_review: 'Contact the operator with the request id.',
  payer_blocked: 'Ask the operator of the service, or pay from another wallet.',
  unpaid_debt: 'Repeat the earlier call whose key the message names, then this one.',
}

const AT_MOST_ONCE = 'Repeat the call with the same key: it is charged at most once.'
const NOT_THE_SERVICE = 'The answer is not from the service: check its URL, and any proxy before it.'

const RETRY_ADVICE: Readonly<Record<RetryAdvice, string>> = {
  never: 'Change the request; repeating it has the same result.',
  same_request: 'Repeat the call with the same key.',
  new_payment: 'Repeat the call with the same key; it signs a new payment.',
}

function adviceFor({ code, retry, money, isForeign, requestId }: ErrorReport, clock: string | null): string {
  const general = money === 'none' || retry === 'never' ? RETRY_ADVICE[retry] : AT_MOST_ONCE
  const foreign = money === 'none' ? NOT_THE_SERVICE : `${NOT_THE_SERVICE} ${AT_MOST_ONCE}`
  const stated = ADVICE[code] ?? (isForeign ? foreign : general)
  const advice = clock !== null && stated.includes('clock') ? `${clock} ${stated}` : stated
  return requestId === undefined ? advice : `${advice} (request ${requestId})`
}

/** Reads the error of an answer that is not a success, from the service or from anything between. */
export function readServiceError(answer: HttpAnswer, hasPaid: boolean): ServiceError {
  const { status, headers } = answer
  const body = parseObject(answer.body) ?? {}
  // A 402 or 412 has the members next to the challenge, every other error within `error`.
  const fields = isObject(body['error']) ? body['error'] : body
  const requestId = idOf(body['request_id']) ?? idOf(headers.get('x-request-id'))
  const isChallenge = (status === 402 || status === 412) && headers.has('payment-required')
  const code = codeOf(fields['code'])
  const message = plain(fields['message'], LONGEST_MESSAGE)
  return new ServiceError(answer, {
    code: code ?? (isChallenge ? 'payment_required' : `http_${status}`),
    problem: message === undefined ? `The server answered with status ${status}.` : withoutMoney(message),
    // Without the service's own word, a signed payment may have been used.
    money: isMoneyState(fields['payment']) ? fields['payment'] : hasPaid && !isChallenge ? 'unknown' : 'none',
    retry: RETRIES.has(fields['retry']) ? (fields['retry'] as RetryAdvice) : retryOf(status),
    param: plain(fields['param'], LONGEST_ID) ?? null,
    requestId,
    isForeign: code === undefined && !isChallenge,
  })
}

const LONGEST_MESSAGE = 1000
const LONGEST_ID = 100

/** Advice has the id in it, so that no other text of the service may take its place. */
function idOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.:-]{1,100}$/.test(value) ? value : undefined
}

function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^[a-z0-9_]{1,64}$/.test(value) ? value : undefined
}

function isMoneyState(value: unknown): value is MoneyState {
  return MONEY_STATES.has(value)
}

/** Removes the sentence that the client's own message repeats. */
function withoutMoney(message: string): string {
  return message.replace(/ ?Nothing was charged(;[^.]*)?\./, '').replace('Nothing was charged and the', 'The')
}

function plain(value: unknown, longest: number): string | undefined {
  return typeof value === 'string' ? plainText(value, longest) || undefined : undefined
}

function retryOf(status: number): RetryAdvice {
  return status === 408 || status === 429 || status >= 500 ? 'same_request' : 'never'
}

/**
 * Returns the wait that `retry-after-ms` or `Retry-After` (seconds or a date) asks for. A date is compared with the
 * answer's own, so that a wrong clock of this machine changes nothing.
 */
export function readRetryAfter(headers: Headers, now = dateOf(headers)): number | undefined {
  const milliseconds = Number.parseFloat(headers.get('retry-after-ms') ?? '')
  if (milliseconds >= 0) return milliseconds
  const value = headers.get('retry-after')
  if (value === null) return undefined
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

function dateOf(headers: Headers): number {
  const date = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(date) ? Date.now() : date
}
