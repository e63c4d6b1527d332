import { formatUsdc, parseUsdc } from '../budget/usdc.ts'
import type { Receipt } from '../wire/schemas.ts'
import { judge, type ReceiptCheck, skip } from './receipt-check.ts'

/** A fraction with a positive denominator: receipts state prices and sums without rounding. */
interface Exact {
  readonly numerator: bigint
  readonly denominator: bigint
}

const ZERO: Exact = { numerator: 0n, denominator: 1n }

/** What each published price is a price of, and for how many units of it. */
const PRICES: Readonly<Record<string, { readonly usage: string; readonly units: bigint }>> = {
  input_per_million_tokens_usd: { usage: 'input_tokens', units: 1_000_000n },
  output_per_million_tokens_usd: { usage: 'output_tokens', units: 1_000_000n },
  price_per_image_usd: { usage: 'images', units: 1n },
  price_per_thousand_characters_usd: { usage: 'input_characters', units: 1000n },
  price_per_audio_hour_usd: { usage: 'input_audio_ms', units: 3_600_000n },
}
const BOUNDS: ReadonlySet<string> = new Set(['minimum_charge_usd', 'maximum_charge_usd'])
const ATOMIC_PER_DOLLAR = 1_000_000n

type Calculation = NonNullable<Receipt['calculation']>

interface Line {
  readonly usage: string
  readonly measured: bigint
  readonly quantity: bigint
  readonly price: Exact
  readonly units: bigint
  readonly product: Exact
}

/**
 * Computes the charge from measured usage and unit prices, with exact arithmetic and rounding up once, and compares it
 * with the receipt and each step of its calculation.
 */
export function checkCharge(receipt: Receipt): readonly ReceiptCheck[] {
  const maximum = checkMaximum(receipt)
  try {
    const lines = priceNames(receipt).map((name) => lineOf(name, receipt))
    if (lines.length === 0) throw new RangeError('it states no unit price')
    const sum = lines.reduce((total, { product }) => add(total, product), ZERO)
    return [maximum, checkCalculation(receipt, lines, sum), checkResult(receipt, sum)]
  } catch (error) {
    return [maximum, judge('charge', [`it cannot be recomputed: ${(error as Error).message}`], '')]
  }
}

/** The charge is never above what was quoted and what was authorized. */
function checkMaximum({ charge_atomic, authorized_maximum_atomic, quoted_maximum_atomic }: Receipt): ReceiptCheck {
  const charge = BigInt(charge_atomic)
  const limits = [
    ['authorized', BigInt(authorized_maximum_atomic)],
    ['quoted', BigInt(quoted_maximum_atomic)],
  ] as const
  const problems = limits.flatMap(([name, limit]) =>
    charge > limit ? [`${formatUsdc(charge)} USDC were charged, but ${formatUsdc(limit)} USDC were ${name}`] : [],
  )
  return judge('maximum', problems, `${formatUsdc(charge)} of at most ${formatUsdc(limits[0][1])} USDC`)
}

function priceNames({ unit_prices: prices }: Receipt): readonly string[] {
  return Object.keys(prices).filter((name) => name.endsWith('_usd') && !BOUNDS.has(name))
}

function lineOf(name: string, { usage, unit_prices: prices, calculation }: Receipt): Line {
  const priced = PRICES[name]
  if (priced === undefined) throw new RangeError(`this version of the client does not know the price ${name}`)
  const measured = usage[priced.usage]
  if (!isCount(measured)) throw new RangeError(`it measures no ${priced.usage}`)
  // A wrong bound can only lower a charge, which stays within the maximum in any case.
  const bound = calculation?.lines.find((line) => line.usage === priced.usage)?.at_most ?? measured
  if (!isCount(bound)) throw new RangeError(`its bound of ${priced.usage} is not a number`)
  const quantity = BigInt(Math.min(measured, bound))
  const price = parseExact(String(prices[name]))
  return {
    usage: priced.usage,
    measured: BigInt(measured),
    quantity,
    price,
    units: priced.units,
    product: scale(price, quantity, priced.units),
  }
}

/** Checks each step that the receipt shows; earlier versions showed none. */
function checkCalculation({ calculation, charge_atomic }: Receipt, lines: readonly Line[], sum: Exact): ReceiptCheck {
  if (calculation === undefined) return skip('calculation', 'the receipt shows none')
  const problems = [
    ...lines.flatMap((line) => problemsOfLine(line, calculation)),
    ...(calculation.lines.length === lines.length ? [] : ['it has lines without a price']),
    ...(isEqual(parseExact(calculation.sum_usd), sum) ? [] : ['its sum is wrong']),
    ...(calculation.rounded_atomic === atomic(sum).toString() ? [] : ['it is rounded wrongly']),
    ...(calculation.charge_atomic === charge_atomic ? [] : ['it ends with another charge']),
  ]
  return judge('calculation', problems, lines.map(({ usage, quantity }) => `${usage} ${quantity}`).join(', '))
}

function problemsOfLine(line: Line, { lines }: Calculation): readonly string[] {
  const shown = lines.find(({ usage }) => usage === line.usage)
  if (shown === undefined) return [`it has no line for ${line.usage}`]
  const steps = {
    measured: BigInt(shown.measured) === line.measured,
    quantity: shown.quantity === line.quantity.toString(),
    'unit price': isEqual(parseExact(shown.unit_price_usd), line.price),
    units: shown.per_units === line.units.toString(),
    product: isEqual(parseExact(shown.product_usd), line.product),
  }
  return Object.entries(steps).flatMap(([name, isRight]) => (isRight ? [] : [`its ${name} of ${line.usage} is wrong`]))
}

function checkResult(receipt: Receipt, sum: Exact): ReceiptCheck {
  const stated = BigInt(receipt.charge_atomic)
  const minimum = atomic(parseExact(String(receipt.unit_prices['minimum_charge_usd'] ?? '0')))
  const [rounded, quoted, authorized] = [
    atomic(sum),
    BigInt(receipt.quoted_maximum_atomic),
    BigInt(receipt.authorized_maximum_atomic),
  ]
  const raised = rounded < minimum ? minimum : rounded
  const computed = [raised, quoted, authorized].reduce((least, each) => (each < least ? each : least))
  const problems = [
    ...(stated === computed
      ? []
      : [`${formatUsdc(stated)} USDC were charged, but usage and prices make ${formatUsdc(computed)} USDC`]),
    ...(parseUsdc(receipt.charge_usdc) === stated ? [] : ['charge_usdc is not charge_atomic']),
  ]
  return judge('charge', problems, `${formatUsdc(stated)} USDC, recomputed from usage and unit prices`)
}

function atomic(dollars: Exact): bigint {
  return roundUp(scale(dollars, ATOMIC_PER_DOLLAR))
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Reads `12`, `0.122` or `226493/45000000`. Throws `RangeError` for any other text. */
function parseExact(text: string): Exact {
  const match = /^(\d{1,40})(?:\.(\d{1,40})|\/([1-9]\d{0,40}))?$/.exec(text)
  if (match === null) throw new RangeError(`${JSON.stringify(text)} is not an exact amount`)
  const [, whole = '', decimals = '', divisor = ''] = match
  if (divisor !== '') return { numerator: BigInt(whole), denominator: BigInt(divisor) }
  return { numerator: BigInt(whole + decimals), denominator: 10n ** BigInt(decimals.length) }
}

function add(a: Exact, b: Exact): Exact {
  return {
    numerator: a.numerator * b.denominator + b.numerator * a.denominator,
    denominator: a.denominator * b.denominator,
  }
}

/** Returns `exact` × `by` ÷ `per`. */
function scale({ numerator, denominator }: Exact, by: bigint, per = 1n): Exact {
  return { numerator: numerator * by, denominator: denominator * per }
}

function isEqual(a: Exact, b: Exact): boolean {
  return a.numerator * b.denominator === b.numerator * a.denominator
}

function roundUp({ numerator, denominator }: Exact): bigint {
  return (numerator + denominator - 1n) / denominator
}
