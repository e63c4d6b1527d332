import type { Span } from '../../audio/pack/prepare-packs.ts'
import type { Farebox } from '../../farebox.ts'
import type { BegunPacks } from '../record/begun-packs.ts'
import type { FinishedFiles } from '../record/finished-files.ts'
import type { BatchOptions, BatchPlan, OnBatchEvent, PlannedFile } from '../types.ts'
import type { ResolvedRequest } from './batch-request.ts'
import type { MeasuredRecording, StatedRecording } from './plan-cache.ts'
import type { Preparer } from './preparer.ts'
import type { UploadPricer, UploadWork } from './price-uploads.ts'
import type { TranscriptionTerms } from './pricing.ts'

/** A recording and the files that its transcript is written for: itself, and others with the same content. */
export interface RecordingWork {
  /** The first of the targets, or the file itself if it is finished and only fills its pack. */
  readonly file: PlannedFile
  readonly recording: MeasuredRecording
  readonly occurrence: number
  readonly targets: readonly PlannedFile[]
}

export interface FileJob extends RecordingWork {
  readonly kind: 'file'
  readonly uploads: readonly UploadWork[]
}

export interface PackJob {
  readonly kind: 'pack'
  readonly number: number
  readonly upload: UploadWork
  readonly spans: readonly Span[]
  readonly clips: readonly RecordingWork[]
}

export type Job = FileJob | PackJob

/** A recording that becomes a file job in the run, when it is prepared. */
export interface StatedJob extends Omit<RecordingWork, 'recording'> {
  readonly kind: 'stated'
  readonly recording: StatedRecording
}

export type PlannedJob = Job | StatedJob

/** Returns the keys of a job's calls, which are not known before a recording is prepared. */
export function keysOf(job: PlannedJob): readonly string[] {
  if (job.kind === 'stated') return []
  return job.kind === 'pack' ? [job.upload.key] : job.uploads.map(({ key }) => key)
}

/** Returns the jobs of a plan that was made without estimates. */
export function exactJobsOf(plan: BatchPlan): readonly Job[] {
  return workOf(plan).jobs.map((job) => {
    if (job.kind === 'stated') throw new TypeError('the plan has estimates')
    return job
  })
}

/** What the steps of a plan share. */
export interface PlanContext {
  readonly farebox: Farebox
  readonly options: BatchOptions
  readonly request: ResolvedRequest
  readonly terms: TranscriptionTerms
  readonly finished: FinishedFiles
  readonly preparer: Preparer
  readonly begunPacks: BegunPacks | undefined
  readonly onEvent: OnBatchEvent
}

/** What a run needs of its plan, beyond what callers see. */
export interface PlannedWork {
  readonly request: ResolvedRequest
  readonly jobs: readonly PlannedJob[]
  readonly finished: FinishedFiles
  /** Undefined if there is nothing to do. */
  readonly means: { readonly preparer: Preparer; readonly pricer: UploadPricer } | undefined
  /** What is done another time on request. */
  readonly again: readonly { readonly sha256: string; readonly occurrence: number }[]
}

/** A plan with the work behind it, which only a run sees. */
export class PlannedBatch implements BatchPlan {
  readonly files: BatchPlan['files']
  readonly totals: BatchPlan['totals']
  readonly discard: () => Promise<void>
  readonly #work: PlannedWork

  constructor(shown: BatchPlan, work: PlannedWork) {
    this.files = shown.files
    this.totals = shown.totals
    this.discard = () => shown.discard()
    this.#work = work
  }

  static workOf(plan: BatchPlan): PlannedWork {
    if (!(#work in plan)) throw new TypeError('the plan was not made by planBatch')
    return plan.#work
  }
}

export function workOf(plan: BatchPlan): PlannedWork {
  return PlannedBatch.workOf(plan)
}
