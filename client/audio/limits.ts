/** What the model accepts, from `GET /v1/models`. */
export interface AudioLimits {
  readonly maximumBytes: number
  /** Absent from a service that publishes none. */
  readonly minimumDurationMs?: number
  readonly maximumDurationMs: number
}

/** Prices of the model in decimal dollars, from `GET /v1/models`. */
export interface AudioPrices {
  readonly pricePerAudioHourUsd: string
  readonly minimumChargeUsd: string
}

/** Kilobit/s that every sample rate of MP3 has, and with which speech stays clear. */
const BIT_RATES = [64, 56, 48, 40, 32, 24, 16, 8]
/** Leaves room for the encoder's delay and for tags. */
const SHARE_OF_LIMIT = 0.9
const MILLISECONDS_PER_HOUR = 3_600_000n
const DECIMAL_AMOUNT = /^\d{1,15}(\.\d{1,18})?$/
const DECIMALS = 18

/** Returns the bit rate in kbit/s with which a recording of the longest duration stays below the limit of bytes. */
export function bitRateFor({ maximumBytes, maximumDurationMs }: AudioLimits): number {
  const limit = ((maximumBytes * 8) / maximumDurationMs) * SHARE_OF_LIMIT
  return BIT_RATES.find((rate) => rate <= limit) ?? 8
}

/**
 * Returns the duration in milliseconds up to which a recording is charged the minimum, whatever its length: the longest
 * one whose price by the hour does not exceed it. Infinite if recordings cost nothing by the hour.
 */
export function longestAtMinimumMs({ pricePerAudioHourUsd, minimumChargeUsd }: AudioPrices): number {
  const price = scaled(pricePerAudioHourUsd)
  if (price === 0n) return Number.POSITIVE_INFINITY
  return Number((scaled(minimumChargeUsd) * MILLISECONDS_PER_HOUR) / price)
}

function scaled(amount: string): bigint {
  if (!DECIMAL_AMOUNT.test(amount)) throw new RangeError(`Not an amount in decimal dollars: ${amount}`)
  const [whole = '', decimals = ''] = amount.split('.')
  return BigInt(whole + decimals.padEnd(DECIMALS, '0'))
}
