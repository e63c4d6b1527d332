import { type AnsweredEntry, countedCharge, type JournalEntry } from './entries.ts'

/** What the journal knows about the call of one idempotency key. */
export interface Attempt {
  readonly key: string
  readonly origin: string
  readonly method: string
  readonly path: string
  readonly identity: string
  readonly purpose: string
  readonly payer: string
  readonly model: string | null
  readonly phase: JournalEntry['phase']
  readonly changedAt: number
  /** What may still be charged. */
  readonly open: OpenMaximum | null
  /** Payments that the service says it did not and will not use, in the order of their signatures. */
  readonly refused: readonly OpenMaximum[]
  /** The payment that was signed last and is not answered yet. */
  readonly payment: string | null
  /** The sum of what was charged; a replay is not counted again. */
  readonly charged: bigint
  readonly receipts: readonly AnsweredEntry[]
  readonly verification: 'none' | 'passed' | 'failed'
  /** What failed. */
  readonly problems: readonly string[]
  /** The journal file that wrote its last entry. */
  readonly writer: string
}

export interface OpenMaximum {
  readonly maximum: bigint
  /** Milliseconds: a reservation ends then, a signed payment cannot be settled after it. */
  readonly until: number
  readonly isSigned: boolean
  /** Whose limits of the budget it counts for. */
  readonly group?: string | undefined
}

const UNKNOWN = { origin: '', method: '', path: '', identity: '', purpose: '', payer: '', model: null } as const

/** Returns the attempt after one more entry. */
export function applyEntry(before: Attempt | undefined, entry: JournalEntry, writer: string): Attempt {
  const changedAt = Date.parse(entry.at)
  const start: Attempt = before ?? {
    ...UNKNOWN,
    key: entry.key,
    phase: 'intended',
    changedAt,
    open: null,
    refused: [],
    payment: null,
    charged: 0n,
    receipts: [],
    verification: 'none',
    problems: [],
    writer,
  }
  const next = { ...start, phase: entry.phase, changedAt, writer }
  switch (entry.phase) {
    case 'intended': {
      const { origin, method, path, identity, purpose, payer } = entry
      return { ...next, origin, method, path, identity, purpose, payer, model: entry.model ?? start.model }
    }
    case 'quoted':
      return { ...next, open: atLeast(start.open, openMaximum(entry.maximum, entry.expiresAt, false, entry.group)) }
    case 'signed':
      return {
        ...next,
        payment: entry.payment,
        open: atLeast(start.open, openMaximum(entry.maximum, entry.deadline, true, start.open?.group)),
      }
    case 'refused':
      return {
        ...next,
        payment: null,
        open: null,
        refused: start.open?.isSigned ? [...start.refused, start.open] : start.refused,
      }
    case 'answered':
      return { ...next, payment: null, open: null, ...withReceipt(start, entry) }
    case 'verified':
      return {
        ...next,
        verification: entry.outcome,
        problems: entry.problems,
        model: entry.model ?? start.model,
      }
  }
}

function openMaximum(digits: string, time: string, isSigned: boolean, group: string | undefined): OpenMaximum {
  return { maximum: BigInt(digits), until: Date.parse(time), isSigned, group }
}

/** A signed payment stays open while another one is prepared under its key: the higher maximum counts. */
function atLeast(before: OpenMaximum | null, next: OpenMaximum): OpenMaximum {
  if (!before?.isSigned) return next
  return {
    maximum: next.maximum > before.maximum ? next.maximum : before.maximum,
    until: Math.max(next.until, before.until),
    isSigned: true,
    group: next.group ?? before.group,
  }
}

function withReceipt({ charged, receipts }: Attempt, entry: AnsweredEntry): Pick<Attempt, 'charged' | 'receipts'> {
  const isReplay = entry.receiptId !== null && receipts.some(({ receiptId }) => receiptId === entry.receiptId)
  if (isReplay) return { charged, receipts }
  return { charged: charged + countedCharge(entry), receipts: [...receipts, entry] }
}
