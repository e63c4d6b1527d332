import { LONGEST_TIMEOUT_SECONDS } from '../payment/check-challenge.ts'
import type { JournalEntry } from './entries.ts'
import type { WrittenEntry } from './file-entries.ts'

/**
 * Leaves out what later entries of the same writer supersede: payments and reservations of calls whose outcome is known,
 * and repeated intents. Receipts, open payments and the last outcome of each call stay, so that the remaining entries have
 * the same effect, also between those of other writers. Refused payments stay as long as they could be settled.
 */
export function compactEntries(entries: readonly WrittenEntry[], now: number): readonly WrittenEntry[] {
  const byKey = new Map<string, WrittenEntry[]>()
  for (const written of entries) {
    const of = byKey.get(written.entry.key)
    if (of === undefined) byKey.set(written.entry.key, [written])
    else of.push(written)
  }
  const kept = [...byKey.values()].flatMap((call) => (hasRefusedLately(call, now) ? call : compactCall(call)))
  return kept.sort((a, b) => a.line - b.line)
}

/** They count against what may be signed until their deadlines. */
function hasRefusedLately(call: readonly WrittenEntry[], now: number): boolean {
  const since = now - LONGEST_TIMEOUT_SECONDS * 1000
  return call.some(({ entry }) => entry.phase === 'refused' && Date.parse(entry.at) > since)
}

function compactCall(call: readonly WrittenEntry[]): readonly WrittenEntry[] {
  const lastOutcome = call.findLastIndex(({ entry: { phase } }) => phase === 'answered' || phase === 'refused')
  const described = new Set([...lastOf(call, 'intended'), ...lastOf(call, 'verified')])
  const receipts = new Set<string>()
  return call.filter((written, index) => {
    const { entry } = written
    switch (entry.phase) {
      case 'intended':
      case 'verified':
        return described.has(written)
      case 'quoted':
      case 'signed':
        return index > lastOutcome
      case 'refused':
        return index === lastOutcome
      case 'answered':
        // The last one ends what other writers have opened, even if it repeats an answer.
        return isNewReceipt(entry.receiptId, receipts) || index === lastOutcome
    }
  })
}

/** Without an id, every answer counts as a charge of its own. */
function isNewReceipt(receiptId: string | null, receipts: Set<string>): boolean {
  if (receiptId === null) return true
  const isNew = !receipts.has(receiptId)
  receipts.add(receiptId)
  return isNew
}

/** Returns the last entry of a phase, and the last one that names the model. */
function lastOf(call: readonly WrittenEntry[], phase: JournalEntry['phase']): readonly WrittenEntry[] {
  const all = call.filter(({ entry }) => entry.phase === phase)
  const named = all.filter(({ entry }) => 'model' in entry && entry.model !== undefined)
  return [all.at(-1), named.at(-1)].filter((written) => written !== undefined)
}
