import { z } from 'zod'
import type { JsonValue } from '#shared/digests/canonical-json.ts'

/** The `max_tokens` up to which the time limit of any provider call is long enough. */
const ORDINARY_OUTPUT_TOKENS = 16_384

/** The largest `max_tokens` of any request. */
export const LONGEST_OUTPUT_TOKENS = 65_536

/** Timers end after 24 days at most; no payment is valid for a day longer than its call. */
const LONGEST_SECONDS = 86_400

/** How long a payment must be valid beyond its call, so that it can be settled. */
export const SETTLEMENT_MARGIN_SECONDS = 60

/** How long a payment that is accepted may wait for a worker before too little of its time is left for the call. */
const START_MARGIN_SECONDS = 30

/** Settings, the same for API and workers, that decide how long a call may take and its payment must be valid. */
export const callTimeSettings = {
  /** The requested lifetime of an authorization. */
  AUTHORIZATION_LIFETIME_SECONDS: z.coerce
    .number()
    .int()
    .positive()
    .max(2 * LONGEST_SECONDS)
    .default(900),
  /** The time limit of a provider call; a long answer gets more time. */
  PROVIDER_TIMEOUT_SECONDS: z.coerce.number().positive().max(LONGEST_SECONDS).default(270),
  /** A text call gets this much more time for each output token that it may have beyond 16,384. */
  OUTPUT_TOKENS_PER_SECOND: z.coerce.number().positive().default(128),
}

const settingsSchema = z.object(callTimeSettings)
type CallTimeSettings = z.infer<typeof settingsSchema>

/** Returns how long a payment must still be valid at acceptance, for an answer of ordinary length. */
export function minimumRemainingSeconds(settings: Pick<CallTimeSettings, 'PROVIDER_TIMEOUT_SECONDS'>): number {
  return Math.ceil(settings.PROVIDER_TIMEOUT_SECONDS) + SETTLEMENT_MARGIN_SECONDS + START_MARGIN_SECONDS
}

/** Checks a settings schema (`.check`): a payment must outlast the longest call that is sold and its settlement. */
export function checkCallTimes({ value, issues }: z.core.ParsePayload<CallTimeSettings>): void {
  const longest = { maximum_output_tokens: LONGEST_OUTPUT_TOKENS }
  const needed = minimumRemainingSeconds(value) + extraOutputSeconds(longest, value.OUTPUT_TOKENS_PER_SECOND)
  if (value.AUTHORIZATION_LIFETIME_SECONDS >= needed) return
  const message = `must be at least ${Math.ceil(needed)}: PROVIDER_TIMEOUT_SECONDS, the time for an answer of ${LONGEST_OUTPUT_TOKENS} tokens beyond it, and ${SETTLEMENT_MARGIN_SECONDS + START_MARGIN_SECONDS} seconds to start and to settle it`
  issues.push({ code: 'custom', path: ['AUTHORIZATION_LIFETIME_SECONDS'], message, input: undefined })
}

const termsSchema = z.object({ maximum_output_tokens: z.int().positive() })

/**
 * Returns the time that a call may take beyond the ordinary limit, since a request that asks for a long answer must be
 * able to receive it: in proportion to the output tokens beyond 16,384, and 0 for operations without output tokens.
 */
export function extraOutputSeconds(terms: JsonValue, tokensPerSecond: number): number {
  const parsed = termsSchema.safeParse(terms)
  if (!parsed.success) return 0
  return Math.max(0, parsed.data.maximum_output_tokens - ORDINARY_OUTPUT_TOKENS) / tokensPerSecond
}
