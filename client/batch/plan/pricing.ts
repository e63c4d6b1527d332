import { type AudioLimits, type AudioPrices, longestAtMinimumMs } from '../../audio/limits.ts'
import { larger } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import { askForJson, type FreeRequest } from '../../wire/ask-service.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { isObject } from '../../wire/json.ts'
import type { OfferedOptions } from './batch-request.ts'

/** What the service charges and accepts, from `GET /v1/pricing`. */
export interface TranscriptionTerms {
  readonly limits: AudioLimits
  readonly prices: AudioPrices
  /** Returns the charge of one upload in atomic USDC, as the service computes it; the most of it where it follows the gas. */
  readonly priceOf: (durationMs: number) => bigint
  /** What recordings can be asked for. */
  readonly offered: OfferedOptions
}

interface PricingEntry {
  readonly model: string
  readonly price_per_audio_hour_usd: string
  readonly minimum_charge_usd: string
  readonly maximum_charge_usd: string
  /** What settling a charge costs at the moment, where calls cost at least that. */
  readonly gas_minimum_charge_usd?: string
  /** Missing from a service that publishes none. */
  readonly minimum_audio_duration_ms?: string
  readonly maximum_audio_duration_ms: string
  readonly maximum_audio_bytes: number
  /** Missing from a service that publishes none. */
  readonly supported_options?: unknown
}

const MILLISECONDS_PER_HOUR = 3_600_000n
const USDC_DECIMALS = 6
/** More than any published price has. */
const DECIMALS = 18
const SCALE = 10n ** BigInt(DECIMALS - USDC_DECIMALS)

/** Asks for the published terms of a model. */
export async function askTerms(
  farebox: Pick<Farebox, 'fetch' | 'baseUrl'>,
  model: string,
  request: Pick<FreeRequest, 'signal' | 'patienceMs' | 'onWait'> = {},
): Promise<TranscriptionTerms> {
  const { fetch, baseUrl } = farebox
  const url = new URL('/v1/pricing', baseUrl).href
  const { data } = await askForJson<{ readonly data?: unknown }>({ fetch, now: Date.now }, url, request)
  const entries = Array.isArray(data) ? (data as readonly (Partial<PricingEntry> | null)[]) : []
  const entry = entries.find((one) => one?.model === model)
  if (entry?.price_per_audio_hour_usd === undefined)
    throw uncharged(
      'unknown_model',
      `The service has no transcription model ${JSON.stringify(model)}.`,
      'GET /v1/models lists the models.',
    )
  try {
    return termsOf(entry as PricingEntry)
  } catch (cause) {
    throw uncharged(
      'unusable_prices',
      `The service’s prices of ${JSON.stringify(model)} cannot be used (${cause instanceof Error ? cause.message : String(cause)}).`,
      'Check the URL of the service, and ask its operator.',
      cause,
    )
  }
}

/** Room for gas that becomes dearer between planning and the call; no more is charged than the service quotes. */
const GAS_ROOM = 2n

/**
 * Computes prices exactly: the hour's price in proportion, rounded up once, at least the minimum, at most the maximum. Where
 * the minimum follows the gas, they are upper bounds.
 */
export function termsOf(entry: Omit<PricingEntry, 'model'>): TranscriptionTerms {
  const hour = scaled(entry.price_per_audio_hour_usd)
  const { minimum_charge_usd: published, gas_minimum_charge_usd: gas = '0' } = entry
  const minimum = larger(roundedUp(scaled(published), SCALE), roundedUp(scaled(gas) * GAS_ROOM, SCALE))
  const maximum = roundedUp(scaled(entry.maximum_charge_usd), SCALE)
  const { minimum_audio_duration_ms: least } = entry
  return {
    limits: {
      maximumBytes: positive(entry.maximum_audio_bytes),
      ...(least !== undefined && { minimumDurationMs: positive(Number(least)) }),
      maximumDurationMs: positive(Number(entry.maximum_audio_duration_ms)),
    },
    prices: {
      pricePerAudioHourUsd: entry.price_per_audio_hour_usd,
      minimumChargeUsd: scaled(gas) > scaled(published) ? gas : published,
    },
    priceOf: (durationMs) => {
      const exact = roundedUp(hour * BigInt(durationMs), SCALE * MILLISECONDS_PER_HOUR)
      const atLeast = larger(exact, minimum)
      return atLeast > maximum ? maximum : atLeast
    },
    offered: offeredOf(entry.supported_options),
  }
}

function offeredOf(published: unknown): OfferedOptions {
  const lists = isObject(published) ? Object.entries(published).filter(([, values]) => Array.isArray(values)) : []
  return Object.fromEntries(lists)
}

/** A last part below this is charged the minimum, which is pointless where every part is, or refused as too short. */
export function minimumPartMs({ limits, prices }: Pick<TranscriptionTerms, 'limits' | 'prices'>): number {
  const { minimumDurationMs = 0, maximumDurationMs } = limits
  return Math.min(Math.max(longestAtMinimumMs(prices), minimumDurationMs), maximumDurationMs / 2)
}

function positive(limit: number): number {
  if (!(Number.isSafeInteger(limit) && limit > 0)) throw new RangeError(`not a limit: ${limit}`)
  return limit
}

function scaled(amount: string): bigint {
  if (typeof amount !== 'string') throw new RangeError('a price is missing')
  const [whole = '', decimals = ''] = amount.split('.')
  if (!/^\d+$/.test(whole + decimals) || decimals.length > DECIMALS) throw new RangeError(`not a price: ${amount}`)
  return BigInt(whole + decimals.padEnd(DECIMALS, '0'))
}

function roundedUp(value: bigint, divisor: bigint): bigint {
  return (value + divisor - 1n) / divisor
}
