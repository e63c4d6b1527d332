import type { BatchTotals, FileState, PlannedFile } from '../types.ts'
import type { Job } from './work.ts'

/** Adds up a plan. */
export function totalsOf(files: readonly PlannedFile[], jobs: readonly Job[]): BatchTotals {
  const toDo = files.filter(({ state }) => state === 'to_do')
  const count = (wanted: FileState) => files.filter(({ state }) => state === wanted).length
  const keys = jobs.flatMap((job) => (job.kind === 'pack' ? job.upload.key : job.uploads.map(({ key }) => key)))
  const price = toDo.reduce((sum, file) => sum + file.price, 0n)
  const alreadyPaid = toDo.reduce((sum, file) => sum + file.alreadyPaid, 0n)
  return {
    files: files.length,
    toDo: toDo.length,
    finished: count('finished'),
    duplicates: count('duplicate'),
    failed: count('failed'),
    kept: files.reduce((sum, { kept = [] }) => sum + kept.length, 0),
    overwritten: files.reduce((sum, { overwritten = [] }) => sum + overwritten.length, 0),
    uploads: new Set(keys).size,
    packs: jobs.filter(({ kind }) => kind === 'pack').length,
    durationMs: toDo.reduce((sum, { durationMs }) => sum + durationMs, 0),
    bytes: toDo.reduce((sum, { bytes }) => sum + bytes, 0),
    price,
    alreadyPaid,
    toCharge: price - alreadyPaid,
  }
}
