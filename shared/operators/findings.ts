/** More than one only under a request id that several calls were sent with, or under a beginning. */
export const MOST_FINDINGS = 20

/** How much of an idempotency key the console shows and finds: the whole key is a capability. */
export const SHOWN_KEY_CHARACTERS = 6

/** What an id that somebody looked for belongs to. */
export interface Finding {
  readonly kind: 'job' | 'payer' | 'unknown_settlement'
  /** Which of its ids it was, such as `request` or `refund`. */
  readonly matched:
    | 'job'
    | 'request'
    | 'key'
    | 'released_key'
    | 'receipt'
    | 'settlement'
    | 'transaction'
    | 'refund'
    | 'address'
  /** Of a job its id; the payer's address otherwise. */
  readonly id: string
}
