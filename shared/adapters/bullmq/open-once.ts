import { setTimeout as delay } from 'node:timers/promises'
import { TAKER_RETRY_MS } from './queue-engine.ts'

/** Something that is opened for whoever needs it first, and shared by all. */
export interface Opening<T> {
  /** Opens it, unless it is open or being opened. After a failure the next caller tries anew. */
  get(): Promise<T>
  /** What is open or being opened; `null` without one. */
  present(): Promise<T | null>
}

export function openOnce<T>(open: () => Promise<T>): Opening<T> {
  let present: Promise<T> | null = null
  return {
    get: () => {
      present ??= open().catch((error: unknown) => {
        present = null
        throw error
      })
      return present
    },
    present: async () => (await present?.catch(() => null)) ?? null,
  }
}

/** Tries until it is open; `null` when `signal` came first. */
export async function untilOpen<T>(
  opening: Opening<T>,
  signal: AbortSignal,
  onError: (error: Error) => void,
): Promise<T | null> {
  while (!signal.aborted) {
    try {
      return await opening.get()
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)))
      await delay(TAKER_RETRY_MS, undefined, { signal }).catch(() => undefined)
    }
  }
  return null
}
