import type { ClientGroups } from '../request/fair-pool.ts'

/** Limits of the callers that one process keeps waiting for their results. */
export interface HeldLimits {
  readonly total: number
  readonly perPayer: number
  /** Per network of the callers. */
  readonly perClient: number
  readonly perJob: number
}

/** A caller whose job is accepted and whose connection is to be held. */
export interface WaitingCaller {
  readonly client: ClientGroups
  readonly payer: string
  readonly jobId: string
}

/** The places of waiting callers. */
export interface HeldPlaces {
  /**
   * Takes a place and returns the function that frees it; `null` when there is none. The caller is then answered with
   * the job's current state and loses nothing: the same request attaches to the job later.
   */
  readonly take: (caller: WaitingCaller) => (() => void) | null
  readonly taken: () => number
}

/** Creates the places, all of them free. */
export function createHeldPlaces(limits: HeldLimits): HeldPlaces {
  let taken = 0
  const counts = new Map<string, number>()
  return {
    taken: () => taken,
    take: ({ client, payer, jobId }) => {
      const counted: [key: string, limit: number][] = [
        [`job ${jobId}`, limits.perJob],
        [`payer ${payer}`, limits.perPayer],
        ...client.map((group): [string, number] => [`client ${group}`, limits.perClient]),
      ]
      if (taken >= limits.total || counted.some(([key, limit]) => (counts.get(key) ?? 0) >= limit)) return null
      taken += 1
      for (const [key] of counted) counts.set(key, (counts.get(key) ?? 0) + 1)
      return () => {
        taken -= 1
        for (const [key] of counted) {
          const left = (counts.get(key) ?? 0) - 1
          if (left > 0) counts.set(key, left)
          else counts.delete(key)
        }
      }
    },
  }
}
