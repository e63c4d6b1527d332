import { z } from 'zod'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { weiFromDecimal } from '#shared/money/native-token.ts'

const HOUR_SECONDS = 3600

/** Settings of the API for permits whose gas the service pays. */
export const sponsoringSettings = {
  /** The least USDC that the owner of a sponsored permit has, and the least value of the permit. */
  SPONSORED_ALLOWANCE_MINIMUM_BALANCE_USDC: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,6})?$/)
    .default('0.10')
    .transform(atomicFromDollars)
    .refine((amount) => amount > 0n, 'must be more than 0'),
  /** Time until an owner's next sponsored permit after one that cost gas. */
  SPONSORED_ALLOWANCE_OWNER_HOURS: z.coerce.number().min(0).max(8760).default(24),
  /**
   * The most that all sponsored permits of 24 hours may cost, in the network's native token (ETH on Base); 0 switches
   * sponsoring off.
   */
  SPONSORED_GAS_DAILY_MAXIMUM: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,18})?$/, 'must be an amount of the native token, such as 0.002')
    .default('0.002')
    .transform(weiFromDecimal),
}

const settingsSchema = z.object(sponsoringSettings)

/** The limits that the settings describe. */
export interface SponsoringTerms {
  readonly minimumBalance: bigint
  readonly perOwnerSeconds: number
  readonly dailyGasWei: bigint
}

/** Returns the limits of sponsored permits, or `null` when the operator switched sponsoring off. */
export function sponsoringTerms(settings: z.infer<typeof settingsSchema>): SponsoringTerms | null {
  if (settings.SPONSORED_GAS_DAILY_MAXIMUM === 0n) return null
  return {
    minimumBalance: settings.SPONSORED_ALLOWANCE_MINIMUM_BALANCE_USDC,
    perOwnerSeconds: settings.SPONSORED_ALLOWANCE_OWNER_HOURS * HOUR_SECONDS,
    dailyGasWei: settings.SPONSORED_GAS_DAILY_MAXIMUM,
  }
}
