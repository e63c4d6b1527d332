import {
  DEFAULT_PROCESSOR_TIME_LIMIT_SECONDS,
  type FfmpegEnding,
  type FfmpegOptions,
  startFfmpeg,
  type WaitingFfmpeg,
} from './ffmpeg-process.ts'
import type { DecodePlan } from './plan-decode.ts'
import type { StandbyFfmpeg } from './standby-ffmpeg.ts'

/** The result of decoding an upload. Counts are samples per channel at the plan's rate, without the primer. */
export type Decoded =
  /** The decoded length is as planned. */
  | { readonly outcome: 'agrees'; readonly decodedSamples: number }
  /** The decoded length differs. A decode that exceeded the upper bound was stopped there. */
  | { readonly outcome: 'disagrees'; readonly decodedSamples: number; readonly stopped: boolean }
  /** The decoder failed on this upload but not on silence, or took more processor time than any valid upload. */
  | { readonly outcome: 'undecodable'; readonly reason: string }
  /** The upload is not at fault: there is no binary, no process could be started, or the machine is too busy. */
  | { readonly outcome: 'unavailable'; readonly reason: string }

export interface DecodeOptions {
  /** Kills the child process; the promise then rejects with the signal's reason, after the child has exited. */
  readonly signal?: AbortSignal
}

/** Decodes an upload and compares the decoded length with the plan. Rejects only with the reason of `signal`. */
export type DecodeAudio = (audio: Uint8Array, plan: DecodePlan, options?: DecodeOptions) => Promise<Decoded>

// The shell's codes for "not executable" and "not found"; the dynamic linker uses the latter for a missing library.
const MISSING_BINARY_EXIT_CODES: readonly (number | null)[] = [126, 127]

// MPEG 1 layer III, 32 kbit/s, 44.1 kHz, mono, no CRC: 104 bytes of header and silence.
const SILENT_FRAME_HEADER = [0xff, 0xfb, 0x10, 0xc0] as const
const SILENT_FRAME_BYTES = 104

interface Upload {
  readonly audio: Uint8Array
  readonly plan: DecodePlan
}

/** Returns a silent frame after a silent primer, which any working ffmpeg decodes. */
function silence(): Upload {
  const audio = new Uint8Array(SILENT_FRAME_BYTES)
  audio.set(SILENT_FRAME_HEADER)
  const primer = new Uint8Array(2 * SILENT_FRAME_BYTES)
  primer.set(audio)
  primer.set(audio, SILENT_FRAME_BYTES)
  const bounds = { primerSamples: 2304, expectedSamples: 3456, minimumSamples: 3456, maximumSamples: 3456 }
  return { audio, plan: { primer, offset: 0, isPlain: true, sampleRate: 44_100, ...bounds } }
}

function describe(ending: FfmpegEnding): string {
  const how = ending.exitCode === null ? `was ended by ${ending.signal}` : `exited with code ${ending.exitCode}`
  return `ffmpeg ${how} after ${Math.round(ending.elapsedMs)} ms: ${ending.stderr.trim().slice(-500)}`
}

/** Returns the verdict on a run, or undefined when another run must show whether the upload is at fault. */
function judge(ending: FfmpegEnding, plan: DecodePlan, processorSeconds: number): Decoded | undefined {
  const decodedSamples = Math.max(0, (ending.decodedSamples ?? 0) - plan.primerSamples)
  if (ending.stoppedBy === 'count') return { outcome: 'disagrees', decodedSamples, stopped: true }
  if (ending.stoppedBy === 'noise') return { outcome: 'unavailable', reason: describe(ending) }
  // Processor time has a separate limit, so a run that exceeds this one was starved by the machine.
  if (ending.stoppedBy === 'time') return { outcome: 'unavailable', reason: describe(ending) }
  if (MISSING_BINARY_EXIT_CODES.includes(ending.exitCode)) return { outcome: 'unavailable', reason: describe(ending) }
  if (ending.exitCode === null && ending.elapsedMs >= processorSeconds * 1000) {
    return { outcome: 'undecodable', reason: `more than ${processorSeconds} s of processor time` }
  }
  // Not this process ended it: the machine has too little memory, or an operator did.
  if (ending.signal === 'SIGKILL') return { outcome: 'unavailable', reason: describe(ending) }
  if (ending.exitCode !== 0 || ending.decodedSamples === undefined) return undefined
  const isWithin = ending.decodedSamples >= plan.minimumSamples && ending.decodedSamples <= plan.maximumSamples
  if (isWithin) return { outcome: 'agrees', decodedSamples }
  return { outcome: 'disagrees', decodedSamples, stopped: false }
}

async function decodeIn(child: WaitingFfmpeg, { audio, plan }: Upload, signal: AbortSignal | undefined) {
  const ending = await child.decode(audio, plan, signal).catch((error: unknown) => ({ error }))
  signal?.throwIfAborted()
  return ending
}

/**
 * Creates the decoder, which checks an upload independently of the frame walk: ffmpeg runs in a child process, reads
 * the upload from a pipe as MP3 only, writes mono PCM to the null device, and reports how many bytes it wrote. That is
 * a count of samples, not a time: timestamps in the upload do not change it.
 *
 * An upload that makes ffmpeg crash or exceed its processor or memory limit is undecodable; a child that cannot start
 * or is starved or killed makes the decoder unavailable. A failure that may be either (a crash, an exit code) is resolved by
 * decoding silence: if that works, the upload is at fault.
 *
 * With a `standby`, a plain upload that agrees need not wait for ffmpeg to load.
 */
export function createFfmpegDecoder(options: FfmpegOptions, standby?: StandbyFfmpeg): DecodeAudio {
  const processorSeconds = options.processorTimeLimitSeconds ?? DEFAULT_PROCESSOR_TIME_LIMIT_SECONDS

  const agrees = (ending: FfmpegEnding | { readonly error: unknown }, { plan }: Upload) => {
    const verdict = 'error' in ending ? undefined : judge(ending, plan, processorSeconds)
    return verdict?.outcome === 'agrees' ? verdict : undefined
  }

  const decode: DecodeAudio = async (audio, plan, { signal } = {}) => {
    signal?.throwIfAborted()
    const upload = { audio, plan }
    const waiting = standby?.take(plan)
    const confirmed = waiting && agrees(await decodeIn(waiting, upload, signal), upload)
    // Anything else is judged by an ffmpeg that was started for the upload.
    if (confirmed) return confirmed
    const ending = await decodeIn(startFfmpeg(options, plan), upload, signal)
    if ('error' in ending) return { outcome: 'unavailable', reason: String(ending.error) }
    const verdict = judge(ending, plan, processorSeconds)
    if (verdict !== undefined) return verdict
    const check = silence()
    const checked = await decodeIn(startFfmpeg(options, check.plan), check, signal)
    return { outcome: agrees(checked, check) ? 'undecodable' : 'unavailable', reason: describe(ending) }
  }
  return standby ? (...upload) => decode(...upload).finally(standby.replace) : decode
}
