import type { BatchEvent } from '../../batch/types.ts'
import type { Output } from '../output/output.ts'
import { count } from './amounts.ts'
import { withLabel } from './file-text.ts'
import type { BatchReporter } from './reporter.ts'

const SHOWN_EVERY_MS = 100
const ERASE_LINE = '\r\u001b[K'

/** Reports how far planning is: a line that is overwritten on a terminal; elsewhere only what failed. */
export function createPlanReporter(output: Output): BatchReporter {
  let shownAt = 0
  const erase = () => {
    output.status(ERASE_LINE)
    shownAt = 0
  }
  output.status(`${ERASE_LINE}reading recordings`)
  return {
    onEvent(event: BatchEvent) {
      if (event.event === 'warning') {
        erase()
        output.warn(event.text)
      }
      if (event.event !== 'planned') return
      const { file, done, of } = event
      if (file.state === 'failed' && file.error !== undefined) {
        erase()
        output.failure(withLabel(file, file.error.message))
      }
      if (!output.terminal.isTerminal || Date.now() - shownAt < SHOWN_EVERY_MS) return
      shownAt = Date.now()
      output.status(`${ERASE_LINE}reading recordings ${count(done)}/${count(of)}`)
    },
    close: erase,
  }
}
