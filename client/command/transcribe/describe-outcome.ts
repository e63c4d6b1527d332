import type { BatchEvent, BatchOutcome, FileFailure, PlannedFile, StoppedBy } from '../../batch/types.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { printable } from '../output/terminal.ts'
import { counted, duration, hours, speed, usdc } from './amounts.ts'

const BY_REASON: Readonly<Record<StoppedBy, ExitCode>> = {
  budget: EXIT.budget,
  funds: EXIT.funds,
  interrupt: EXIT.interrupted,
  service: EXIT.failed,
  local: EXIT.failed,
}

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

/** Returns the exit code of a batch: why it stopped comes before what failed. */
export function exitCodeOfOutcome({ interrupted, stoppedBy, failed }: BatchOutcome): ExitCode {
  if (interrupted) return EXIT.interrupted
  if (stoppedBy !== undefined) return BY_REASON[stoppedBy]
  return failed > 0 ? EXIT.failed : EXIT.done
}

/** Returns what `--json` reports of an event; `undefined` for figures that the other events contain. */
export function eventLine(event: BatchEvent): object | undefined {
  switch (event.event) {
    case 'progress':
      return undefined
    case 'totals':
      return { event: 'totals', ...event.totals }
    case 'planned': {
      const { index: _index, preferred: _preferred, ...file } = event.file
      return { event: 'planned', ...file, done: event.done, of: event.of }
    }
    case 'started':
    case 'skipped':
      return { event: event.event, ...shortForm(event.file) }
    case 'finished': {
      const { file, ...rest } = event
      return { ...rest, ...shortForm(file), outputs: file.outputs, receipt: file.receipt, kept: file.kept }
    }
    case 'part':
    case 'waiting':
    case 'failed': {
      const { file, ...rest } = event
      return { ...rest, ...shortForm(file) }
    }
    case 'warning': {
      const { file, ...rest } = event
      return { ...rest, ...(file && shortForm(file)) }
    }
    case 'approved':
    case 'concurrency':
    case 'stopping':
      return event
  }
}

/** Returns the last line of `--json`. */
export function summaryLine(outcome: BatchOutcome, exitCode: number): object {
  const { failures: _failures, stopError, ...figures } = outcome
  return { event: 'summary', ...figures, ...(stopError && { error: stopError }), exitCode }
}

function shortForm({ path, label, durationMs }: PlannedFile): object {
  return { path, label, durationMs }
}
