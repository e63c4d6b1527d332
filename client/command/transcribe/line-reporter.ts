import type { BatchEvent, BatchTotals } from '../../batch/types.ts'
import type { Output } from '../output/output.ts'
import { firstView, nextView } from './batch-view.ts'
import { describeEvent } from './describe-event.ts'
import type { BatchReporter } from './reporter.ts'

/** Reports a batch as lines on stderr, for logs. */
export function createLineReporter(output: Output, totals: BatchTotals, concurrency: number): BatchReporter {
  let view = firstView(totals, concurrency, 0)
  return {
    onEvent(event: BatchEvent) {
      view = nextView(view, event, 0)
      const line = describeEvent(event, view)
      if (line === undefined) return
      if (line.level === 'note') {
        // A program that reads the events on stdout needs no second report of them.
        if (!output.json) output.note(line.text)
      } else if (line.level === 'warning') output.warn(line.text)
      else output.failure(line.text)
    },
    close: () => undefined,
  }
}
