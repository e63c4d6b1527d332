import { parseObject } from '../wire/json.ts'

/** One line of the journal. Amounts are decimal strings of atomic USDC, times ISO 8601. */
export type JournalEntry = IntendedEntry | QuotedEntry | SignedEntry | RefusedEntry | AnsweredEntry | VerifiedEntry

interface EntryOf<Phase extends string> {
  readonly phase: Phase
  readonly at: string
  /** The idempotency key, which names the call. */
  readonly key: string
}

/** A call is about to be made. Nothing of its content is stored, only digests. */
export interface IntendedEntry extends EntryOf<'intended'> {
  readonly origin: string
  readonly method: string
  readonly path: string
  /** SHA-256 of method, URL and body. */
  readonly identity: string
  readonly purpose: string
  readonly payer: string
  readonly model?: string | undefined
}

/** The maximum is reserved in the budget, for a short time unless it is signed. */
export interface QuotedEntry extends EntryOf<'quoted'> {
  readonly maximum: string
  readonly expiresAt: string
  /** Whose limits of the budget it counts for. */
  readonly group?: string | undefined
}

/** A payment is signed and about to be sent; it can be settled until `deadline`. */
export interface SignedEntry extends EntryOf<'signed'> {
  readonly maximum: string
  readonly deadline: string
  /** The value of PAYMENT-SIGNATURE: after a crash the same authorization is sent again. */
  readonly payment: string
  /** What the offer charges at least for gas, if it does. */
  readonly gasMinimum?: string | undefined
}

/** The service reported that the payment was not and will not be used. */
export interface RefusedEntry extends EntryOf<'refused'> {
  readonly status: number
  readonly code: string
}

/** The call was answered and charged. */
export interface AnsweredEntry extends EntryOf<'answered'> {
  readonly charge: string
  readonly transaction: string | null
  readonly receiptId: string | null
  readonly receiptToken: string | null
  /** What was authorized at most; missing if the answer needed no payment. */
  readonly maximum?: string | undefined
  /** Where several payments were open under this key, what each authorized: the charge is for one of them. */
  readonly maxima?: readonly string[] | undefined
  /** The highest minimum for gas that was signed for under this key, if there was one. */
  readonly gasMinimum?: string | undefined
  /** Whose limits of the budget the charge counts for. */
  readonly group?: string | undefined
}

/** Returns what a charge can have cost: no more than was authorized can be taken, whatever the service states. */
export function countedCharge({ charge, maximum = charge }: Pick<AnsweredEntry, 'charge' | 'maximum'>): bigint {
  const [stated, authorized] = [BigInt(charge), BigInt(maximum)]
  return stated < authorized ? stated : authorized
}

export interface VerifiedEntry extends EntryOf<'verified'> {
  readonly receiptId: string
  readonly outcome: 'passed' | 'failed'
  readonly problems: readonly string[]
  /** As the receipt names it. */
  readonly model?: string | undefined
}

/** An entry before its time is known. */
export type NewEntry = JournalEntry extends infer Entry
  ? Entry extends JournalEntry
    ? Omit<Entry, 'at'>
    : never
  : never

const PHASES: ReadonlySet<unknown> = new Set(['intended', 'quoted', 'signed', 'refused', 'answered', 'verified'])

/** Parses a line; `null` for a torn line or one of a later version. */
export function parseEntry(line: string): JournalEntry | null {
  const entry = parseObject(line) as Partial<JournalEntry> | undefined
  const isEntry = PHASES.has(entry?.phase) && typeof entry?.key === 'string' && typeof entry.at === 'string'
  return isEntry ? (entry as JournalEntry) : null
}
