import { InvalidArgumentError } from 'commander'

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
