/**
 * The networks that a caller belongs to, which limits per client are counted by: that of the caller's host and, for
 * IPv6, that of its site.
 */
export type ClientGroups = readonly string[]

/** A limited resource that clients share. */
export interface FairPool {
  /** Returns whether a client may take this much more; `share` is the part of the limit that is open to this kind of work. */
  fits(client: ClientGroups, amount: number, share: number): boolean
  /** Counts what a client has taken. Call `fits` first. */
  take(client: ClientGroups, amount: number): void
  release(client: ClientGroups, amount: number): void
  readonly used: () => number
  readonly usedBy: (group: string) => number
}

/** How many times what is left free one client may use: a lone client gets three quarters of a pool. */
export const SHARE_OF_FREE = 3

/**
 * Creates a pool in which no client shuts the others out. A client may use at most three times what it leaves free, so
 * that a lone client gets three quarters of the pool, two that take turns get three sevenths each, and there is always
 * something left for the next one. What nobody else wants is not held back beyond that. An item that finds the pool empty always fits,
 * whatever its size, so that a small limit never blocks everyone permanently.
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
