import { plainText } from './plain-text.ts'

/** What happened to the money of a call, as far as it is known. */
export type MoneyState = 'none' | 'authorized' | 'settled' | 'unknown'

export interface FareboxErrorDetails {
  /** A code of the service, or one of the client's own in the same style. */
  readonly code: string
  /** What went wrong, as one sentence. */
  readonly problem: string
  readonly money: MoneyState
  /** What to do next, as one sentence. */
  readonly advice: string
  readonly requestId?: string | undefined
  readonly key?: string | undefined
  readonly cause?: unknown
}

const MONEY: Readonly<Record<MoneyState, string>> = {
  none: 'Nothing was charged.',
  authorized: 'A payment is authorized and may still be charged, once.',
  settled: 'The call is paid for.',
  unknown: 'It is not known yet whether the call was charged; its maximum stays reserved in the budget.',
}

/** An error of the client. Its message always ends with what happened to the money and what to do. */
export class FareboxError extends Error {
  override readonly name: string = 'FareboxError'
  readonly code: string
  /** What went wrong; the message also has the next two. */
  readonly problem: string
  readonly money: MoneyState
  readonly advice: string
  readonly requestId: string | undefined
  /** The idempotency key of the call. Under the same key it is never charged twice. */
  key: string | undefined

  constructor({ code, money, requestId, key, cause, ...texts }: FareboxErrorDetails) {
    const [problem, advice] = [plainText(texts.problem), plainText(texts.advice)]
    super(`${problem} ${MONEY[money]} ${advice}`, cause === undefined ? undefined : { cause })
    this.code = code
    this.problem = problem
    this.money = money
    this.advice = advice
    this.requestId = requestId
    this.key = key
  }
}

/** Returns the error of something that ended before any money could move. */
export function uncharged(code: string, problem: string, advice: string, cause?: unknown): FareboxError {
  return new FareboxError({ code, problem, money: 'none', advice, cause })
}
