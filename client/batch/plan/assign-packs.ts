import type { BegunPacks } from '../record/begun-packs.ts'
import type { ResolvedRequest } from './batch-request.ts'
import { type Content, isMeasured } from './content.ts'
import { groupPacks } from './group-packs.ts'
import { stampsOf } from './measure-all.ts'
import type { MeasuredPack, MeasuredRecording } from './plan-cache.ts'
import type { MeasuredSource } from './planned-file.ts'
import type { Preparer } from './preparer.ts'
import type { TranscriptionTerms } from './pricing.ts'

/** Contents that are one upload together. */
export interface AssignedPack {
  readonly contents: readonly Content<MeasuredRecording>[]
  readonly pack: MeasuredPack
}

interface AssignPacks {
  readonly contents: readonly Content[]
  readonly measured: readonly MeasuredSource[]
  readonly request: ResolvedRequest
  readonly terms: TranscriptionTerms
  readonly preparer: Preparer
  readonly begunPacks: BegunPacks | undefined
}

/** Forms packs: those that an earlier run began as they were, and new ones of the other clips. */
export async function assignPacks(context: AssignPacks): Promise<AssignedPack[]> {
  const { contents, terms, preparer } = context
  const begun = assignBegun(context)
  const taken = new Set<Content>(begun.flatMap((pack) => pack.contents))
  const rest = contents.filter((content) => !taken.has(content) && content.targets.length > 0)
  const byRecording = new Map(rest.filter(isMeasured).map((content) => [content.recording, content]))
  const packs = [...begun]
  for (const group of groupPacks([...byRecording.keys()], terms)) {
    const own = group.flatMap((recording) => byRecording.get(recording) ?? [])
    packs.push({ contents: own, pack: await preparer.measurePack(group) })
  }
  return packs
}

function assignBegun({ contents, measured, request, begunPacks }: AssignPacks): AssignedPack[] {
  if (begunPacks === undefined) return []
  const byPath = new Map(measured.map((source) => [source.surveyed.source.path, source]))
  const bySha256 = new Map(contents.filter(isMeasured).map((content) => [content.recording.sha256, content]))
  const packs = begunPacks.among(stampsOf(measured.map(({ surveyed }) => surveyed)), request.callDigest)
  return packs.flatMap(({ clips, upload, spans }): AssignedPack[] => {
    const own = clips.flatMap(({ path }) => bySha256.get(byPath.get(path)?.recording?.sha256 ?? '') ?? [])
    const isUsable = own.length === clips.length && own.some(({ targets }) => targets.length > 0)
    return isUsable ? [{ contents: own, pack: { upload, spans } }] : []
  })
}
