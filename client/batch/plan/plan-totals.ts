import type { BatchTotals, FileState, PlannedFile } from '../types.ts'
import type { PlannedJob } from './work.ts'

/** Adds up a plan. */
export function totalsOf(files: readonly PlannedFile[], jobs: readonly PlannedJob[]): BatchTotals {
  const toDo = files.filter(({ state }) => state === 'to_do')
  const count = (wanted: FileState) => files.filter(({ state }) => state === wanted).length
  const keys = jobs.flatMap(keysOf)
  const stated = jobs.flatMap((job) => (job.kind === 'stated' ? job.recording.estimates : []))
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
    uploads: new Set(keys).size + stated.length,
    packs: jobs.filter(({ kind }) => kind === 'pack').length,
    durationMs: toDo.reduce((sum, { durationMs }) => sum + durationMs, 0),
    bytes: toDo.reduce((sum, { bytes }) => sum + bytes, 0),
    price,
    alreadyPaid,
    toCharge: price - alreadyPaid,
    estimated: toDo.filter(({ isEstimate }) => isEstimate === true).length,
  }
}

/** Returns the keys of a job's calls, which are not known before a recording is prepared. */
export function keysOf(job: PlannedJob): readonly string[] {
  switch (job.kind) {
    case 'pack':
      return [job.upload.key]
    case 'file':
      return job.uploads.map(({ key }) => key)
    case 'stated':
      return []
  }
}
