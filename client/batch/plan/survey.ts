import { hash } from 'node:crypto'
import { lstatSync, readFileSync, statSync } from 'node:fs'
import pLimit from 'p-limit'
import { type FileStamp, stampOf } from '../record/file-state.ts'
import type { FinishedFile, FinishedFiles } from '../record/finished-files.ts'
import type { BatchOptions, OccupiedOutput, Source } from '../types.ts'
import type { ResolvedRequest } from './batch-request.ts'
import { type ChosenOutputs, chooseOutputs, type OutputContext, pathsOf } from './choose-outputs.ts'

/** What is known of a source without reading it. */
export interface SurveyedSource {
  readonly source: Source
  readonly stamp: FileStamp | null
  readonly chosen: ChosenOutputs
  /** What an earlier run recorded when it wrote these outputs. */
  readonly finished?: FinishedFile
}

const STATS_AT_ONCE = 64
/** No transcript is as large: a larger file is not read to find out what it is. */
const LARGEST_OUTPUT_BYTES = 256 * 1024 * 1024

/** Finds out which sources are finished. Reads no recording and makes no request. */
export async function survey(
  sources: readonly Source[],
  options: BatchOptions,
  request: ResolvedRequest,
  finished: FinishedFiles,
): Promise<SurveyedSource[]> {
  const limit = pLimit(STATS_AT_ONCE)
  const stamps = await Promise.all(sources.map(({ path }) => limit(() => stampOf(path))))
  const stampByPath = new Map(sources.map(({ path }, index) => [path, stamps[index] ?? null]))
  const recorded = ({ path, isTemporary }: Source, outputs: readonly string[]) => {
    const stamp = stampByPath.get(path) ?? null
    if (stamp === null || isTemporary === true || outputs.length === 0) return undefined
    return finished.find(stamp, [request.renderingDigest, ...request.formerRenderings], outputs)
  }
  const chosen = chooseOutputs(sources, {
    ...outputContext(options, finished),
    isFinished: (outputs, source) => recorded(source, outputs) !== undefined && outputs.every(exists),
    modifiedMsOf: ({ path }) => stampByPath.get(path)?.modifiedMs ?? 0,
  })
  return sources.map((source, index): SurveyedSource => {
    const own = chosen[index] as ChosenOutputs
    const surveyed = { source, stamp: stamps[index] ?? null, chosen: own }
    const wanted = pathsOf(own)
    const record = recorded(source, wanted)
    return record !== undefined && wanted.every(exists) ? { ...surveyed, finished: record } : surveyed
  })
}

/** Chooses names again without the sources that cannot be transcribed: they need none. */
export function chooseAgain(
  surveyed: readonly SurveyedSource[],
  failed: ReadonlySet<Source>,
  options: BatchOptions,
  finished: FinishedFiles,
): readonly ChosenOutputs[] {
  const bySource = new Map(surveyed.map((each) => [each.source, each]))
  return chooseOutputs([...bySource.keys()], {
    ...outputContext(options, finished),
    isNamed: (source) => !failed.has(source),
    isFinished: (outputs, source) => {
      const { chosen: before, finished: record } = bySource.get(source) ?? {}
      return record !== undefined && outputs.every((path) => path === before?.receipt || before?.outputs.includes(path))
    },
    modifiedMsOf: (source) => bySource.get(source)?.stamp?.modifiedMs ?? 0,
  })
}

function outputContext(
  options: BatchOptions,
  finished: FinishedFiles,
): Pick<OutputContext, 'options' | 'ownerOf' | 'isOwn' | 'occupied'> {
  return {
    options,
    ownerOf: (output, source) => finished.ownerOf(output, source),
    isOwn: (output, source) => finished.isOwn(output, source),
    occupied: (output) => occupied(output, finished),
  }
}

/** Whether anything is there, also a link that leads nowhere. */
function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    // The folder cannot be read, which is reported before anything is paid.
    return false
  }
}

/** What the record does not know by its digest is another's, or was corrected: it is not to be lost. */
function occupied(path: string, finished: FinishedFiles): OccupiedOutput | undefined {
  if (!exists(path)) return undefined
  try {
    // That nothing can be written there is an error of its own.
    if (statSync(path).isDirectory()) return undefined
    if (finished.digestOf(path) !== undefined && finished.digestOf(path) === digestOfFile(path)) return undefined
  } catch {
    // What cannot be read is not known.
  }
  return { path, reason: finished.isWritten(path) ? 'changed' : 'foreign' }
}

function digestOfFile(path: string): string | undefined {
  const found = statSync(path)
  if (!found.isFile() || found.size > LARGEST_OUTPUT_BYTES) return undefined
  return hash('sha256', readFileSync(path))
}
