import { rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Farebox } from '../../farebox.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { BegunPacks } from '../record/begun-packs.ts'
import { FinishedFiles } from '../record/finished-files.ts'
import { warn } from '../run/run-context.ts'
import type { BatchOptions, BatchPlan, BatchTotals, FileState, OnBatchEvent, PlannedFile, Source } from '../types.ts'
import { assignWork } from './assign-work.ts'
import { type ResolvedRequest, resolveRequest } from './batch-request.ts'
import { measureAll } from './measure-all.ts'
import { plannedFile } from './planned-file.ts'
import { Preparer } from './preparer.ts'
import { askTerms } from './pricing.ts'
import { type SurveyedSource, survey } from './survey.ts'
import { keysOf, PlannedBatch, type PlannedJob, type PlannedWork } from './work.ts'

/**
 * Probes, prepares and prices recordings. Sends no audio and pays nothing; asks the service for its prices if there is
 * anything to do. Throws `FareboxError` for options that cannot be followed, without prices, and when it is interrupted.
 */
export async function planBatch(
  farebox: Farebox,
  sources: readonly Source[],
  options: BatchOptions,
  onEvent: OnBatchEvent = () => undefined,
): Promise<BatchPlan> {
  let measured = 0
  try {
    options.signal?.throwIfAborted()
    return await plan(farebox, sources, options, (event) => {
      if (event.event === 'planned') measured = event.done
      onEvent(event)
    })
  } catch (error) {
    await removeCopies(sources)
    if (options.signal?.aborted !== true) throw error
    throw uncharged('interrupted', 'Interrupted.', `${measured} of ${sources.length} recordings are measured already.`)
  }
}

async function plan(
  farebox: Farebox,
  sources: readonly Source[],
  options: BatchOptions,
  onEvent: OnBatchEvent,
): Promise<BatchPlan> {
  const wanted = resolveRequest(options)
  const finished = new FinishedFiles(farebox.home)
  const surveyed = await survey(sources, options, wanted, finished)
  const isToDo = ({ finished: record }: SurveyedSource) => record === undefined || options.again
  if (!surveyed.some(isToDo)) {
    const files = surveyed.map((each, index) => plannedFile({ index, surveyed: each, isToDo: false }))
    for (const [index, file] of files.entries()) onEvent({ event: 'planned', file, done: index + 1, of: files.length })
    return makePlan(sources, files, { request: wanted, jobs: [], finished, means: undefined, again: [] }, onEvent)
  }
  const { ffmpegPath, copiesSources, signal: interrupt, patienceMs } = options
  let isSaid = false
  const onWait = ({ problem }: FareboxError) => {
    if (!isSaid) warn({ onEvent }, 'service_away', `${problem} It is asked again.`)
    isSaid = true
  }
  const terms = await askTerms(farebox, wanted.fields.model, { signal: interrupt, patienceMs, onWait })
  const request = resolveRequest(options, terms.offered)
  if (request.without.length > 0) warn({ onEvent }, 'not_offered', goesWithout(request))
  const { home } = farebox
  const preparer = new Preparer({ terms, home, ffmpegPath, copiesSources, signal: interrupt })
  try {
    const begunPacks = options.pack && !options.again ? new BegunPacks(home) : undefined
    const context = { farebox, options, request, terms, finished, preparer, begunPacks, onEvent }
    const measured = await measureAll({ ...context, surveyed, isToDo })
    const assigned = await assignWork({ ...context, measured })
    return makePlan(sources, assigned.files, { request, finished, ...assigned }, onEvent)
  } catch (error) {
    await preparer.discard()
    throw error
  }
}

function goesWithout({ fields, without }: ResolvedRequest): string {
  return `${fields.model} gives no ${without.join(' and no ')} at present: the transcripts go without.`
}

function makePlan(
  sources: readonly Source[],
  files: readonly PlannedFile[],
  work: PlannedWork,
  onEvent: OnBatchEvent,
): BatchPlan {
  const totals = totalsOf(files, work.jobs)
  onEvent({ event: 'totals', totals })
  const discard = async () => {
    await work.means?.preparer.discard()
    await removeCopies(sources)
  }
  return new PlannedBatch({ files, totals, discard }, work)
}

/** Removes what standard input was kept in. */
async function removeCopies(sources: readonly Source[]): Promise<void> {
  for (const { path, isTemporary } of sources)
    if (isTemporary === true) await rm(dirname(path), { recursive: true, force: true })
}

/** Adds up a plan. */
function totalsOf(files: readonly PlannedFile[], jobs: readonly PlannedJob[]): BatchTotals {
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
