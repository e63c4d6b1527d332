import type { Farebox } from '../../farebox.ts'
import type { FareboxError } from '../../wire/farebox-error.ts'
import type { Preparer } from '../plan/preparer.ts'
import type { UploadPricer } from '../plan/price-uploads.ts'
import type { PlannedWork } from '../plan/work.ts'
import type { BegunPacks } from '../record/begun-packs.ts'
import type { BatchOptions, OnBatchEvent, OutputFiles, PlannedFile, StoppedBy } from '../types.ts'
import type { Gate } from './gate.ts'
import type { Tally } from './tally.ts'

/** Reports what went wrong without keeping a file from being finished. */
export function warn({ onEvent }: Pick<RunContext, 'onEvent'>, code: string, text: string, file?: PlannedFile): void {
  onEvent({ event: 'warning', ...(file && { file }), code, text })
}

/** What the files of a run share. */
export interface RunContext {
  readonly farebox: Farebox
  readonly options: BatchOptions
  readonly work: PlannedWork
  readonly preparer: Preparer
  readonly pricer: UploadPricer
  readonly gate: Gate
  readonly tally: Tally
  readonly folders: OutputFiles
  readonly begunPacks: BegunPacks
  /** What was charged in this run for each file; for a pack, for its first one. */
  readonly charges: Map<number, bigint>
  /** The keys of calls that this run made. */
  readonly called: Set<string>
  readonly onEvent: OnBatchEvent
  /** Begins nothing more. Only the first reason counts. */
  readonly stop: (stoppedBy: StoppedBy, error?: FareboxError) => void
}
