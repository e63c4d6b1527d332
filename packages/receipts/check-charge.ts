import { type Exact, equals, over, parseExact, plus, roundedUp, times, whole } from './exact.ts'

/** What is read of a receipt, which is not trusted: any of it may be missing or have another form. */
export interface ChargedReceipt {
  readonly usage: Readonly<Record<string, number>>
  readonly unit_prices: Readonly<Record<string, string | number>>
  readonly quoted_maximum_atomic: string
  readonly authorized_maximum_atomic: string
  readonly charge_atomic: string
  readonly charge_usdc: string
  readonly calculation?: Calculation | undefined
}

interface Calculation {
  readonly lines: readonly {
    readonly usage: string
    readonly measured: number
    readonly at_most: number | null
    readonly quantity: string
    readonly unit_price_usd: string
    readonly per_units: string
    readonly product_usd: string
  }[]
  readonly sum_usd: string
  readonly rounded_atomic: string
  readonly minimum_atomic: string
  readonly gas_minimum_atomic?: string | undefined
  readonly maximum_atomic: string
  readonly applied: string
  readonly charge_atomic: string
}

/** What was found about one part of a receipt. */
export interface ChargeCheck {
  readonly check: 'calculation' | 'charge' | 'maximum'
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly detail: string
}

/**
 * The quantity that a price of the published pricing applies to. `bound` names the field of `unit_prices` that caps the
 * quantity in receipts of earlier versions; in later ones it is `at_most` of the calculation.
 */
interface Priced {
  readonly usage: string
  readonly units: bigint
  readonly bound?: string
}

const PRICES: Readonly<Record<string, Priced>> = {
  input_per_million_tokens_usd: { usage: 'input_tokens', units: 1_000_000n, bound: 'maximum_input_tokens' },
  output_per_million_tokens_usd: { usage: 'output_tokens', units: 1_000_000n, bound: 'maximum_output_tokens' },
  price_per_image_usd: { usage: 'images', units: 1n },
  price_per_thousand_characters_usd: { usage: 'input_characters', units: 1000n, bound: 'maximum_characters' },
  price_per_audio_hour_usd: { usage: 'input_audio_ms', units: 3_600_000n },
}
/** Prices of parts of the input, which the vendor's prompt cache took or gave. With one of them, the input has three lines. */
const CACHED_PRICE = 'cached_input_per_million_tokens_usd'
const WRITE_PRICE = 'cache_write_per_million_tokens_usd'
const INPUT_PRICE = 'input_per_million_tokens_usd'
/** What settling the charge was expected to cost, where that is above the minimum. */
const GAS_MINIMUM = 'gas_minimum_charge_usd'
const BOUNDS = new Set(['minimum_charge_usd', 'maximum_charge_usd', GAS_MINIMUM])
const ATOMIC_PER_DOLLAR = whole(1_000_000)

interface Line {
  readonly usage: string
  readonly measured: number
  readonly atMost: number | null
  readonly quantity: bigint
  readonly price: Exact
  readonly units: bigint
  readonly product: Exact
}

interface Recomputed {
  readonly lines: readonly Line[]
  readonly sum: Exact
  readonly rounded: bigint
  readonly minimum: bigint
  /** `null` where the minimum does not follow the gas. */
  readonly gasMinimum: bigint | null
  readonly maximum: bigint
  /** The bound that decided the charge. */
  readonly applied: string
  readonly charge: bigint
}

/** Recomputes the charge from usage and unit prices and compares it with the receipt. */
export function checkCharge(receipt: ChargedReceipt): readonly ChargeCheck[] {
  try {
    const recomputed = recompute(receipt)
    return [checkCalculation(receipt, recomputed), checkResult(receipt, recomputed)]
  } catch (error) {
    return [judged('charge', [`cannot be recomputed: ${(error as Error).message}`], '')]
  }
}

function recompute(receipt: ChargedReceipt): Recomputed {
  const { unit_prices, quoted_maximum_atomic, authorized_maximum_atomic } = receipt
  const priceFields = Object.keys(unit_prices).filter((field) => field.endsWith('_usd') && !BOUNDS.has(field))
  const lines =
    CACHED_PRICE in unit_prices || WRITE_PRICE in unit_prices
      ? [
          ...inputLines(receipt),
          ...priceFields
            .filter((field) => ![INPUT_PRICE, CACHED_PRICE, WRITE_PRICE].includes(field))
            .map((field) => lineOf(field, receipt)),
        ]
      : priceFields.map((field) => lineOf(field, receipt))
  if (lines.length === 0) throw new Error('unit_prices contains no price')
  const sum = lines.reduce((total, { product }) => plus(total, product), whole(0))
  const rounded = roundedUp(times(sum, ATOMIC_PER_DOLLAR))
  const atomicOf = (field: string) => roundedUp(times(parseExact(String(unit_prices[field] ?? '0')), ATOMIC_PER_DOLLAR))
  const minimum = atomicOf('minimum_charge_usd')
  const gasMinimum = GAS_MINIMUM in unit_prices ? atomicOf(GAS_MINIMUM) : null
  const [lowest, raisedBy] =
    gasMinimum !== null && gasMinimum > minimum ? [gasMinimum, 'gas_minimum'] : [minimum, 'minimum']
  const maximum = least(BigInt(quoted_maximum_atomic), BigInt(authorized_maximum_atomic))
  const [atLeast, raised] = rounded < lowest ? [lowest, raisedBy] : [rounded, 'none']
  const applied = atLeast > maximum ? 'maximum' : raised
  return { lines, sum, rounded, minimum, gasMinimum, maximum, applied, charge: least(atLeast, maximum) }
}

function lineOf(field: string, receipt: ChargedReceipt): Line {
  const { usage, unit_prices: prices } = receipt
  const priced = PRICES[field]
  if (!priced) throw new Error(`this version does not know the price ${field}`)
  const measured = usage[priced.usage]
  if (!isCount(measured)) throw new Error(`usage lacks ${priced.usage}, which ${field} applies to`)
  const bound = priced.bound === undefined ? null : boundOf(priced.usage, priced.bound, receipt)
  return line(priced.usage, measured, bound, String(prices[field]), priced.units)
}

/**
 * Returns the lines of an input whose parts have prices of their own, in the order in which they are charged until the
 * maximum of the whole is reached. A part without a price of its own has that of the input.
 */
function inputLines(receipt: ChargedReceipt): readonly Line[] {
  const { usage, unit_prices: prices } = receipt
  const { input_tokens: input, cached_input_tokens: cached = 0, cache_write_tokens: written = 0 } = usage
  if (!isCount(input) || !isCount(cached) || !isCount(written)) throw new Error('usage lacks input_tokens')
  if (cached + written > input) throw new Error('usage has more cached and written tokens than input_tokens')
  const price = prices[INPUT_PRICE]
  if (price === undefined) throw new Error(`unit_prices lacks ${INPUT_PRICE}`)
  let room = boundOf('cached_input_tokens', 'maximum_input_tokens', receipt)
  return (
    [
      ['cached_input_tokens', cached, prices[CACHED_PRICE] ?? price],
      ['uncached_input_tokens', input - cached - written, price],
      ['cache_write_tokens', written, prices[WRITE_PRICE] ?? price],
    ] as const
  ).map(([name, measured, priceUsd]) => {
    const found = line(name, measured, room, String(priceUsd), 1_000_000n)
    room -= Number(found.quantity)
    return found
  })
}

function line(usage: string, measured: number, atMost: number | null, priceUsd: string, units: bigint): Line {
  const quantity = least(BigInt(measured), BigInt(atMost ?? measured))
  const price = parseExact(priceUsd)
  return { usage, measured, atMost, quantity, price, units, product: over(times(whole(quantity), price), whole(units)) }
}

/**
 * Returns the quantity that is charged at most. A wrong `at_most` cannot raise the charge: it stays within the quoted
 * and the authorized maximum.
 */
function boundOf(usage: string, bound: string, { unit_prices, calculation }: ChargedReceipt): number {
  const atMost = unit_prices[bound] ?? calculation?.lines.find((line) => line.usage === usage)?.at_most
  if (!isCount(atMost)) throw new Error(`neither unit_prices nor calculation has the maximum of ${usage}`)
  return atMost
}

/** Checks each step of the receipt's calculation. Receipts of earlier versions have none. */
function checkCalculation({ calculation, charge_atomic }: ChargedReceipt, recomputed: Recomputed): ChargeCheck {
  if (!calculation)
    return {
      check: 'calculation',
      outcome: 'skipped',
      detail: 'the receipt shows none; the charge is recomputed all the same',
    }
  const problems: string[] = []
  const expectEqual = (name: string, isEqual: boolean) => (isEqual ? undefined : problems.push(`${name} is wrong`))
  for (const line of recomputed.lines) {
    const shown = calculation.lines.find(({ usage }) => usage === line.usage)
    if (!shown) {
      problems.push(`no line for ${line.usage}`)
      continue
    }
    expectEqual(
      `${line.usage}: measured ${shown.measured}, usage says ${line.measured},`,
      shown.measured === line.measured,
    )
    expectEqual(`${line.usage}: at_most`, shown.at_most === line.atMost)
    expectEqual(`${line.usage}: quantity`, BigInt(shown.quantity) === line.quantity)
    expectEqual(`${line.usage}: unit price`, equals(parseExact(shown.unit_price_usd), line.price))
    expectEqual(`${line.usage}: per_units`, BigInt(shown.per_units) === line.units)
    expectEqual(`${line.usage}: product`, equals(parseExact(shown.product_usd), line.product))
  }
  expectEqual('the number of lines', calculation.lines.length === recomputed.lines.length)
  expectEqual('sum_usd', equals(parseExact(calculation.sum_usd), recomputed.sum))
  expectEqual('rounded_atomic', BigInt(calculation.rounded_atomic) === recomputed.rounded)
  expectEqual('minimum_atomic', BigInt(calculation.minimum_atomic) === recomputed.minimum)
  const { gas_minimum_atomic: shownGas = null } = calculation
  expectEqual('gas_minimum_atomic', (shownGas === null ? null : BigInt(shownGas)) === recomputed.gasMinimum)
  expectEqual('maximum_atomic', BigInt(calculation.maximum_atomic) === recomputed.maximum)
  expectEqual('applied', calculation.applied === recomputed.applied)
  expectEqual('its charge_atomic', calculation.charge_atomic === charge_atomic)
  const quantities = recomputed.lines.map(({ usage, quantity }) => `${usage} ${quantity}`).join(', ')
  return judged('calculation', problems, `every line follows from usage and unit prices (${quantities})`)
}

function checkResult({ charge_atomic, charge_usdc }: ChargedReceipt, recomputed: Recomputed): ChargeCheck {
  const charge = BigInt(charge_atomic)
  const problems = [
    ...(charge === recomputed.charge
      ? []
      : [`is ${charge}, but usage and unit prices yield ${recomputed.charge} atomic USDC`]),
    ...(equals(times(parseExact(charge_usdc), ATOMIC_PER_DOLLAR), whole(charge))
      ? []
      : [`charge_usdc ${charge_usdc} is not charge_atomic ${charge}`]),
  ]
  return judged('charge', problems, `${charge_usdc} USDC, recomputed from usage and unit prices`)
}

/** Checks that the charge is within the authorized and the quoted maximum. */
export function checkMaximum(receipt: ChargedReceipt): ChargeCheck {
  const { charge_atomic: charge, authorized_maximum_atomic: authorized, quoted_maximum_atomic: quoted } = receipt
  const problems = [
    ...(BigInt(charge) > BigInt(authorized) ? [`charged ${charge}, but ${authorized} was authorized`] : []),
    ...(BigInt(charge) > BigInt(quoted) ? [`charged ${charge}, but ${quoted} was quoted`] : []),
  ]
  return judged('maximum', problems, `${charge} of at most ${authorized} authorized`)
}

function judged(check: ChargeCheck['check'], problems: readonly string[], detail: string): ChargeCheck {
  if (problems.length === 0) return { check, outcome: 'passed', detail }
  return { check, outcome: 'failed', detail: problems.join('; ') }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
