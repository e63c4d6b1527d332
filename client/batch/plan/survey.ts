import pLimit from 'p-limit'
import { type FileStamp, stampOf } from '../record/file-state.ts'
import type { FinishedFile, FinishedFiles } from '../record/finished-files.ts'
import type { BatchOptions, Source } from '../types.ts'
import { type ChosenOutputs, chooseOutputs } from './choose-outputs.ts'

/** What is known of a source without reading it. */
export interface SurveyedSource {
  readonly source: Source
  readonly stamp: FileStamp | null
  readonly chosen: ChosenOutputs
  /** `record`: an earlier run wrote it; `files`: there is no record, but the transcripts are newer than the source. */
  readonly finishedBy?: 'record' | 'files'
  readonly finished?: FinishedFile
}

const STATS_AT_ONCE = 64

/** Finds out which sources are finished. Reads no recording and makes no request. */
export async function survey(
  sources: readonly Source[],
  options: BatchOptions,
  renderingDigest: string,
  finished: FinishedFiles,
): Promise<SurveyedSource[]> {
  const limit = pLimit(STATS_AT_ONCE)
  const stamps = await Promise.all(sources.map(({ path }) => limit(() => stampOf(path))))
  const stampByPath = new Map(sources.map(({ path }, index) => [path, stamps[index] ?? null]))
  const chosen = chooseOutputs(sources, {
    options,
    ownerOf: (output, source) => finished.ownerOf(output, source),
    isOwn: (output, source) => finished.isOwn(output, source),
    modifiedMsOf: ({ path }) => stampByPath.get(path)?.modifiedMs ?? 0,
  })
  return await Promise.all(
    sources.map(async (source, index): Promise<SurveyedSource> => {
      const stamp = stamps[index] ?? null
      const own = chosen[index] as ChosenOutputs
      const surveyed = { source, stamp, chosen: own }
      if (stamp === null || source.isTemporary === true || own.outputs.length === 0) return surveyed
      const wanted = own.receipt === undefined ? own.outputs : [...own.outputs, own.receipt]
      const record = finished.find(stamp, renderingDigest, wanted)
      if (record === undefined && (options.recordsOnly === true || finished.knows(source.path))) return surveyed
      const written = await Promise.all(wanted.map((path) => limit(() => stampOf(path))))
      if (record !== undefined)
        return written.includes(null) ? surveyed : { ...surveyed, finishedBy: 'record', finished: record }
      const areNewer = written.every((output) => output !== null && output.modifiedMs >= stamp.modifiedMs)
      return areNewer ? { ...surveyed, finishedBy: 'files' } : surveyed
    }),
  )
}
