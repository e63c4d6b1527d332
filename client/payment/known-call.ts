import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import type { AnsweredEntry } from '../journal/entries.ts'
import type { Journal } from '../journal/journal.ts'

/** What the journal knows of a call that was made or begun before. */
export interface KnownCall {
  /** Equal for equal method, URL and body. */
  readonly identity: string
  readonly model: string | null
  /** `signed`: a payment was sent whose outcome is not known; repeated, the call sends the same one again. */
  readonly state: 'begun' | 'signed' | 'paid'
  /** What was authorized, as decimal USDC; `null` while nothing was. */
  readonly maximum: string | null
}

/** Returns what all processes wrote about a key, or `null`. */
export function knownCall(journal: Journal, key: string): KnownCall | null {
  journal.refresh()
  const attempt = journal.attempts.get(key)
  if (attempt === undefined || attempt.identity === '') return null
  const { identity, model, open, receipts } = attempt
  const [first] = receipts
  if (first !== undefined) return { identity, model, state: 'paid', maximum: authorized(first) }
  if (open?.isSigned !== true) return { identity, model, state: 'begun', maximum: null }
  return { identity, model, state: 'signed', maximum: formatUsdc(open.maximum) }
}

/** An answer that came without a payment of its own, after a loss of the journal, says nothing about the price. */
function authorized({ maximum, charge }: AnsweredEntry): string | null {
  const atomic = BigInt(maximum ?? charge)
  return atomic > 0n ? formatUsdc(atomic) : null
}

export interface NamedCall {
  readonly requestId: string
  readonly identity: string
  readonly purpose: string
}

/** Writes down what a key stands for whose payments have keys of their own. Nothing is sent under it. */
export function nameCall(
  { journal, payer, baseUrl }: Pick<FareboxContext, 'journal' | 'payer' | 'baseUrl'>,
  { requestId: key, identity, purpose }: NamedCall,
): void {
  const { origin } = new URL(baseUrl)
  journal.append({ phase: 'intended', key, origin, method: '', path: '', identity, purpose, payer })
}
