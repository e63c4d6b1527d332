import { FareboxError, uncharged } from '../../wire/farebox-error.ts'
import type { FileState, PlannedFile } from '../types.ts'
import type { ChosenOutputs } from './choose-outputs.ts'
import type { MeasuredRecording, StatedRecording } from './plan-cache.ts'
import type { SurveyedSource } from './survey.ts'

/** A recording's content and the sources that have it. */
export interface Content<Recording = MeasuredRecording | StatedRecording> {
  readonly recording: Recording
  readonly occurrence: number
  /** Sources whose transcripts are to be written. */
  readonly targets: readonly MeasuredSource[]
  /** The first source that has it, which may be finished. */
  readonly first: MeasuredSource
}

/** A source as the service would bill it. */
export interface MeasuredSource {
  readonly index: number
  readonly surveyed: SurveyedSource
  readonly isToDo: boolean
  /** Missing for a finished source that no one needs to measure. */
  readonly recording?: MeasuredRecording | StatedRecording
  readonly error?: FareboxError
}

/** Returns what a plan says about a source before prices, duplicates and packs are known. */
export function plannedFile({ index, surveyed, isToDo, recording, error }: MeasuredSource): PlannedFile {
  const { source, stamp, chosen, finished } = surveyed
  const sha256 = recording?.sha256 ?? finished?.sha256
  const state: FileState = !isToDo ? 'finished' : error === undefined ? 'to_do' : 'failed'
  return {
    index,
    path: source.path,
    label: source.label,
    name: source.name,
    state,
    durationMs: recording === undefined ? (finished?.durationMs ?? 0) : durationOf(recording),
    bytes: recording?.bytes ?? stamp?.bytes ?? 0,
    modifiedMs: recording?.modifiedMs ?? stamp?.modifiedMs ?? 0,
    price: 0n,
    alreadyPaid: 0n,
    parts: isToDo && recording !== undefined ? uploadsOf(recording).length : 0,
    ...(sha256 !== undefined && { sha256 }),
    ...(!isToDo && finished?.receiptIds !== undefined && { receiptIds: finished.receiptIds }),
    ...(recording !== undefined && { treatment: recording.treatment }),
    ...(isToDo && recording !== undefined && 'statedMs' in recording && { isEstimate: true }),
    outputs: chosen.outputs,
    ...(chosen.receipt !== undefined && { receipt: chosen.receipt }),
    ...(isToDo && error === undefined && occupiedOf(chosen)),
    warnings: recording?.warnings ?? [],
    ...(error !== undefined && { error }),
  }
}

function occupiedOf({ kept, overwritten, preferred }: ChosenOutputs): Partial<PlannedFile> {
  return {
    ...(kept.length > 0 && { kept }),
    ...(overwritten.length > 0 && { overwritten }),
    ...(preferred !== undefined && { preferred }),
  }
}

export function durationOf(recording: MeasuredRecording | StatedRecording): number {
  if ('statedMs' in recording) return recording.statedMs
  return recording.uploads.reduce((sum, { durationMs }) => sum + durationMs, 0)
}

/** Returns the uploads of a recording, or estimates of them. */
export function uploadsOf(recording: MeasuredRecording | StatedRecording): readonly { readonly durationMs: number }[] {
  return 'statedMs' in recording ? recording.estimates : recording.uploads
}

/** Returns the error of a file whose calls are paid for: whatever failed, its transcript can be had again. */
export function asPaidError(error: unknown, label: string): FareboxError {
  const known = asFareboxError(error, label)
  if (known.money !== 'none') return known
  return new FareboxError({
    code: known.code,
    problem: known.problem,
    money: 'settled',
    advice: 'Run the command again: the transcript is repeated without another charge.',
    cause: error,
  })
}

/** Returns errors of this package as they are; others, such as those of the file system, say what failed. */
export function asFareboxError(error: unknown, label: string): FareboxError {
  if (error instanceof FareboxError) return error
  const isAborted = error instanceof Error && error.name === 'AbortError'
  return uncharged(
    isAborted ? 'aborted' : 'unexpected_error',
    isAborted
      ? `${label}: it was interrupted.`
      : `${label}: ${error instanceof Error ? error.message : String(error)}.`,
    'Run the command again; nothing is paid twice.',
    error,
  )
}

/** Whether it is prepared already, as only clips that may be packed and recordings that are sent as they are have to be. */
export function isMeasured(content: Content): content is Content<MeasuredRecording> {
  return !('statedMs' in content.recording)
}
