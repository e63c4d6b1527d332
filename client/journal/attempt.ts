import { larger } from '../budget/usdc.ts'
import { type AnsweredEntry, countedCharge, type IntendedEntry, type JournalEntry } from './entries.ts'

type AttemptListener = (after: Attempt, isOwn: boolean) => void

/** The calls of all journal files, by key. */
export class Attempts {
  readonly #byKey = new Map<string, Attempt>()
  readonly #byIdentity = new Map<string, Set<string>>()
  readonly #byReceipt = new Map<string, string>()
  readonly #listeners = new Set<AttemptListener>()

  apply(entry: JournalEntry, writer: string, isOwn: boolean): void {
    const after = applyEntry(this.#byKey.get(entry.key), entry, writer)
    this.#byKey.set(entry.key, after)
    if (entry.phase === 'intended') this.#index(entry.identity, entry.key)
    if (entry.phase === 'answered' && entry.receiptId !== null) this.#byReceipt.set(entry.receiptId, entry.key)
    for (const listener of this.#listeners) listener(after, isOwn)
  }

  get(key: string): Attempt | undefined {
    return this.#byKey.get(key)
  }

  all(): Iterable<Attempt> {
    return this.#byKey.values()
  }

  /** Returns the calls with the same method, URL and body, oldest first. */
  withIdentity(identity: string): readonly Attempt[] {
    const keys = [...(this.#byIdentity.get(identity) ?? [])]
    return keys.map((key) => this.#byKey.get(key)).filter((attempt) => attempt !== undefined)
  }

  /** Returns the call that a receipt is of. */
  withReceipt(receiptId: string): Attempt | undefined {
    const key = this.#byReceipt.get(receiptId)
    return key === undefined ? undefined : this.#byKey.get(key)
  }

  /** Reports every later change, after one report for each call that is known already. */
  subscribe(listener: AttemptListener): void {
    for (const attempt of this.#byKey.values()) listener(attempt, false)
    this.#listeners.add(listener)
  }

  #index(identity: string, key: string): void {
    const keys = this.#byIdentity.get(identity)
    if (keys === undefined) this.#byIdentity.set(identity, new Set([key]))
    else keys.add(key)
  }
}

/** What the journal knows about the call of one idempotency key. */
export interface Attempt extends Omit<IntendedEntry, 'phase' | 'at' | 'model'> {
  readonly model: string | null
  readonly phase: JournalEntry['phase']
  readonly changedAt: number
  /** What may still be charged. */
  readonly open: OpenMaximum | null
  /** Payments that the service says it did not and will not use, in the order of their signatures. */
  readonly refused: readonly OpenMaximum[]
  /** The payment that was signed last and is not answered yet. */
  readonly payment: string | null
  /** The highest minimum for gas of its signed offers: a payment for a withheld result keeps the first one. */
  readonly gasMinimum: bigint
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
  /** Those of all payments that it is the highest of, each once. */
  readonly maxima: readonly bigint[]
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
    gasMinimum: 0n,
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
        gasMinimum: larger(start.gasMinimum, BigInt(entry.gasMinimum ?? 0)),
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
  const maximum = BigInt(digits)
  return { maximum, maxima: [maximum], until: Date.parse(time), isSigned, group }
}

/** A signed payment stays open while another one is prepared under its key: the higher maximum counts. */
function atLeast(before: OpenMaximum | null, next: OpenMaximum): OpenMaximum {
  if (!before?.isSigned) return next
  return {
    maximum: larger(next.maximum, before.maximum),
    maxima: [...new Set([...before.maxima, ...next.maxima])],
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
