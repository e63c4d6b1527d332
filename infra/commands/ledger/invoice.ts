import { parse } from 'csv-parse/sync'
import { z } from 'zod'
import type { VendorWork } from '#shared/ledger/reports/vendor-work.ts'
import { oneLine, UsageError } from '../command-line.ts'

/** Units of an invoice: the field of `usage` or the rest of one that they measure, and how many of its units one of them is. */
const UNITS = {
  input_tokens: ['input_tokens', 1n],
  uncached_input_tokens: ['uncached_input_tokens', 1n],
  cached_input_tokens: ['cached_input_tokens', 1n],
  cache_write_tokens: ['cache_write_tokens', 1n],
  output_tokens: ['output_tokens', 1n],
  images: ['images', 1n],
  characters: ['input_characters', 1n],
  audio_seconds: ['input_audio_ms', 1000n],
  audio_minutes: ['input_audio_ms', 60_000n],
  audio_hours: ['input_audio_ms', 3_600_000n],
} as const satisfies Record<string, readonly [string, bigint]>

export const INVOICE_UNITS = Object.keys(UNITS).join(', ')

/** An exact decimal: `numerator` / 10^`decimals`. Negative for a credit. */
interface Decimal {
  readonly numerator: bigint
  readonly decimals: number
}

const decimal = z
  .string()
  .regex(/^-?\d{1,15}(\.\d{1,30})?$/, { error: 'must be a decimal number' })
  .transform((text): Decimal => {
    const [whole = '', fraction = ''] = text.split('.')
    return { numerator: BigInt(whole + fraction), decimals: fraction.length }
  })

const lineSchema = z.object({
  day: z.iso.date({ error: 'must be a UTC day, YYYY-MM-DD' }),
  model: z.string().min(1, { error: 'is empty' }),
  unit: z.enum(Object.keys(UNITS) as (keyof typeof UNITS)[], { error: `must be one of ${INVOICE_UNITS}` }),
  quantity: decimal,
  amount_usd: decimal,
})

export type InvoiceLine = z.infer<typeof lineSchema>

/** Reads the lines of an invoice. Throws a `UsageError` that names the first line and column that is wrong. */
export function parseInvoice(text: string): readonly InvoiceLine[] {
  let rows: readonly { readonly record: unknown; readonly info: { readonly lines: number } }[]
  try {
    rows = parse(text, { bom: true, columns: true, info: true, skip_empty_lines: true, trim: true })
  } catch (error) {
    throw new UsageError(`the invoice is not CSV: ${oneLine(error instanceof Error ? error.message : String(error))}`)
  }
  if (rows.length === 0) throw new UsageError('the invoice has no lines')
  return rows.map(({ record, info }) => {
    const line = lineSchema.safeParse(record)
    if (line.success) return line.data
    const [issue] = line.error.issues
    const column = issue?.path.join('.') ?? ''
    throw new UsageError(`line ${info.lines} of the invoice: ${column} ${issue?.message ?? 'is not valid'}`)
  })
}

export type InvoiceComparison = ReturnType<typeof compareInvoice>

/** Returns the days that an invoice covers. */
export function daysOf(lines: readonly InvoiceLine[]): { readonly first: string; readonly last: string } {
  const days = lines.map(({ day }) => day).toSorted()
  return { first: days.at(0) ?? '', last: days.at(-1) ?? '' }
}

/**
 * Compares an invoice with the ledger by day and model, in units and in money. Invoice and ledger agree where they differ by
 * no more than the last decimals of the invoice, and a millionth of a dollar for each call, which the ledger rounds up.
 * An invoice may name upstream models or deployments; what is the name of both is that of the model. `upstreamModels` are
 * those that each deployment was published with. Throws a `UsageError` when it names one attempt
 * in two ways.
 */
export function compareInvoice(
  lines: readonly InvoiceLine[],
  work: readonly VendorWork[],
  upstreamModels: ReadonlyMap<string, readonly string[]>,
) {
  const models = [...new Set(lines.map(({ model }) => model))]
  const published = new Set([...upstreamModels.values()].flat())
  const isOf = (model: string, one: VendorWork) =>
    published.has(model) ? one.upstreamModel === model : one.deployment === model
  const twice = work.find((one) => models.filter((model) => isOf(model, one)).length > 1)
  if (twice !== undefined)
    throw new UsageError(
      `the invoice names ${twice.deployment} in two ways: name all of its lines by its upstream model`,
    )
  const unknownModels = models.filter((model) => !published.has(model) && !upstreamModels.has(model))
  const known = models.filter((model) => !unknownModels.includes(model))
  const compared = known.flatMap((model) => {
    const recorded = work.filter((one) => isOf(model, one))
    const invoiced = lines.filter((line) => line.model === model)
    const days = [...new Set([...invoiced, ...recorded].map(({ day }) => day))].toSorted()
    return days.flatMap((day) =>
      compareDay(
        { day, model },
        invoiced.filter((line) => line.day === day),
        recorded.filter((one) => one.day === day),
      ),
    )
  })
  const isNamed = (one: VendorWork) => models.some((model) => isOf(model, one))
  return {
    lines: lines.length,
    days: daysOf(lines),
    differences: compared,
    /** Models of the invoice that no published deployment has. */
    unknownModels,
    /**
     * Deployments with work on these days that the invoice does not name, with its model: another vendor's, or
     * forgotten.
     */
    notInvoiced: [...new Set(work.filter((one) => !isNamed(one)).map(withModel))],
    /**
     * Attempts of its models whose cost is not in the ledger: those that failed with an unknown outcome, or had no
     * prices.
     */
    unknownAttempts: work.reduce((sum, one) => sum + (isNamed(one) ? one.unknown : 0), 0),
  }
}

function withModel({ deployment, upstreamModel }: VendorWork): string {
  return `${deployment} (${upstreamModel})`
}

/**
 * Returns what a vendor bills otherwise than the ledger recorded it. The unit is a field of `usage`, with counts of it,
 * or `usd`, with atomic USDC.
 */
function compareDay(
  of: { readonly day: string; readonly model: string },
  lines: readonly InvoiceLine[],
  work: readonly VendorWork[],
) {
  const calls = work.reduce((sum, { attempts }) => sum + BigInt(attempts), 0n)
  const fields = [...new Set(lines.map(({ unit }) => UNITS[unit][0]))]
  const units = fields.map((field) => {
    const measuring = lines.filter(({ unit }) => UNITS[unit][0] === field)
    const invoiced = sumOf(measuring.map(({ unit, quantity }) => scaled(quantity, UNITS[unit][1])))
    return {
      ...of,
      unit: field,
      ...invoiced,
      recorded: work.reduce((sum, { usage }) => sum + measured(usage, field), 0n),
    }
  })
  const billed = sumOf(lines.map(({ amount_usd }) => scaled(amount_usd, 1_000_000n)))
  const money = {
    ...of,
    unit: 'usd',
    invoiced: billed.invoiced,
    tolerance: billed.tolerance + calls,
    recorded: work.reduce((sum, { costAtomic }) => sum + costAtomic, 0n),
  }
  return [...units, money].flatMap(({ tolerance, ...difference }) => {
    const { invoiced, recorded } = difference
    const by = invoiced > recorded ? invoiced - recorded : recorded - invoiced
    return by > tolerance ? [difference] : []
  })
}

/** Returns what was measured of a field. Vendors bill input that their cache had no part in on a line of its own. */
function measured(usage: VendorWork['usage'], field: string): bigint {
  const { input_tokens: input = 0n, cached_input_tokens: cached = 0n, cache_write_tokens: written = 0n } = usage
  return field === 'uncached_input_tokens' ? input - cached - written : (usage[field] ?? 0n)
}

interface Scaled {
  readonly invoiced: bigint
  /** Half of its last decimal, rounded up; 0 for an exact one. */
  readonly tolerance: bigint
}

function scaled({ numerator, decimals }: Decimal, unitsOfOne: bigint): Scaled {
  const scale = 10n ** BigInt(decimals)
  const isExact = decimals === 0 && unitsOfOne === 1n
  const half = numerator < 0n ? -scale / 2n : scale / 2n
  return {
    invoiced: (numerator * unitsOfOne + half) / scale,
    tolerance: isExact ? 0n : (unitsOfOne + 2n * scale - 1n) / (2n * scale),
  }
}

function sumOf(parts: readonly Scaled[]): Scaled {
  return {
    invoiced: parts.reduce((sum, { invoiced }) => sum + invoiced, 0n),
    tolerance: parts.reduce((sum, { tolerance }) => sum + tolerance, 0n),
  }
}
