import { createLogUpdate } from 'log-update'
import type { BatchEvent } from '../../batch/types.ts'
import type { Io } from '../io.ts'
import type { Output } from '../output/output.ts'
import { type BatchView, firstView, nextView } from './batch-view.ts'
import { type BatchReporter, describeEvent } from './line-reporter.ts'
import { renderTable } from './render-table.ts'

const REFRESH_MS = 200

/** Some terminals report no size, or one of 0; the table is drawn for the size that is assumed then. */
function sizedStream({ stderr }: Io, { terminal }: Output): NodeJS.WriteStream {
  return {
    write: (text: string) => stderr.write(text),
    get columns() {
      return terminal.columns()
    },
    get rows() {
      return terminal.rows()
    },
  } as unknown as NodeJS.WriteStream
}

/** Reports a batch as a table that is drawn again and again; failures and warnings stay above it. */
export function createLiveReporter(
  io: Io,
  output: Output,
  { totals, concurrency, budgetLeft }: Pick<BatchView, 'totals' | 'concurrency'> & { budgetLeft: () => bigint | null },
): BatchReporter {
  const draw = createLogUpdate(sizedStream(io, output))
  let view: BatchView = firstView(totals, concurrency, Date.now())
  const refresh = () => draw(renderTable(view, { now: Date.now(), left: budgetLeft() }, output.terminal))
  const timer = setInterval(refresh, REFRESH_MS)
  timer.unref()
  refresh()
  return {
    onEvent(event: BatchEvent) {
      view = nextView(view, event, Date.now())
      const line = describeEvent(event, view)
      if (line === undefined || (line.level === 'note' && event.event !== 'approved')) return
      draw.clear()
      output[line.level](line.text)
      refresh()
    },
    close() {
      clearInterval(timer)
      draw.clear()
      draw.done()
    },
  }
}
