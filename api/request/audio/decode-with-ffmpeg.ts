import type { DecodePlan } from './plan-decode.ts'
import { defaultProcessorTimeLimitSeconds, type FfmpegEnding, type FfmpegOptions, runFfmpeg } from './run-ffmpeg.ts'

/** What the decoder made of an upload. Counts are samples per channel at the plan's rate, without the primer's. */
export type Decoded =
  /** It decoded to what the plan expects. */
  | { readonly outcome: 'agrees'; readonly decodedSamples: number }
  /** It decoded to something else. A decode that passed the upper bound was stopped there. */
  | { readonly outcome: 'disagrees'; readonly decodedSamples: number; readonly stopped: boolean }
  /** It failed on this upload though not on a silent one, or took more processor time than any legal upload. */
  | { readonly outcome: 'undecodable'; readonly reason: string }
  /** No fault of the upload's: no binary, no process to be had, or a machine too busy to finish in time. */
  | { readonly outcome: 'unavailable'; readonly reason: string }

export interface DecodeOptions {
  /** Kills the child; the promise then rejects with the signal's reason, once the child is gone. */
  readonly signal?: AbortSignal
}

/** Decodes an upload and compares what comes out with the plan. Rejects only with the reason of `signal`. */
export type DecodeAudio = (audio: Uint8Array, plan: DecodePlan, options?: DecodeOptions) => Promise<Decoded>

// The shell's "found but not executable" and "not found"; the dynamic linker uses the latter for a missing library.
const exitCodesOfNoBinary: readonly (number | null)[] = [126, 127]

// MPEG 1 layer III, 32 kbit/s, 44.1 kHz, mono, no CRC: 104 bytes of header and silence.
const silentFrameHeader = [0xff, 0xfb, 0x10, 0xc0] as const
const silentFrameBytes = 104

/** A silent frame behind a silent primer: what any working ffmpeg decodes. */
function silence(): { audio: Uint8Array; plan: DecodePlan } {
  const audio = new Uint8Array(silentFrameBytes)
  audio.set(silentFrameHeader)
  const primer = new Uint8Array(2 * silentFrameBytes)
  primer.set(audio)
  primer.set(audio, silentFrameBytes)
  const bounds = { primerSamples: 2304, expectedSamples: 3456, minimumSamples: 3456, maximumSamples: 3456 }
  return { audio, plan: { primer, offset: 0, sampleRate: 44_100, ...bounds } }
}

function describe(ending: FfmpegEnding): string {
  const how = ending.exitCode === null ? 'was killed' : `exited with code ${ending.exitCode}`
  return `ffmpeg ${how} after ${Math.round(ending.elapsedMs)} ms: ${ending.stderr.trim().slice(-500)}`
}

/** Judges what the ending says by itself, or undefined when it takes another run to know whose fault it is. */
function judge(ending: FfmpegEnding, plan: DecodePlan, processorSeconds: number): Decoded | undefined {
  const decodedSamples = Math.max(0, ending.decodedSamples - plan.primerSamples)
  if (ending.stoppedBy === 'count') return { outcome: 'disagrees', decodedSamples, stopped: true }
  // The processor time has a limit of its own, so whoever meets this one was kept waiting by the machine.
  if (ending.stoppedBy === 'time') return { outcome: 'unavailable', reason: describe(ending) }
  if (exitCodesOfNoBinary.includes(ending.exitCode)) return { outcome: 'unavailable', reason: describe(ending) }
  if (ending.exitCode === null && ending.elapsedMs >= processorSeconds * 1000) {
    return { outcome: 'undecodable', reason: `more than ${processorSeconds} s of processor time` }
  }
  if (ending.exitCode !== 0) return undefined
  const isWithin = ending.decodedSamples >= plan.minimumSamples && ending.decodedSamples <= plan.maximumSamples
  if (isWithin) return { outcome: 'agrees', decodedSamples }
  return { outcome: 'disagrees', decodedSamples, stopped: false }
}

/**
 * Makes the decoder that is the second, independent look at an upload: ffmpeg in a child process that reads a pipe,
 * is held to MP3, and writes mono PCM to a pipe where it is counted and thrown away.
 *
 * A file that makes ffmpeg crash or hit its processor or memory limit is the uploader's to answer for; a child that
 * could not start or was starved is ours. A failure that may be either (a crash, an exit code) is settled by decoding
 * a silent clip: where that works, the upload is at fault.
 */
export function createFfmpegDecoder(options: FfmpegOptions): DecodeAudio {
  const processorSeconds = options.processorTimeLimitSeconds ?? defaultProcessorTimeLimitSeconds

  const run = async (audio: Uint8Array, plan: DecodePlan, signal: AbortSignal | undefined) => {
    signal?.throwIfAborted()
    const ending = await runFfmpeg(options, audio, plan, signal).catch((error: unknown) => ({ error }))
    signal?.throwIfAborted()
    return ending
  }

  return async (audio, plan, { signal } = {}) => {
    const ending = await run(audio, plan, signal)
    if ('error' in ending) return { outcome: 'unavailable', reason: String(ending.error) }
    const verdict = judge(ending, plan, processorSeconds)
    if (verdict !== undefined) return verdict
    const check = silence()
    const checked = await run(check.audio, check.plan, signal)
    const isDecoderWell = !('error' in checked) && judge(checked, check.plan, processorSeconds)?.outcome === 'agrees'
    return { outcome: isDecoderWell ? 'undecodable' : 'unavailable', reason: describe(ending) }
  }
}
