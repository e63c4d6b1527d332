import type { Budget } from '../budget/budget.ts'
import type { Journal } from '../journal/journal.ts'
import type { Followed } from '../wire/ask-service.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import type { Challenge } from './challenge.ts'
import type { Pins } from './pins.ts'
import type { PaymentSigner, Permit } from './sign-payment.ts'

/** A request that is paid for, as it can be sent any number of times. */
export interface PaidCall extends Followed {
  readonly key: string
  readonly url: string
  /** SHA-256 of method, URL and body. */
  readonly identity: string
  /** A word for the journal's reader, such as `transcribe`. */
  readonly purpose: string
  readonly model?: string | undefined
  /** Whose limits of the budget hold next to those of all calls. */
  readonly group?: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body: () => RequestBody | Promise<RequestBody>
  /** The duration of the recording in the body, where it was measured before. */
  readonly audioMs?: number | undefined
  /** Asks for the challenge without sending the content, if possible. */
  readonly priceFirst?: { readonly url: string; readonly body: string } | undefined
  /** No challenge above it is signed. */
  readonly quotedMaximum?: bigint | undefined
  /** Called before a payment is sent, with its maximum in atomic units; what it throws refuses the payment. */
  readonly beforePayment?: ((maximum: bigint) => void) | undefined
  /** How long a paid call is usually answered in; it is sent again after a longer silence. 45 seconds by default. */
  readonly answerWithinMs?: number | undefined
  /** How long the call may wait for retries; zero leaves them to the caller. */
  readonly patienceMs: number
}

export type RequestBody = string | Uint8Array<ArrayBuffer> | Blob | FormData

/** What Permit2 may take for the payments of one client; all its calls share what is found out and obtained. */
export interface Cover {
  /**
   * Returns the permit that a payment has to bring, or `null` when the allowance suffices for all payments under way, as
   * far as that is known without asking the service. Throws when neither can be had.
   */
  permit(challenge: Challenge, refusal: AllowanceRefusal): Promise<Permit | null>
  /** Notes that the service refused a payment for want of an allowance. */
  noteMissing(): void
  /** Notes that a payment was settled, or that its permit was used: the allowance may be on chain now. */
  noteChanged(): void
  /**
   * Obtains an allowance for all payments under way. Returns whether it suffices by now, or a payment that is signed
   * again brings a permit for it.
   */
  widen(signal: AbortSignal | undefined): Promise<'no' | 'by_approval' | 'by_permit'>
}

/** What a call has met before. */
export interface AllowanceRefusal {
  /** Whether another payment of the call was refused although the allowance seemed to suffice. */
  readonly isRepeated: boolean
  readonly signal: AbortSignal | undefined
}

/** What every paid call shares. */
export interface PaymentContext {
  readonly payer: string
  readonly journal: Journal
  readonly budget: Budget
  readonly pins: Pins
  readonly sign: PaymentSigner
  readonly cover: Cover
  readonly fetch: typeof globalThis.fetch
  readonly now: () => number
  /** Called with each successful answer before it is returned. */
  readonly verify?: ((paid: PaidAnswer, call: PaidCall) => Promise<PaidAnswer>) | undefined
}

/** What was paid for a call. Amounts are decimal USDC. */
export interface Payment {
  readonly key: string
  /** The authorized maximum; `null` if the answer needed no payment. */
  readonly maximum: string | null
  readonly charged: string
  readonly transaction: string | null
  readonly receiptId: string | null
  readonly receiptToken: string | null
  /** Whether the answer is the repetition of one that was received before. */
  readonly replayed: boolean
  readonly verified: 'not_checked' | 'passed' | 'failed'
  /** What failed, or why the receipt could not be checked. */
  readonly problems: readonly string[]
  /** Whether the journal could record the answer; if not, its maximum stays reserved. */
  readonly recorded: boolean
}

export interface PaidAnswer {
  readonly answer: HttpAnswer
  readonly payment: Payment
}
