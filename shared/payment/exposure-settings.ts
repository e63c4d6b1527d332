import { z } from 'zod'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { UnchargedBudget } from './uncharged-budget.ts'

/** An amount in USDC as a setting. */
export const dollars = (standard: string) =>
  z
    .string()
    .regex(/^\d{1,9}(\.\d{1,6})?$/)
    .default(standard)
    .transform(atomicFromDollars)

/** Settings of what payers may have open and uncharged; the same for API and workers, since both check them. */
export const exposureSettings = {
  /** Limit of one payer's open exposure, in USDC. */
  MAXIMUM_OPEN_EXPOSURE_USDC: dollars('20'),
  /** A payer's uncharged work within an hour, in USDC, beyond what they paid for within it. */
  UNCHARGED_BUDGET_USDC: dollars('1').refine((amount) => amount > 0n, 'must be more than 0'),
}

/** Settings of payments that are not covered by what their payers have paid so far; for the API. */
export const newPayerSettings = {
  /** Limit of what such payments together may lose within a day or have open, in USDC; a network gets a share of it. */
  NEW_PAYER_DAILY_LOSS_USDC: dollars('20'),
}

const UNCHARGED_WINDOW_SECONDS = 3600

const settingsSchema = z.object(exposureSettings)

/** Returns the budget of uncharged work that the settings describe. */
export function unchargedBudget(settings: z.infer<typeof settingsSchema>): UnchargedBudget {
  return {
    windowSeconds: UNCHARGED_WINDOW_SECONDS,
    perPayer: settings.UNCHARGED_BUDGET_USDC,
    maximumForgiven: settings.MAXIMUM_OPEN_EXPOSURE_USDC,
  }
}
