import { AudioError } from '../audio-error.ts'
import type { Silence } from '../parts/plan-parts.ts'
import type { Ffmpeg, RunOptions } from './ffmpeg.ts'

/** Below this level nobody speaks; the noise of a quiet room is about 15 dB lower. */
const NOISE = '-35dB'
const SHORTEST_SECONDS = 0.25
const RATE = 8000
const MP3_INPUT = ['-f', 'mp3', '-i', 'pipe:0']

interface Mp3Source extends Pick<RunOptions, 'signal'> {
  /** Names the recording in errors. */
  readonly path: string
  readonly ffmpeg: Ffmpeg
}

/** Finds the silences of an MP3 without a header frame, so that its times are those of its frames. */
export async function findSilences(mp3: Uint8Array, { path, ffmpeg, ...options }: Mp3Source): Promise<Silence[]> {
  const filter = `silencedetect=noise=${NOISE}:d=${SHORTEST_SECONDS}`
  const args = ['-hide_banner', '-nostats', '-v', 'info', ...MP3_INPUT, '-af', filter, '-f', 'null', '-']
  const { succeeded, stderr } = await ffmpeg.ffmpeg(args, { input: mp3, ...options })
  if (!succeeded) throw new AudioError('damaged_audio', 'ffmpeg cannot decode it.', { path, cause: stderr.trim() })
  return parseSilences(stderr)
}

/** Reads what `silencedetect` reports. A silence that lasts to the end may have no end of its own. */
export function parseSilences(report: string): Silence[] {
  const silences: Silence[] = []
  let startMs: number | undefined
  for (const [, edge, seconds] of report.matchAll(/silence_(start|end): (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/g)) {
    const timeMs = Math.max(0, Number(seconds) * 1000)
    if (edge === 'start') startMs = timeMs
    else if (startMs !== undefined) {
      silences.push({ startMs, endMs: timeMs })
      startMs = undefined
    }
  }
  if (startMs !== undefined) silences.push({ startMs, endMs: Number.POSITIVE_INFINITY })
  return silences
}

/** Decodes MP3 frames into one channel of 16-bit samples at a low rate, enough to measure how loud they are. */
export async function decodeFrames(
  mp3: Uint8Array,
  { path, ffmpeg, ...options }: Mp3Source,
): Promise<{ samples: Int16Array; sampleRate: number }> {
  const args = ['-v', 'error', ...MP3_INPUT, '-ac', '1', '-ar', `${RATE}`, '-f', 's16le', 'pipe:1']
  const { succeeded, stdout, stderr } = await ffmpeg.ffmpeg(args, { input: mp3, ...options })
  if (!succeeded) throw new AudioError('damaged_audio', 'ffmpeg cannot decode it.', { path, cause: stderr.trim() })
  const view = new DataView(stdout.buffer, stdout.byteOffset, stdout.byteLength)
  const samples = Int16Array.from({ length: stdout.byteLength >> 1 }, (_, index) => view.getInt16(index * 2, true))
  return { samples, sampleRate: RATE }
}
