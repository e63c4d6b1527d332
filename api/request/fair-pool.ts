import { AppError } from '#shared/errors/app-error.ts'

/**
 * The networks of a caller, under which limits per client count it: that of the caller's host and, for IPv6, that of
 * its site.
 */
export type ClientGroups = readonly string[]

/** A limited resource that clients share. */
export interface FairPool {
  /**
   * Returns whether a client may take this much more; `share` is the part of the limit that this kind of work may use.
   */
  fits(client: ClientGroups, amount: number, share: number): boolean
  /** Counts what a client has taken. Call `fits` first. */
  take(client: ClientGroups, amount: number): void
  release(client: ClientGroups, amount: number): void
  readonly used: () => number
  readonly usedBy: (group: string) => number
}

/** A client may use at most this many times what it leaves free: a lone client gets three quarters of a pool. */
export const SHARE_OF_FREE = 3

/**
 * Creates a pool that no client can use up alone. A client may use at most three times what it leaves free: a lone
 * client gets three quarters of the pool, two that take turns get three sevenths each, and there is always something
 * left for the next one. Beyond that, nothing is held back. An item that finds the pool empty always fits, whatever its
 * size, so that a small limit never blocks everyone permanently.
 */
export function createFairPool(limit: number): FairPool {
  let used = 0
  const totals = new Map<string, number>()
  const usedBy = (group: string) => totals.get(group) ?? 0
  const add = (client: ClientGroups, amount: number) => {
    used += amount
    for (const group of client) {
      const total = usedBy(group) + amount
      if (total === 0) totals.delete(group)
      else totals.set(group, total)
    }
  }
  return {
    fits: (client, amount, share) => {
      if (used === 0) return true
      const free = limit * share - used - amount
      return free >= 0 && client.every((group) => usedBy(group) + amount <= SHARE_OF_FREE * free)
    },
    take: add,
    release: (client, amount) => add(client, -amount),
    used: () => used,
    usedBy,
  }
}

/**
 * The share of every limit that unpaid requests may use. The rest is kept for payments, so that signed retries find
 * room.
 */
export const UNPAID_SHARE = 0.75

/** Creates the refusal of work that does not fit, with the reason. */
export function overloaded(reason: string, retryAfterSeconds: number): AppError {
  const message = `The service accepts no more work at the moment. ${reason} No payment was taken; retry after the delay in Retry-After.`
  return new AppError('overloaded', { message, retryAfterSeconds })
}
