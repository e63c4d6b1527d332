import { InvalidArgumentError } from 'commander'

export const DEFAULT_CONCURRENCY = 8

/** Returns a parser of whole numbers from a smallest one on. */
export function wholeNumber(smallest: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d{1,9}$/.test(text) && number >= smallest) return number
    throw new InvalidArgumentError(`Write a whole number of at least ${smallest}.`)
  }
}

export const LONG_HELP = `
Money:
  Before the first payment the total is shown, and a question asked on a terminal; elsewhere --yes is needed. What
  is paid for is remembered by its content: however often a run is killed and repeated, nothing is paid twice.

Output:
  stdout has the list of --dry-run, transcripts (-, --out -) or, with --json, one object a line with "event":
  planned, totals, approved, started, part, waiting, concurrency, finished, failed, skipped, warning, stopping,
  summary, error. Amounts are decimal USDC, durations milliseconds. Everything else is on stderr.

Exit codes:
  0 all done   1 some failed   2 usage   3 budget used up   4 funds or allowance missing   130 interrupted
  Ctrl-C lets what is under way finish; a second one leaves it, to be taken up by the next run.`
