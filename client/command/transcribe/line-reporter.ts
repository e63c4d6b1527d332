import { dirname, relative } from 'node:path'
import type { BatchEvent, BatchTotals, PlannedFile, StoppedBy } from '../../batch/types.ts'
import { APPROVAL_TEXT } from '../commands/calls/notes.ts'
import type { Output } from '../output/output.ts'
import { printable } from '../output/terminal.ts'
import { count, counted, duration, usdc } from './amounts.ts'
import { type BatchView, firstView, isPlannedFailure, nextView } from './batch-view.ts'

const SHOWN_EVERY_MS = 100
const ERASE_LINE = '\r\u001b[K'

/** Shows a running batch to people or programs. */
export interface BatchReporter {
  onEvent(event: BatchEvent): void
  /** Leaves the terminal as other programs expect it. */
  close(): void
}

interface EventLine {
  readonly level: 'note' | 'warn' | 'failure'
  readonly text: string
}

const STOPPED_BY: Readonly<Record<StoppedBy, string>> = {
  budget: 'What is left does not fit into the budget.',
  funds: 'The wallet cannot pay for more.',
  interrupt: 'Interrupted.',
  service: 'The service cannot be used any longer.',
  local: 'This machine cannot go on.',
}

/** Reports a batch as lines on stderr, for logs. */
export function createLineReporter(output: Output, totals: BatchTotals, concurrency: number): BatchReporter {
  let view = firstView(totals, concurrency, 0)
  return {
    onEvent(event: BatchEvent) {
      view = nextView(view, event, 0)
      const line = describeEvent(event, view)
      // A program that reads the events on stdout needs no second report of them.
      if (line === undefined || (line.level === 'note' && output.json)) return
      output[line.level](line.text)
    },
    close: () => undefined,
  }
}

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

/** Returns the line about an event in a log, in the view after it; `undefined` for what a log does not show. */
export function describeEvent(event: BatchEvent, { totals, ended }: BatchView): EventLine | undefined {
  switch (event.event) {
    case 'approved':
      return note(APPROVAL_TEXT)
    case 'waiting':
      return note(`waiting ${duration(event.waitMs)}: ${withLabel(event.file, event.reason)}`)
    case 'finished': {
      const price = event.replayed ? 'paid before' : usdc(event.charged)
      const place = `[${ended}/${totals.toDo + totals.duplicates}]`
      return note(`${place} ${withOutputs(event.file)} (${duration(event.file.durationMs)}, ${price})`)
    }
    case 'failed':
      if (isPlannedFailure(event.file)) return undefined
      return { level: 'failure', text: withLabel(event.file, event.error.message) }
    case 'concurrency':
      return note(`now ${counted(event.concurrency, 'upload')} at once (${event.reason})`)
    case 'warning':
      return { level: 'warn', text: event.file ? withLabel(event.file, event.text) : event.text }
    case 'stopping':
      return { level: 'warn', text: stoppingText(event.stoppedBy, event.underWay) }
    default:
      return undefined
  }
}

function stoppingText(stoppedBy: StoppedBy, underWay: number): string {
  const reason = STOPPED_BY[stoppedBy]
  if (underWay === 0) return `${reason} Nothing more is begun.`
  const rest = `${reason} ${counted(underWay, 'recording')} under way will finish.`
  return stoppedBy === 'interrupt' ? `${rest} Ctrl-C again leaves them to the next run.` : rest
}

function note(text: string): EventLine {
  return { level: 'note', text }
}

/** Renders a file with its transcripts, such as `talks/a.mp3 → a.srt, a.txt`. */
export function withOutputs({ path, label, outputs }: PlannedFile): string {
  const names = outputs.map((output) => {
    const name = relative(dirname(path), output)
    return printable(name.startsWith('..') ? output : name)
  })
  return names.length === 0 ? printable(label) : `${printable(label)} → ${names.join(', ')}`
}

/** Renders a message about a file, which may begin with its path already. */
function withLabel({ path, label }: PlannedFile, message: string): string {
  const named = [path, label].find((name) => message.startsWith(`${name}: `))
  return `${printable(label)}: ${printable(named === undefined ? message : message.slice(named.length + 2))}`
}
