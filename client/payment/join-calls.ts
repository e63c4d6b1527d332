import type { Journal } from '../journal/journal.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { PaidAnswer, PaidCall } from './paid-call.ts'
import { unlessAborted } from './retry-schedule.ts'

interface Underway {
  readonly identity: string
  readonly paid: Promise<PaidAnswer>
}

/** The calls of this process that are under way, by journal and key. */
const underway = new WeakMap<Journal, Map<string, Underway>>()

/**
 * Runs a call, or waits for the one under way with the same key: two payments for one key would reserve and sign twice.
 * A joined call whose runner was interrupted runs itself. Throws for another request under the same key.
 */
export async function joinCalls(
  journal: Journal,
  call: Pick<PaidCall, 'key' | 'identity' | 'signal'>,
  run: () => Promise<PaidAnswer>,
): Promise<PaidAnswer> {
  const calls = underway.get(journal) ?? new Map<string, Underway>()
  underway.set(journal, calls)
  for (;;) {
    const other = calls.get(call.key)
    if (other === undefined) return await runAlone(calls, call, run)
    if (other.identity !== call.identity) throw keyInUse(call)
    const paid = await ownEndOf(other.paid, call)
    if (paid !== null) return { ...paid, payment: { ...paid.payment, replayed: true } }
  }
}

async function runAlone(
  calls: Map<string, Underway>,
  { key, identity }: Pick<PaidCall, 'key' | 'identity'>,
  run: () => Promise<PaidAnswer>,
): Promise<PaidAnswer> {
  const paid = run()
  calls.set(key, { identity, paid })
  try {
    return await paid
  } finally {
    calls.delete(key)
  }
}

/** Returns the other call's answer, or `null` if it was interrupted and this one was not. */
async function ownEndOf(
  other: Promise<PaidAnswer>,
  { key, signal }: Pick<PaidCall, 'key' | 'signal'>,
): Promise<PaidAnswer | null> {
  if (signal?.aborted) throw aborted(key)
  try {
    return await unlessAborted(other, signal, () => aborted(key))
  } catch (error) {
    if (error instanceof FareboxError && error.code === 'aborted' && !signal?.aborted) return null
    throw error
  }
}

function keyInUse({ key }: Pick<PaidCall, 'key'>): FareboxError {
  const problem = 'Another request is under way with the same key.'
  const code = 'idempotency_key_reused'
  return new FareboxError({ code, problem, money: 'none', advice: 'Use another key for another request.', key })
}

function aborted(key: string): FareboxError {
  const advice = 'Repeat the call with the same key: it is charged at most once.'
  return new FareboxError({ code: 'aborted', problem: 'The call was interrupted.', money: 'unknown', advice, key })
}
