import type { FileStamp } from '../record/file-state.ts'
import type { PlannedFile } from '../types.ts'
import { asFareboxError, type MeasuredSource, plannedFile, uploadsOf } from './planned-file.ts'
import { chooseAgain, type SurveyedSource } from './survey.ts'
import type { PlanContext } from './work.ts'

interface MeasureAll extends PlanContext {
  readonly surveyed: readonly SurveyedSource[]
  readonly isToDo: (surveyed: SurveyedSource) => boolean
}

/** Measures what is to do, and finished clips of packs that are not. A bad file fails alone. */
export async function measureAll(context: MeasureAll): Promise<MeasuredSource[]> {
  const { surveyed, isToDo, options, onEvent } = context
  const { pack, signal } = options
  const unfinished = pathsOfUnfinishedPacks(context)
  let done = 0
  const settled = await Promise.allSettled(
    surveyed.map(async (one, index): Promise<MeasuredSource> => {
      const { source } = one
      const start: MeasuredSource = { index, surveyed: one, isToDo: isToDo(one) }
      const fillsPack = pack && unfinished.has(source.path)
      const measured = start.isToDo || fillsPack ? await measure(context, start) : start
      signal?.throwIfAborted()
      done += 1
      onEvent({ event: 'planned', file: pricedFile(measured, context), done, of: surveyed.length })
      return measured
    }),
  )
  // Nothing is prepared any more when an interrupted plan is discarded.
  signal?.throwIfAborted()
  const measured = settled.map((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  })
  return withNamesOfFailed(measured, context)
}

/** What cannot be transcribed keeps no name from a recording that can. */
function withNamesOfFailed(measured: readonly MeasuredSource[], context: MeasureAll): MeasuredSource[] {
  const { surveyed, options, finished, onEvent } = context
  const failed = new Set(measured.flatMap(({ surveyed: { source }, error }) => (error === undefined ? [] : [source])))
  if (failed.size === 0) return [...measured]
  const chosen = chooseAgain(surveyed, failed, options, finished)
  return measured.map((before, index) => {
    const again = chosen[index]
    const isSame = again?.outputs.every((path, place) => path === before.surveyed.chosen.outputs[place]) ?? true
    if (again === undefined || isSame) return before
    const renamed = { ...before, surveyed: { ...before.surveyed, chosen: again } }
    onEvent({ event: 'planned', file: pricedFile(renamed, context), done: measured.length, of: measured.length })
    return renamed
  })
}

function pricedFile(measured: MeasuredSource, { terms }: MeasureAll): PlannedFile {
  const uploads = measured.isToDo && measured.recording ? uploadsOf(measured.recording) : []
  const price = uploads.reduce((sum, { durationMs }) => sum + terms.priceOf(durationMs), 0n)
  return { ...plannedFile(measured), price }
}

async function measure({ preparer, options }: MeasureAll, start: MeasuredSource): Promise<MeasuredSource> {
  const { pack, estimates = false } = options
  const { source } = start.surveyed
  try {
    const recording = estimates ? preparer.measureStated(source.path, pack) : preparer.measure(source.path, pack)
    return { ...start, recording: await recording }
  } catch (error) {
    return { ...start, error: asFareboxError(error, source.label) }
  }
}

/** Returns the files of packs that an earlier run began and in which something is still to do. */
function pathsOfUnfinishedPacks({ surveyed, isToDo, begunPacks, request }: MeasureAll): ReadonlySet<string> {
  if (begunPacks === undefined) return new Set()
  const toDo = new Set(surveyed.filter(isToDo).map(({ source }) => source.path))
  const packs = begunPacks.among(stampsOf(surveyed), request.callDigest)
  const unfinished = packs.filter(({ clips }) => clips.some(({ path }) => toDo.has(path)))
  return new Set(unfinished.flatMap(({ clips }) => clips.map(({ path }) => path)))
}

export function stampsOf(surveyed: readonly SurveyedSource[]): ReadonlyMap<string, FileStamp> {
  return new Map(surveyed.flatMap(({ stamp }) => (stamp === null ? [] : [[stamp.path, stamp]])))
}
