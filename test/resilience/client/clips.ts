import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { FrameOptions } from '../../support/media/mp3-generator.ts'
import { recordingOf } from '../../support/media/recording.ts'

/** A recording of a batch, and what the simulated vendors hear in it. */
export interface Clip {
  /** The name of its file without the ending. */
  readonly name: string
  readonly path: string
  readonly sha256: string
  readonly bytes: number
  readonly script: string
}

export interface ClipOptions {
  readonly count: number
  readonly seed: number
  readonly durationMs: number
  readonly frames?: FrameOptions
}

/** As speech is often recorded: 4 kB a second. */
const SPEECH = { sampleRate: 24_000, bitrate: 32, mode: 'mono' } as const
/** More than this in one folder is rare, and the command searches folders recursively. */
const CLIPS_PER_FOLDER = 250

/** Writes recordings with distinct contents and scripts into folders below `directory`. */
export async function writeClips(
  directory: string,
  { count, seed, durationMs, frames = SPEECH }: ClipOptions,
): Promise<readonly Clip[]> {
  const clips: Clip[] = []
  for (let index = 0; index < count; index++) {
    const folder = join(directory, `part-${Math.floor(index / CLIPS_PER_FOLDER) + 1}`)
    const path = join(folder, `clip-${seed}-${String(index + 1).padStart(5, '0')}.mp3`)
    const script = `This is recording ${index + 1} of batch ${seed}, and no other recording has the number ${index + 1}.`
    clips.push(await writeClip(path, { script, durationMs, frames }))
  }
  return clips
}

/** Writes one recording; equal scripts and durations result in equal bytes. */
export async function writeClip(
  path: string,
  { script, durationMs, frames = SPEECH }: { script: string; durationMs: number; frames?: FrameOptions },
): Promise<Clip> {
  const audio = recordingOf(script, durationMs, frames)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, audio)
  const sha256 = createHash('sha256').update(audio).digest('hex')
  return { name: basename(path, '.mp3'), path, sha256, bytes: audio.length, script }
}
