import type { Receipt } from '../wire/schemas.ts'

/** One thing that was checked about a receipt. */
export interface ReceiptCheck {
  readonly name:
    | 'signature'
    | 'statement'
    | 'payment'
    | 'maximum'
    | 'calculation'
    | 'charge'
    | 'transfer'
    | 'result'
    | 'usage'
  readonly outcome: 'passed' | 'failed' | 'skipped'
  /** What was found, or why it failed or was skipped. */
  readonly detail: string
}

/** The outcome of all checks of a receipt: `failed` when any check did. */
export interface ReceiptVerification {
  readonly receiptId: string
  readonly outcome: 'passed' | 'failed'
  readonly checks: readonly ReceiptCheck[]
  readonly receipt: Receipt
}

export interface VerifyOptions {
  /** A node of the receipt's network to look for the transfer; that of the client by default. One that is named has to answer. */
  readonly rpcUrl?: string | undefined
  /** Opens a receipt that is not in the journal. */
  readonly receiptToken?: string | undefined
  /** The bytes of the answer's body, to compare with the receipt's digest. */
  readonly resultBody?: Uint8Array | undefined
  /**
   * The service's key, in place of those that it publishes: the `x` of an Ed25519 JWK (RFC 8037), or the path of a file
   * with a JWK or a key set.
   */
  readonly signingKey?: string | undefined
  /** The receipt may be of another wallet's payment. */
  readonly isOfAnyone?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/** Returns a check that passed if there are no problems. */
export function judge(name: ReceiptCheck['name'], problems: readonly string[], found: string): ReceiptCheck {
  if (problems.length === 0) return { name, outcome: 'passed', detail: found }
  return { name, outcome: 'failed', detail: problems.join('; ') }
}

export function skip(name: ReceiptCheck['name'], detail: string): ReceiptCheck {
  return { name, outcome: 'skipped', detail }
}
