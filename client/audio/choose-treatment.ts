import { frameLengthAt } from '../../packages/mp3/mpeg-header.ts'
import { startOfTrailingTags } from '../../packages/mp3/skip-tags.ts'
import {
  FREE_FORMAT_FOUND,
  LONE_HEADER_FOUND,
  type Mp3Walk,
  TAG_PAST_END_FOUND,
  walkFrames,
} from '../../packages/mp3/walk-frames.ts'
import { AudioError, freeFormatAudio, hasProtectedTrack, protectedAudio } from './audio-error.ts'
import { type FrameTable, frameTableOf } from './frame-table.ts'
import { readHeaderFrame } from './header-frame.ts'
import type { AudioLimits } from './limits.ts'
import type { ReadRecording } from './read-recording.ts'

interface MeasuredMp3 {
  readonly durationMs: number
  readonly sampleRate: number
  /** What the header frame claims, if there is one. */
  readonly claimedMs: number | undefined
  readonly endsWithinFrame: boolean
}

/** It is something else, or an MP3 that cannot be cut. */
export interface Conversion {
  readonly kind: 'convert'
  /** Names it. */
  readonly found: string
  /** The frames of an MP3, unless it is too large to be held in memory. */
  readonly mp3?: Mp3Walk
}

/** What is done to a recording before it is sent. */
export type Treatment =
  /** It is an MP3 within the limits and is sent as it is. */
  | ({ readonly kind: 'send' } & MeasuredMp3)
  /** It is an MP3 beyond a limit, whose frames are sent in one or several parts. */
  | ({ readonly kind: 'cut'; readonly table: FrameTable } & MeasuredMp3)
  | Conversion

/** What the walk recognizes that has no sound. */
const NO_RECORDINGS: ReadonlySet<string> = new Set(['a MIDI file', 'a PDF document', 'a ZIP archive', 'a PNG image'])

/** Decides from the content of a file, never from its name. Throws an `AudioError` for what is certainly no recording. */
export function treatmentOf(read: ReadRecording, limits: AudioLimits): Treatment {
  const { path, bytes, content } = read
  const isHeld = content.length === bytes
  const walk = walkFrames(content)
  if (walk.outcome === 'unsupported') {
    const { found } = walk
    if (NO_RECORDINGS.has(found)) throw new AudioError('not_audio', `it is ${found}.`, { path })
    if (found === FREE_FORMAT_FOUND) throw freeFormatAudio(path)
    if (found === LONE_HEADER_FOUND)
      throw new AudioError('no_audio', 'it is an MP3 header without any sound.', { path })
    if (found === TAG_PAST_END_FOUND && isHeld)
      throw new AudioError('damaged_audio', 'it ends within its first tag; the file is incomplete.', { path })
    if (found.includes('ISO base media') && hasProtectedTrack(content)) throw protectedAudio(path)
    return { kind: 'convert', found: /^(an? |MPEG|ADTS|ADIF|AMR)/.test(found) ? found : 'no MP3' }
  }
  const table = isHeld ? frameTableOf(content, walk) : undefined
  const measured = measuredMp3(content, walk, table)
  if (isHeld && bytes <= limits.maximumBytes && walk.durationMs <= limits.maximumDurationMs)
    return { kind: 'send', ...measured }
  const found = 'an MP3 that cannot be split without another encoding'
  if (table === undefined) return { kind: 'convert', found, ...(isHeld && { mp3: walk }) }
  return { kind: 'cut', ...measured, table }
}

function measuredMp3(content: Uint8Array, walk: Mp3Walk, table: FrameTable | undefined): MeasuredMp3 {
  const { durationMs, parts } = walk
  const sampleRate = parts[0]?.sampleRate ?? 0
  if (table === undefined) return { durationMs, sampleRate, claimedMs: undefined, endsWithinFrame: false }
  const { frames } = readHeaderFrame(content, walk)
  const end = table.offsets[table.frameCount] as number
  return {
    durationMs,
    sampleRate,
    claimedMs: frames === undefined ? undefined : (frames * table.samplesPerFrame * 1000) / sampleRate,
    endsWithinFrame: frameLengthAt(content, end, startOfTrailingTags(content)) > 0,
  }
}
