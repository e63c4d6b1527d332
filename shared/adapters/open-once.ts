import { setTimeout as delay } from 'node:timers/promises'

/** A resource that is opened on first use and then shared. */
export interface Opening<T> {
  /** Opens the resource unless it is open or being opened. After a failure the next call tries again. */
  get(): Promise<T>
  /** Returns the resource if it is open or being opened, `null` otherwise. */
  current(): Promise<T | null>
}

export function openOnce<T>(open: () => Promise<T>): Opening<T> {
  let current: Promise<T> | null = null
  return {
    get: () => {
      current ??= open().catch((error: unknown) => {
        current = null
        throw error
      })
      return current
    },
    current: async () => (await current?.catch(() => null)) ?? null,
  }
}

export interface Patience {
  readonly retryMs: number
  readonly onError: (error: Error) => void
}

/** Retries until the resource is open. Returns `null` when `signal` aborts first. */
export async function untilOpen<T>(
  opening: Opening<T>,
  signal: AbortSignal,
  { retryMs, onError }: Patience,
): Promise<T | null> {
  while (!signal.aborted) {
    try {
      return await opening.get()
    } catch (error) {
      if (!signal.aborted) onError(error instanceof Error ? error : new Error(String(error)))
      await delay(retryMs, undefined, { signal }).catch(() => undefined)
    }
  }
  return null
}
