import { z } from 'zod'

/** A day: timers end at once when they are longer than 24. */
const LONGEST_TIMEOUT_MS = 86_400_000

/** One URL or several, separated by commas; a comma within a URL is written %2C. */
export const rpcUrls = z
  .string({ error: 'is not set' })
  .min(1, { error: 'is not set' })
  .transform((list) => list.split(',').map((url) => url.trim()))
  .pipe(z.array(z.url({ protocol: /^https?$/, error: 'must be an http(s) URL, or several separated by commas' })))

/** The settings of API and workers for the nodes of the payment network. */
export const chainSettings = {
  /** Reads go to the first node that answers and is not behind the others, transactions to all of them. */
  RPC_URL: rpcUrls,
  /** A call that takes longer counts as an unreachable node. */
  RPC_TIMEOUT_MS: z.coerce.number().int().positive().max(LONGEST_TIMEOUT_MS).default(5000),
}

/** The settings of those who start paid work. */
export const chainHeadSettings = {
  /** No paid work starts while the newest block is older; 0 where blocks come only with transactions. */
  MAXIMUM_HEAD_AGE_SECONDS: z.coerce.number().min(0).default(20),
}

/** Returns the age beyond which a newest block is too old to start paid work. */
export function maximumHeadAgeMs(settings: { readonly MAXIMUM_HEAD_AGE_SECONDS: number }): number {
  return settings.MAXIMUM_HEAD_AGE_SECONDS === 0 ? Number.POSITIVE_INFINITY : settings.MAXIMUM_HEAD_AGE_SECONDS * 1000
}
