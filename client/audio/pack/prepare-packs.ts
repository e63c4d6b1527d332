import { hash } from 'node:crypto'
import { join } from 'node:path'
import { walkFrames } from '../../../packages/mp3/walk-frames.ts'
import { AudioError } from '../audio-error.ts'
import { delayOfFrames, type FrameTable, framesBetween, frameTableOf } from '../frame-table.ts'
import type { Upload } from '../prepare-recording.ts'
import { readAgain, readRecording } from '../read-recording.ts'
import { silentFrameLike } from '../silent-frames.ts'
import { writePrepared } from '../write-prepared.ts'
import { type Clip, DEFAULT_GAP_MS, type PackOptions, planPacks } from './plan-packs.ts'

/** A recording that is one upload, and so may be packed. */
export interface PackableUpload {
  readonly upload: Upload
}

export interface PreparedPack<P extends PackableUpload> {
  readonly upload: Upload
  /** In the order of the spans. Each one's own `offsetMs` still applies to its times after `takeApart`; `stitch` adds it. */
  readonly clips: readonly P[]
  readonly spans: readonly Span[]
}

interface PreparePacksOptions extends PackOptions {
  /** Where packs are written; created if it does not exist. */
  readonly folder: string
  readonly signal?: AbortSignal
}

/**
 * Joins short recordings into packs. Returns those that are better sent alone as well. Each recording is read again, so
 * one that changed since it was prepared throws `file_changed` instead of being packed.
 */
export async function preparePacks<P extends PackableUpload>(
  recordings: readonly P[],
  options: PreparePacksOptions,
): Promise<{ packs: PreparedPack<P>[]; single: P[] }> {
  const clips: (Clip & { readonly recording: P })[] = []
  for (const recording of recordings) {
    const { durationMs, bytes } = recording.upload
    const table = await tableOf(recording.upload, options.signal)
    clips.push({ recording, durationMs, bytes, streamKey: table?.streamKey })
  }
  const plan = planPacks(clips, options)
  const packs: PreparedPack<P>[] = []
  for (const planned of plan.packs) {
    const own = planned.map(({ recording }) => recording)
    packs.push(await writePack(own, options))
  }
  return { packs, single: plan.single.map(({ recording }) => recording) }
}

async function tableOf(upload: Upload, signal: AbortSignal | undefined): Promise<FrameTable | undefined> {
  const content = await readAgain(upload, signal)
  const walk = walkFrames(content)
  return walk.outcome === 'mp3' ? frameTableOf(content, walk) : undefined
}

async function writePack<P extends PackableUpload>(
  clips: readonly P[],
  { folder, signal }: PreparePacksOptions,
): Promise<PreparedPack<P>> {
  const tables: FrameTable[] = []
  for (const { upload } of clips) {
    const table = await tableOf(upload, signal)
    if (table === undefined) throw new AudioError('file_changed', 'the file changed.', { path: upload.path })
    tables.push(table)
  }
  const { content, spans } = buildPack(tables)
  const walk = walkFrames(content)
  if (walk.outcome !== 'mp3') throw new Error(`a pack is ${walk.found}`)
  const path = join(folder, `pack-${hash('sha256', content)}.mp3`)
  await writePrepared(path, content)
  const { content: _, ...facts } = await readRecording(path, { maximumContentBytes: content.length })
  return { upload: { ...facts, durationMs: walk.durationMs, offsetMs: 0 }, clips, spans }
}

/** Where a clip is within its pack. */
export interface Span {
  readonly startMs: number
  readonly endMs: number
}

export interface Pack {
  readonly content: Uint8Array
  /** One for each clip, in their order. */
  readonly spans: readonly Span[]
}

/**
 * Joins the frames of clips with silent frames between them, without another encoding. Their stream keys must be equal.
 */
export function buildPack(clips: readonly FrameTable[], gapMs = DEFAULT_GAP_MS): Pack {
  const [first] = clips
  if (first === undefined) throw new RangeError('a pack has at least one clip')
  if (clips.some(({ streamKey }) => streamKey !== first.streamKey))
    throw new RangeError('clips of different sample rates or channels cannot be joined')
  const { samplesPerFrame, sampleRate } = first
  const gapFrames = Math.ceil((gapMs * sampleRate) / (1000 * samplesPerFrame))
  const silence = Buffer.concat(Array<Uint8Array>(gapFrames).fill(silentFrameLike(framesBetween(first, 0, 1))))
  const pieces: Uint8Array[] = []
  const spans: Span[] = []
  const timeOf = (frames: number) => (frames * samplesPerFrame * 1000) / sampleRate
  let frames = 0
  for (const clip of clips) {
    if (pieces.length > 0) {
      pieces.push(silence)
      frames += gapFrames
    }
    pieces.push(framesBetween(clip, 0, clip.frameCount))
    // Without its header frame, the clip's beginning is no longer skipped.
    spans.push({ startMs: timeOf(frames) + delayOfFrames(clip), endMs: timeOf(frames + clip.frameCount) })
    frames += clip.frameCount
  }
  return { content: Buffer.concat(pieces), spans }
}
