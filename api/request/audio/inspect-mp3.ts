import type { AudioPart, Mp3Walk } from '#mp3/walk-frames.ts'
import {
  type AudioLimits,
  conversionAdvice,
  ENCODE_AGAIN,
  shrinkAdvice,
  splitAdvice,
} from '#shared/audio/conversion.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { DecodeVerdict } from '#shared/ledger/acceptance/inspection-store.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { MeasuredUpload } from '../measure-audio.ts'
import type { DecodeAudio } from './decode-with-ffmpeg.ts'
import { createDecoderQueue, type DecoderCaller, type DecoderLimits, type DecoderQueue } from './decoder-queue.ts'
import type { InspectionCache } from './inspection-cache.ts'
import { type DecodePlan, planDecode } from './plan-decode.ts'
import type { SharedVerdicts } from './shared-verdicts.ts'

/** The measurements of an accepted upload. */
export interface Mp3Inspection {
  /** Exact, rounded up to the millisecond; at least 1. */
  readonly durationMs: number
  /** Audio by sample rate, in order of appearance. */
  readonly parts: readonly AudioPart[]
}

/** The outcome that the cache stores for an upload. */
export type InspectionOutcome =
  | { readonly outcome: 'accepted'; readonly inspection: Mp3Inspection }
  | { readonly outcome: 'rejected'; readonly code: 'unsupported_audio'; readonly message: string }

export interface Mp3InspectorDependencies extends DecoderLimits {
  /** Undefined without ffmpeg: uploads that the frame walk rejects are still rejected, others are answered 503. */
  readonly decode: DecodeAudio | undefined
  readonly cache: InspectionCache<InspectionOutcome>
  /** Asked before an upload is decoded that this process does not know. */
  readonly verdicts: SharedVerdicts
  /** Called before each decode; throws when the caller has had too much audio decoded. */
  readonly limitDecoding: (caller: DecoderCaller, durationMs: number) => void
  /** Stops all decodes on shutdown. */
  readonly signal?: AbortSignal
  /** Called with the reason why inspection was unavailable, which the public error does not contain. */
  readonly onUnavailable?: (reason: string) => void
}

export interface InspectionOptions extends DecoderCaller {
  /** The field that errors name (`file`, `audio_base64`). */
  readonly param?: string
  readonly limits: AudioLimits
}

export interface Mp3Inspector {
  /**
   * Inspects a whole upload. Its hash and frame walk must have been computed from its bytes, never taken from a
   * request.
   *
   * Throws AppError `audio_too_large`, `unsupported_audio`, `audio_too_short` or `audio_too_long` for a faulty upload;
   * `overloaded` (with `retryAfterSeconds`) when too many wait; `audio_inspection_unavailable` when the decoder fails for
   * another reason.
   * Repeated calls are free while the outcome is cached.
   */
  readonly inspect: (upload: MeasuredUpload, options: InspectionOptions) => Promise<Mp3Inspection>
  /** Throws what `inspect` would about the limits, for a recording that was only described. */
  readonly requireWithinLimits: (audio: Pick<MeasuredAudio, 'bytes' | 'durationMs'>, limits: AudioLimits) => void
  /** Lets admission reject requests before their upload that `inspect` would reject after it. */
  readonly retryAfterSeconds: DecoderQueue['retryAfterSeconds']
  readonly load: DecoderQueue['load']
}

/** A verdict of this process. A decoder that crashed or took too long may do better on another machine. */
interface Decoded extends DecodeVerdict {
  readonly isRepeatable: boolean
}

/** Returns whether an inspection was refused because of who asked for it. */
export function isOfCaller(error: unknown): boolean {
  return error instanceof AppError && (error.code === 'rate_limited' || error.code === 'overloaded')
}

function reject(message: string): InspectionOutcome {
  return { outcome: 'rejected', code: 'unsupported_audio', message }
}

function disagreement(walk: Mp3Walk, plan: DecodePlan, decodedSamples: number, stopped: boolean): string {
  const decodedMs = Math.ceil((decodedSamples * 1000) / plan.sampleRate)
  return (
    `The upload is not a decodable MP3: its frames amount to ${withThousands(walk.durationMs)} ms, ` +
    `but it decodes to ${stopped ? 'more than ' : ''}${withThousands(decodedMs)} ms.`
  )
}

/**
 * Creates the inspector, which judges the frame walk first and then decodes the upload in its turn. An upload that
 * fails the walk never waits for a decoder.
 */
export function createMp3Inspector(dependencies: Mp3InspectorDependencies): Mp3Inspector {
  const { decode, cache, verdicts, limitDecoding, signal, onUnavailable } = dependencies
  const decoders = createDecoderQueue(dependencies)

  function unavailable(reason: string): AppError {
    onUnavailable?.(reason)
    return new AppError('audio_inspection_unavailable', { cause: reason })
  }

  async function decodeQueued(audio: Uint8Array, walk: Mp3Walk, caller: DecoderCaller): Promise<Decoded> {
    if (decode === undefined) throw unavailable('no ffmpeg was found')
    limitDecoding(caller, walk.durationMs)
    const plan = planDecode(audio, walk)
    const decoded = await decoders.run(caller, walk.durationMs, () =>
      decode(audio, plan, signal === undefined ? {} : { signal }),
    )
    if (decoded.outcome === 'unavailable') throw unavailable(decoded.reason)
    if (decoded.outcome === 'agrees') return { refusal: null, isRepeatable: true }
    if (decoded.outcome === 'undecodable') {
      // No command: ffmpeg is what failed.
      const refusal = 'The upload is not a decodable MP3: the decoder fails on it. Encode it again from its original.'
      return { refusal, isRepeatable: false }
    }
    const refusal = `${disagreement(walk, plan, decoded.decodedSamples, decoded.stopped)} ${ENCODE_AGAIN}`
    return { refusal, isRepeatable: true }
  }

  /** Returns the verdict that another process shares, or that of a decode, which is then shared if it can be repeated. */
  async function verdictOn({ audio, sha256 }: MeasuredUpload, walk: Mp3Walk, caller: DecoderCaller) {
    const identified = { sha256, durationMs: walk.durationMs }
    const known = await verdicts.find(identified)
    if (known) return known
    const { isRepeatable, ...verdict } = await decodeQueued(audio, walk, caller)
    if (isRepeatable) await verdicts.record(identified, verdict)
    return verdict
  }

  async function examine(upload: MeasuredUpload, caller: DecoderCaller): Promise<InspectionOutcome> {
    const { walk } = upload
    if (walk.outcome === 'unsupported') {
      const message = `The upload is not a decodable MP3: found ${walk.found}. ${conversionAdvice(walk.found)}`
      return reject(message)
    }
    const { refusal } = await verdictOn(upload, walk, caller)
    if (refusal !== null) return reject(refusal)
    return { outcome: 'accepted', inspection: { durationMs: walk.durationMs, parts: walk.parts } }
  }

  return {
    retryAfterSeconds: decoders.retryAfterSeconds,
    load: decoders.load,
    requireWithinLimits: ({ bytes, durationMs }, limits) => {
      if (bytes > limits.maximumBytes)
        throw new AppError('audio_too_large', { message: tooLarge(bytes, limits), param: 'audio.bytes' })
      requireDuration(durationMs, limits, { param: 'audio.duration_ms' })
    },
    inspect: async (upload, { param, limits, ...caller }) => {
      const { audio, sha256, walk } = upload
      const field = param === undefined ? {} : { param }
      if (audio.length > limits.maximumBytes)
        throw new AppError('audio_too_large', { message: tooLarge(audio.length, limits), ...field })
      // Not part of the outcome that is cached: the limits of two requests may differ.
      if (walk.outcome !== 'unsupported') requireDuration(walk.durationMs, limits, field)
      const outcome = await cache.get(sha256, () => examine(upload, caller))
      if (outcome.outcome === 'accepted') return outcome.inspection
      throw new AppError(outcome.code, { message: outcome.message, ...field })
    },
  }
}

/** Returns the message about an upload with more bytes than the limit. */
function tooLarge(bytes: number, limits: AudioLimits): string {
  const limit = withThousands(limits.maximumBytes)
  return `The audio has ${withThousands(bytes)} bytes; the limit is ${limit}. ${shrinkAdvice(limits)}`
}

/** Throws `audio_too_short` or `audio_too_long` for a duration outside the limits. */
function requireDuration(durationMs: number, limits: AudioLimits, field: { readonly param?: string }): void {
  const { minimumDurationMs, maximumDurationMs } = limits
  const lasts = `The audio lasts ${withThousands(durationMs)} ms`
  if (durationMs < minimumDurationMs) {
    const least = withThousands(minimumDurationMs)
    const message = `${lasts}; the least is ${least} ms, and no provider recognizes less. Nothing was charged.`
    throw new AppError('audio_too_short', { message, ...field })
  }
  if (durationMs <= maximumDurationMs) return
  const message = `${lasts}; the limit is ${withThousands(maximumDurationMs)} ms. ${splitAdvice(limits)}`
  throw new AppError('audio_too_long', { message, ...field })
}

function withThousands(value: number): string {
  return value.toLocaleString('en-US')
}
