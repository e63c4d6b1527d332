import type { BegunPacks } from '../record/begun-packs.ts'
import type { FileStamp } from '../record/file-state.ts'
import type { OnBatchEvent } from '../types.ts'
import { asFareboxError, type MeasuredSource, plannedFile } from './planned-file.ts'
import type { Preparer } from './preparer.ts'
import type { TranscriptionTerms } from './pricing.ts'
import type { SurveyedSource } from './survey.ts'

interface MeasureAll {
  readonly surveyed: readonly SurveyedSource[]
  readonly isToDo: (surveyed: SurveyedSource) => boolean
  readonly preparer: Preparer
  readonly pack: boolean
  readonly begunPacks: BegunPacks | undefined
  readonly callDigest: string
  readonly terms: TranscriptionTerms
  readonly signal: AbortSignal | undefined
  readonly onEvent: OnBatchEvent
}

/** Measures what is to do, and finished clips that decide how others are packed. A bad file fails alone. */
export async function measureAll(context: MeasureAll): Promise<MeasuredSource[]> {
  const { surveyed, isToDo, pack, signal, onEvent } = context
  const unfinished = pathsOfUnfinishedPacks(context)
  let done = 0
  return await Promise.all(
    surveyed.map(async (one, index): Promise<MeasuredSource> => {
      const { source, finishedBy } = one
      const start: MeasuredSource = { index, surveyed: one, isToDo: isToDo(one) }
      // Without records, all clips are packed as they were the first time.
      const fillsPack = pack && (finishedBy === 'files' || unfinished.has(source.path))
      const measured = start.isToDo || fillsPack ? await measure(context, start) : start
      signal?.throwIfAborted()
      done += 1
      const file = plannedFile(measured)
      const price = measured.isToDo && measured.recording ? priceOf(measured.recording.uploads, context) : 0n
      onEvent({ event: 'planned', file: { ...file, price }, done, of: surveyed.length })
      return measured
    }),
  )
}

async function measure({ preparer, pack }: MeasureAll, start: MeasuredSource): Promise<MeasuredSource> {
  const { source } = start.surveyed
  try {
    return { ...start, recording: await preparer.measure(source.path, pack) }
  } catch (error) {
    return { ...start, error: asFareboxError(error, source.label) }
  }
}

function priceOf(uploads: readonly { readonly durationMs: number }[], { terms }: MeasureAll): bigint {
  return uploads.reduce((sum, { durationMs }) => sum + terms.priceOf(durationMs), 0n)
}

/** Returns the files of packs that an earlier run began and in which something is still to do. */
function pathsOfUnfinishedPacks({ surveyed, isToDo, begunPacks, callDigest }: MeasureAll): ReadonlySet<string> {
  if (begunPacks === undefined) return new Set()
  const toDo = new Set(surveyed.filter(isToDo).map(({ source }) => source.path))
  const packs = begunPacks.among(stampsOf(surveyed), callDigest)
  const unfinished = packs.filter(({ clips }) => clips.some(({ path }) => toDo.has(path)))
  return new Set(unfinished.flatMap(({ clips }) => clips.map(({ path }) => path)))
}

export function stampsOf(surveyed: readonly SurveyedSource[]): ReadonlyMap<string, FileStamp> {
  return new Map(surveyed.flatMap(({ stamp }) => (stamp === null ? [] : [[stamp.path, stamp]])))
}
