import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import pLimit from 'p-limit'
import { walkFrames } from '#mp3/walk-frames.ts'
import { CAREFUL_FFMPEG, LIMITING_SHELL, limitedArguments } from '#shared/runtime/limited-process.ts'
import type { SpeechFormat } from '../providers/speech-format.ts'

export type Converted =
  | { readonly outcome: 'converted'; readonly mp3: Uint8Array }
  /** `reason` has no word of the audio. */
  | { readonly outcome: 'failed'; readonly reason: string }

/** Makes the MP3 that is sold of speech in another format. Never throws. */
export type ConvertToMp3 = (
  audio: Uint8Array,
  format: Exclude<SpeechFormat, 'mp3'>,
  signal?: AbortSignal,
) => Promise<Converted>

/** As other vendors send it: 44.1 kHz, mono, 128 kbit/s. */
const SAMPLE_RATE = 44_100
const KILOBITS_PER_SECOND = 128
const BYTES_PER_SAMPLE = 2

/** 2,000 characters at the slowest speed last about four minutes; what lasts longer was not read from them. */
const LONGEST_SECONDS = 600

/** The encoder adds its delay and completes the last frame. */
const ADDED_MS = 100
/** A frame more or less, and the frame that says how the file was made. */
const BYTES_BESIDE = 2048

const TIME_LIMIT_MS = 60_000
const LIMITS = { processorTimeLimitSeconds: 20 }

/** Each takes up to two seconds of a core. */
const CONVERSIONS_AT_ONCE = 2

const RAW = ['-f', 's16le', '-ar', String(SAMPLE_RATE), '-ac', '1']
const ENCODE = [
  ...CAREFUL_FFMPEG,
  ...RAW,
  ['-i', 'pipe:0', '-c:a', 'libmp3lame', '-b:a', `${KILOBITS_PER_SECOND}k`, '-f', 'mp3', 'pipe:1'],
].flat()

function decode(format: string): string[] {
  const input = ['-f', format, '-i', 'pipe:0', '-map', '0:a:0', '-map_metadata', '-1', '-t', String(LONGEST_SECONDS)]
  return [...CAREFUL_FFMPEG, ...input, ...RAW, 'pipe:1']
}

/** Creates the converter. Two ffmpeg processes work on each speech: one decodes it, the other encodes what was counted. */
export function createMp3Converter(ffmpegPath: string | undefined): ConvertToMp3 {
  if (ffmpegPath === undefined) return async () => ({ outcome: 'failed', reason: 'no ffmpeg was found' })
  const inTurn = pLimit(CONVERSIONS_AT_ONCE)
  return (audio, format, caller) =>
    inTurn(async () => {
      const signal = AbortSignal.any([AbortSignal.timeout(TIME_LIMIT_MS), ...(caller === undefined ? [] : [caller])])
      try {
        return checked(await convert(ffmpegPath, audio, format, signal))
      } catch (error) {
        return { outcome: 'failed', reason: error instanceof ConversionError ? error.message : 'ffmpeg was stopped' }
      }
    })
}

interface Conversion {
  readonly mp3: Uint8Array
  /** What was decoded of the vendor's audio. */
  readonly samples: number
}

async function convert(
  ffmpegPath: string,
  audio: Uint8Array,
  format: string,
  signal: AbortSignal,
): Promise<Conversion> {
  const decoder = start(ffmpegPath, decode(format), signal)
  const encoder = start(ffmpegPath, ENCODE, signal)
  let bytes = 0
  const counted = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      bytes += chunk.byteLength
      yield chunk
    }
  }
  const [mp3] = await Promise.all([
    buffer(encoder.child.stdout),
    // A decoder that has enough closes its input; the exit codes say whether that was right.
    pipeline(Readable.from([audio], { objectMode: false }), decoder.child.stdin).catch(() => undefined),
    pipeline(decoder.child.stdout, counted, encoder.child.stdin),
    decoder.ended,
    encoder.ended,
  ])
  return { mp3, samples: Math.floor(bytes / BYTES_PER_SAMPLE) }
}

class ConversionError extends Error {}

function start(ffmpegPath: string, args: readonly string[], signal: AbortSignal) {
  const shellArguments = [...limitedArguments(ffmpegPath, LIMITS), ...args]
  const child = spawn(LIMITING_SHELL, shellArguments, {
    stdio: ['pipe', 'pipe', 'ignore'],
    signal,
    killSignal: 'SIGKILL',
  })
  return { child, ended: requireSuccess(child) }
}

async function requireSuccess(child: ChildProcess): Promise<void> {
  const [exitCode] = (await once(child, 'close')) as [number | null]
  if (exitCode !== 0) throw new ConversionError(`ffmpeg ended with ${exitCode ?? 'a signal'}`)
}

/** The MP3 has the length of what was decoded, and the size of its bitrate. */
function checked({ mp3, samples }: Conversion): Converted {
  const decodedMs = (samples / SAMPLE_RATE) * 1000
  if (samples === 0) return { outcome: 'failed', reason: 'it has no sound' }
  if (decodedMs >= LONGEST_SECONDS * 1000) return { outcome: 'failed', reason: `it lasts ${LONGEST_SECONDS} s or more` }
  const walk = walkFrames(mp3)
  if (walk.outcome !== 'mp3') return { outcome: 'failed', reason: 'ffmpeg made no MP3' }
  const { durationMs } = walk
  if (durationMs < Math.floor(decodedMs) || durationMs > decodedMs + ADDED_MS)
    return { outcome: 'failed', reason: `of ${Math.round(decodedMs)} ms ffmpeg made ${durationMs} ms` }
  const expectedBytes = (durationMs * KILOBITS_PER_SECOND) / 8
  if (Math.abs(mp3.byteLength - expectedBytes) > BYTES_BESIDE)
    return {
      outcome: 'failed',
      reason: `the MP3 has ${mp3.byteLength} bytes and not about ${Math.round(expectedBytes)}`,
    }
  return { outcome: 'converted', mp3 }
}
