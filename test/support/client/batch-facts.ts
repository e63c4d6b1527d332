import type { BatchOutcome, BatchProgress, BatchTotals, PlannedFile } from '../../../client/batch/types.ts'

/** Returns a file of a plan, 22 s long at the minimum charge. */
export function plannedFile(index: number, changes: Partial<PlannedFile> = {}): PlannedFile {
  const name = `clip-${index}.mp3`
  return {
    index,
    path: `/audio/${name}`,
    label: name,
    name,
    state: 'to_do',
    durationMs: 22_000,
    bytes: 352_000,
    modifiedMs: 0,
    price: 5034n,
    alreadyPaid: 0n,
    parts: 1,
    outputs: [`/audio/clip-${index}.srt`],
    warnings: [],
    ...changes,
  }
}

export function totals(changes: Partial<BatchTotals> = {}): BatchTotals {
  return {
    files: 10,
    toDo: 10,
    finished: 0,
    duplicates: 0,
    failed: 0,
    kept: 0,
    overwritten: 0,
    uploads: 10,
    packs: 0,
    durationMs: 220_000,
    bytes: 3_520_000,
    price: 50_340n,
    alreadyPaid: 0n,
    toCharge: 50_340n,
    estimated: 0,
    ...changes,
  }
}

export function progress(changes: Partial<BatchProgress> = {}): BatchProgress {
  return {
    finished: 0,
    skipped: 0,
    failed: 0,
    underWay: 0,
    notBegun: 0,
    durationMs: 0,
    charged: 0n,
    replayed: 0n,
    ...changes,
  }
}

export function outcome(changes: Partial<BatchOutcome> = {}): BatchOutcome {
  return {
    ...progress(),
    kept: 0,
    openPayments: 0,
    openMaximum: 0n,
    failures: [],
    elapsedMs: 1000,
    interrupted: false,
    ...changes,
  }
}
