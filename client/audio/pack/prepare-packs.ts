import { hash } from 'node:crypto'
import { join } from 'node:path'
import { walkFrames } from '../../../packages/mp3/walk-frames.ts'
import { AudioError } from '../audio-error.ts'
import { type FrameTable, frameTableOf } from '../frame-table.ts'
import type { Upload } from '../prepare-recording.ts'
import { readAgain, readRecording } from '../read-recording.ts'
import { writePrepared } from '../write-prepared.ts'
import { buildPack, type Span } from './build-pack.ts'
import { type PackOptions, planPacks } from './plan-packs.ts'

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
  const clips: { recording: P; durationMs: number; bytes: number; streamKey: number | undefined }[] = []
  for (const recording of recordings) {
    const { durationMs, bytes } = recording.upload
    clips.push({
      recording,
      durationMs,
      bytes,
      streamKey: (await tableOf(recording.upload, options.signal))?.streamKey,
    })
  }
  const plan = planPacks(clips, options)
  const packs: PreparedPack<P>[] = []
  for (const planned of plan.packs)
    packs.push(
      await writePack(
        planned.map(({ recording }) => recording),
        options,
      ),
    )
  return { packs, single: plan.single.map(({ recording }) => recording) }
}

async function tableOf(upload: Upload, signal: AbortSignal | undefined): Promise<FrameTable | undefined> {
  const content = await readAgain(upload, signal)
  const walk = walkFrames(content)
  return walk.outcome === 'mp3' ? frameTableOf(content, walk) : undefined
}

async function writePack<P extends PackableUpload>(
  clips: readonly P[],
  { folder, gapMs, signal }: PreparePacksOptions,
): Promise<PreparedPack<P>> {
  const tables: FrameTable[] = []
  for (const { upload } of clips) {
    const table = await tableOf(upload, signal)
    if (table === undefined) throw new AudioError('file_changed', 'the file changed.', { path: upload.path })
    tables.push(table)
  }
  const { content, spans } = buildPack(tables, gapMs)
  const walk = walkFrames(content)
  if (walk.outcome !== 'mp3') throw new Error(`a pack is ${walk.found}`)
  const path = join(folder, `pack-${hash('sha256', content)}.mp3`)
  await writePrepared(path, content)
  const { content: _, ...facts } = await readRecording(path, { maximumContentBytes: content.length })
  return { upload: { ...facts, durationMs: walk.durationMs, offsetMs: 0 }, clips, spans }
}
