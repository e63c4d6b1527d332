import type { BatchEvent, BatchProgress, BatchTotals, PlannedFile, StoppedBy } from '../../batch/types.ts'

/** What people see of a running batch. */
export interface BatchView {
  readonly startedAt: number
  readonly totals: BatchTotals
  readonly progress: BatchProgress
  /** Files to do that are finished or have failed. */
  readonly ended: number
  /** Files under way by their index, in the order of their beginning. */
  readonly underWay: ReadonlyMap<number, FileUnderWay>
  readonly concurrency: number
  readonly stoppedBy: StoppedBy | undefined
}

export interface FileUnderWay {
  readonly label: string
  readonly durationMs: number
  readonly startedAt: number
  readonly partsDone: number
  readonly parts: number
  readonly waiting: WaitingFile | undefined
}

interface WaitingFile {
  readonly reason: string
  readonly until: number
  /** Since when there is no answer, if that is the reason. */
  readonly silentSince: number | undefined
}

const NO_PROGRESS: BatchProgress = {
  finished: 0,
  skipped: 0,
  failed: 0,
  underWay: 0,
  notBegun: 0,
  durationMs: 0,
  charged: 0n,
  replayed: 0n,
}

export function firstView(totals: BatchTotals, concurrency: number, now: number): BatchView {
  return {
    startedAt: now,
    totals,
    progress: { ...NO_PROGRESS, notBegun: totals.toDo + totals.duplicates },
    ended: 0,
    underWay: new Map(),
    concurrency,
    stoppedBy: undefined,
  }
}

/** Returns the view after an event. */
export function nextView(view: BatchView, event: BatchEvent, now: number): BatchView {
  switch (event.event) {
    case 'progress':
      return { ...view, progress: event.progress }
    case 'started':
      return withFile(view, event.file, begun(event.file, now))
    case 'part':
      return change(view, event.file, now, (file) => ({ ...file, partsDone: file.partsDone + 1, waiting: undefined }))
    case 'waiting': {
      const { code, waitMs, silentMs } = event
      const silentSince = silentMs === undefined ? undefined : now - silentMs
      const waiting = { reason: code, until: now + waitMs, silentSince }
      return change(view, event.file, now, (file) => ({ ...file, waiting }))
    }
    case 'finished':
    case 'failed':
      return isPlannedFailure(event.file) ? view : withoutFile(view, event.file)
    case 'concurrency':
      return { ...view, concurrency: event.concurrency }
    case 'stopping':
      return { ...view, stoppedBy: event.stoppedBy }
    default:
      return view
  }
}

function begun(file: PlannedFile, now: number): FileUnderWay {
  const { label, durationMs, parts } = file
  return { label, durationMs, startedAt: now, partsDone: 0, parts, waiting: undefined }
}

function change(
  view: BatchView,
  file: PlannedFile,
  now: number,
  changed: (file: FileUnderWay) => FileUnderWay,
): BatchView {
  return withFile(view, file, changed(view.underWay.get(file.index) ?? begun(file, now)))
}

function withFile(view: BatchView, { index }: PlannedFile, file: FileUnderWay): BatchView {
  return { ...view, underWay: new Map(view.underWay).set(index, file) }
}

function withoutFile(view: BatchView, { index }: PlannedFile): BatchView {
  const underWay = new Map(view.underWay)
  underWay.delete(index)
  return { ...view, underWay, ended: view.ended + 1 }
}

/** Whether the file was reported as unusable before the batch began. */
export function isPlannedFailure({ state }: PlannedFile): boolean {
  return state === 'failed'
}

/** Returns the share of the batch that is done, by hours if they are known. */
export function shareDone({ totals, progress, ended }: BatchView): number {
  const files = totals.toDo + totals.duplicates
  if (files === 0 || ended >= files) return 1
  const share = totals.durationMs > 0 ? progress.durationMs / totals.durationMs : ended / files
  return Math.min(share, 1)
}

/** Returns how long the rest takes at the pace so far; `undefined` before anything is done. */
export function remainingMs(view: BatchView, now: number): number | undefined {
  const share = shareDone(view)
  if (share === 0) return undefined
  return ((now - view.startedAt) * (1 - share)) / share
}
