import type { BatchEvent, StoppedBy } from '../../batch/types.ts'
import { approvalText } from '../commands/calls/allowance-text.ts'
import { counted, duration, usdc } from './amounts.ts'
import { type BatchView, isPlannedFailure } from './batch-view.ts'
import { withLabel, withOutputs } from './file-text.ts'

export interface EventLine {
  readonly level: 'note' | 'warning' | 'failure'
  readonly text: string
}

/** Returns the line about an event in a log, in the view after it; `undefined` for what a log does not show. */
export function describeEvent(event: BatchEvent, { totals, ended }: BatchView): EventLine | undefined {
  switch (event.event) {
    case 'approved':
      return note(approvalText(event.transaction))
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
      return { level: 'warning', text: event.file ? withLabel(event.file, event.text) : event.text }
    case 'stopping':
      return { level: 'warning', text: stoppingText(event.stoppedBy, event.underWay) }
    default:
      return undefined
  }
}

const STOPPED_BY: Readonly<Record<StoppedBy, string>> = {
  budget: 'The budget is used up.',
  funds: 'The wallet cannot pay for more.',
  interrupt: 'Interrupted.',
  service: 'The service cannot be used any longer.',
  local: 'This machine cannot go on.',
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
