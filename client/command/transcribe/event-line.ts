import type { BatchEvent, BatchOutcome, PlannedFile } from '../../batch/types.ts'

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
