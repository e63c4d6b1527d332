import { type Command, InvalidArgumentError, Option } from 'commander'
import { formatUsdc, parseUsdc, readUsdc } from '../../../budget/usdc.ts'
import { IDEMPOTENCY_KEY } from '../../../payment/call-key.ts'
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

/** Returns a parser that takes decimal amounts of USDC as they are; a refusal names an example. */
export function amountLike(example: string): (text: string) => string {
  return (text) => {
    if (readUsdc(text) !== null) return text
    throw new InvalidArgumentError(`Write an amount of USDC with at most six decimals, such as ${example}.`)
  }
}

/** Returns a parser of integers within bounds. */
export function integerBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`Write an integer from ${least} to ${most}.`)
  }
}

/** Returns a parser of decimal numbers within bounds. */
export function decimalBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+(\.\d+)?$/.test(text) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`Write a number from ${least} to ${most}.`)
  }
}

/** Adds `--max`, whose value is in atomic units. */
export function addPriceLimit(command: Command): Command {
  const amount = amountLike('0.05')
  const limit = new Option('--max <usdc>', 'refuse a price above it, before anything is paid')
  return command.addOption(limit.argParser((text) => parseUsdc(amount(text))))
}

/** Adds `--request-id`, checked here so that a wrong one is wrong usage and not a failed call. */
export function addRequestId(command: Command): Command {
  const key = new Option('--request-id <id>', 'idempotency key: a call that is repeated with it is charged once')
  return command.addOption(
    key.argParser((text) => {
      if (IDEMPOTENCY_KEY.test(text)) return text
      throw new InvalidArgumentError('Write 1 to 255 visible ASCII characters, without spaces.')
    }),
  )
}

/** Throws `PriceAboveLimit` when a price is above the limit, if there is one. */
export function requirePrice(price: bigint, limit: bigint | undefined): void {
  if (limit !== undefined && price > limit) throw new PriceAboveLimit(price, limit)
}
