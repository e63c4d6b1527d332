import { AudioError } from '../audio-error.ts'
import { createPrepared } from '../write-prepared.ts'
import { type Ffmpeg, inputFile } from './ffmpeg.ts'

export interface Conversion {
  readonly path: string
  /** The MP3 to write. */
  readonly output: string
  /** Kilobit/s. */
  readonly bitRate: number
  readonly signal?: AbortSignal
}

/** Samples by which LAME and a decoder delay the sound when no header frame tells players to skip them. */
const DELAY_SAMPLES = 1105

/** How much of ffmpeg's report an error keeps: of a damaged recording it has thousands of lines. */
const LONGEST_REPORT = 2000

/** Returns by how many milliseconds the sound of a converted recording is later than in its source. */
export function conversionDelayMs(sampleRate: number): number {
  return (DELAY_SAMPLES * 1000) / sampleRate
}

/**
 * Converts a recording into an MP3 that can be cut anywhere: one channel, a constant bit rate, and no frame that needs
 * bytes of the frames before it. The same source and ffmpeg result in the same bytes: no tags, no header frame, no date.
 */
export async function convert(ffmpeg: Ffmpeg, conversion: Conversion): Promise<void> {
  await createPrepared(conversion.output, (output) => run(ffmpeg, { ...conversion, output }, conversion.output))
}

async function run(ffmpeg: Ffmpeg, { path, output, bitRate, signal }: Conversion, named: string): Promise<void> {
  const read = ['-v', 'error', '-nostdin', '-y', ...inputFile(path), '-vn', '-sn', '-dn']
  const encode = ['-c:a', 'libmp3lame', '-ac', '1', '-b:a', `${bitRate}k`, '-reservoir', '0']
  const bare = ['-map_metadata', '-1', '-map_chapters', '-1', '-write_xing', '0', '-id3v2_version', '0']
  const exact = ['-fflags', '+bitexact', '-flags:a', '+bitexact']
  const args = [...read, ...encode, ...bare, ...exact, '-f', 'mp3', `file:${output}`]
  const { succeeded, stderr } = await ffmpeg.ffmpeg(args, signal === undefined ? {} : { signal })
  const cause = `ffmpeg ${args.join(' ')}\n${stderr.trim().slice(-LONGEST_REPORT)}`
  // ffmpeg may report success although it could not write the end.
  if (/: (No space left|Disk quota exceeded|File too large)/.test(stderr))
    throw new AudioError('disk_full', `the disk is full: ${lastLine(stderr)}.`, { path: named, cause })
  if (succeeded) return
  if (/Permission denied|Read-only/.test(stderr))
    throw new AudioError('folder_unwritable', `it cannot be written: ${lastLine(stderr)}.`, { path: named, cause })
  if (stderr.includes('Unknown encoder'))
    throw new AudioError('ffmpeg_failed', `ffmpeg cannot write the MP3: ${lastLine(stderr)}.`, { path, cause })
  throw new AudioError('damaged_audio', `ffmpeg cannot decode it: ${lastLine(stderr)}.`, { path, cause })
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.replace(/\.$/, '') ?? ''
}
