import type { BatchOutcome, FileFailure } from '../../batch/types.ts'
import { printable } from '../output/printable.ts'
import { counted, duration, hours, speed, usdc } from './amounts.ts'

const MOST_FAILURES = 20

/** Renders the end of a batch: what was done, what it cost, what failed and how to go on. */
export function describeOutcome(outcome: BatchOutcome, left: bigint | null): string {
  const { finished, kept, skipped, failed, notBegun, durationMs, elapsedMs, charged, replayed } = outcome
  const counts = [
    `${counted(finished, 'recording')} transcribed`,
    ...(kept > 0 ? [`${counted(kept, 'file')} of the same name kept`] : []),
    ...(skipped > 0 ? [`${skipped} finished before`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(notBegun > 0 ? [`${notBegun} not begun`] : []),
  ]
  const money = [
    `Charged ${usdc(charged)}`,
    ...(replayed > 0n ? [`${usdc(replayed)} was paid before`] : []),
    ...(left === null ? [] : [`${usdc(left)} left of the budget`]),
  ]
  const pace = `${hours(durationMs)} in ${duration(elapsedMs)}${finished > 0 ? `, ${speed(durationMs, elapsedMs)}` : ''}`
  return [
    `${counts.join(', ')}: ${pace}.`,
    `${money.join(', ')}.`,
    ...openPaymentsOf(outcome),
    ...howToGoOn(outcome),
  ].join('\n')
}

function openPaymentsOf({ openPayments, openMaximum }: BatchOutcome): string[] {
  if (openPayments === 0) return []
  const may = openPayments === 1 ? 'it may still be charged' : 'they may still be charged'
  const most = `at most ${usdc(openMaximum)}${openPayments === 1 ? '' : ' together'}`
  return [`${counted(openPayments, 'payment')} signed whose outcome is not known yet: ${may}, ${most}.`]
}

/** Renders what failed, to be read after a live table or thousands of lines. */
export function describeFailures(failures: readonly FileFailure[]): string | undefined {
  if (failures.length === 0) return undefined
  const shown = failures.slice(0, MOST_FAILURES).map(({ file, error }) => `  ${printable(file.label)} (${error.code})`)
  const more = failures.length - shown.length
  return [
    `${counted(failures.length, 'recording')} failed:`,
    ...shown,
    ...(more > 0 ? [`  and ${more} more`] : []),
  ].join('\n')
}

function howToGoOn({ stopError, interrupted, notBegun }: BatchOutcome): string[] {
  if (stopError !== undefined) return [stopError.message]
  if (interrupted || notBegun > 0) return ['Run the same command again to go on; nothing is paid twice.']
  return []
}
