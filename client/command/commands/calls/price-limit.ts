import { type Command, InvalidArgumentError, Option } from 'commander'
import { formatUsdc, parseUsdc } from '../../../budget/usdc.ts'
import { FareboxError } from '../../../wire/farebox-error.ts'

/** Nothing was paid, because the price is above the limit of the command. */
class PriceAboveLimit extends FareboxError {
  override readonly name = 'PriceAboveLimit'

  constructor(price: bigint, limit: bigint) {
    super({
      code: 'price_above_limit',
      problem: `The price is at most ${formatUsdc(price)} USDC, above the limit of ${formatUsdc(limit)} USDC (--max).`,
      money: 'none',
      advice: 'Raise --max, or ask for less.',
    })
  }
}

/** Adds `--max`, whose value is in atomic units. */
export function addPriceLimit(command: Command): Command {
  return command.addOption(
    new Option('--max <usdc>', 'refuse a price above it, before anything is paid').argParser(amountOf),
  )
}

/** Throws `PriceAboveLimit` when a price is above the limit, if there is one. */
export function requirePrice(price: bigint, limit: bigint | undefined): void {
  if (limit !== undefined && price > limit) throw new PriceAboveLimit(price, limit)
}

function amountOf(text: string): bigint {
  try {
    return parseUsdc(text)
  } catch {
    throw new InvalidArgumentError('Write an amount of USDC with at most six decimals, such as 0.05.')
  }
}
