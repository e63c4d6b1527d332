import type { Journal } from '../journal/journal.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { PaidAnswer, PaidCall } from './paid-call.ts'

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
    if (other.identity !== call.identity) throw keyInUse(call.key)
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
  if (isAborted(signal)) throw aborted(key)
  const race = new AbortController()
  const interrupted = new Promise<never>((_resolve, reject) => {
    // The listener ends with the race.
    signal?.addEventListener('abort', () => reject(aborted(key)), { once: true, signal: race.signal })
  })
  try {
    return await Promise.race([other, interrupted])
  } catch (error) {
    const isOthers = error instanceof FareboxError && error.code === 'aborted' && !isAborted(signal)
    if (isOthers) return null
    throw error
  } finally {
    race.abort()
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true
}

function keyInUse(key: string): FareboxError {
  const error = new FareboxError({
    code: 'idempotency_key_reused',
    problem: 'Another request is under way with the same key.',
    money: 'none',
    advice: 'Use another key for another request.',
  })
  error.key = key
  return error
}

function aborted(key: string): FareboxError {
  const error = new FareboxError({
    code: 'aborted',
    problem: 'The call was interrupted.',
    money: 'unknown',
    advice: 'Repeat the call with the same key: it is charged at most once.',
  })
  error.key = key
  return error
}
