import pLimit from 'p-limit'
import type { AudioPart, Mp3Walk } from '#shared/audio/walk-frames.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { overloaded, UNPAID_SHARE } from '../../admission/load-gate.ts'
import type { MeasuredUpload } from '../measure-audio.ts'
import type { DecodeAudio } from './decode-with-ffmpeg.ts'
import type { InspectionCache } from './inspection-cache.ts'
import { type DecodePlan, planDecode } from './plan-decode.ts'

/** What is known of an accepted upload. */
export interface Mp3Inspection {
  /** Exact, rounded up to the millisecond; at least 1. */
  readonly durationMs: number
  /** Audio by sample rate, in order of appearance. */
  readonly parts: readonly AudioPart[]
}

/** What the cache remembers of an upload. */
export type InspectionOutcome =
  | { readonly outcome: 'accepted'; readonly inspection: Mp3Inspection }
  | { readonly outcome: 'rejected'; readonly code: 'unsupported_audio' | 'audio_too_long'; readonly message: string }

export interface Mp3InspectorDependencies {
  /** Undefined when there is no ffmpeg: what the walk refuses is still refused, the rest is unavailable. */
  readonly decode: DecodeAudio | undefined
  readonly cache: InspectionCache<InspectionOutcome>
  readonly limits: { readonly maximumBytes: number; readonly maximumDurationMs: number }
  /** Decodes at a time. */
  readonly concurrency: number
  /** Uploads that may wait for a decoder; each holds its bytes in memory meanwhile. */
  readonly maximumWaiting: number
  /** Stops all decodes, for a shutdown. */
  readonly signal?: AbortSignal
  /** Told why inspection was unavailable; the public answer does not say. */
  readonly onUnavailable?: (reason: string) => void
}

export interface InspectionOptions {
  /** The field to name in an error (`file`, `audio_base64`). */
  readonly param?: string
  /** Whether the caller brings a payment. Others leave it some of the places to wait. */
  readonly isPaying?: boolean
}

export interface Mp3Inspector {
  /**
   * Inspects one whole upload, whose hash and walk are of these very bytes and were made here, never taken from a request.
   *
   * Throws AppError `audio_too_large`, `unsupported_audio` or `audio_too_long` for the upload's own faults;
   * `overloaded` (with `retryAfterSeconds`) when too many wait; `audio_inspection_unavailable` when the decoder
   * fails through no fault of the upload. Repeating a call is free while the outcome is cached.
   */
  readonly inspect: (upload: MeasuredUpload, options?: InspectionOptions) => Promise<Mp3Inspection>
  /**
   * Seconds after which an upload without a payment may find a place to wait for a decoder, or `null` when there is one now:
   * what `inspect` would refuse need not be uploaded first.
   */
  readonly unpaidRetryAfterSeconds: () => number | null
  /** How many decodes run and wait at the moment, and how many may run. */
  readonly load: () => { readonly busy: number; readonly waiting: number; readonly places: number }
}

// Rounded up from what half an hour of stereo takes, decoded alone on one core.
const secondsPerDecode = 2

function withThousands(value: number): string {
  return value.toLocaleString('en-US')
}

function reject(code: 'unsupported_audio' | 'audio_too_long', message: string): InspectionOutcome {
  return { outcome: 'rejected', code, message }
}

function disagreement(walk: Mp3Walk, plan: DecodePlan, decodedSamples: number, stopped: boolean): string {
  const decodedMs = Math.ceil((decodedSamples * 1000) / plan.sampleRate)
  return (
    `The upload is not a decodable MP3: its frames amount to ${withThousands(walk.durationMs)} ms, ` +
    `but it decodes to ${stopped ? 'more than ' : ''}${withThousands(decodedMs)} ms.`
  )
}

/**
 * Makes the inspector: what the frame walk found first, then a decode in one of `concurrency` places. An upload that the
 * walk refuses never waits for a decoder.
 */
export function createMp3Inspector(dependencies: Mp3InspectorDependencies): Mp3Inspector {
  const { decode, cache, limits, concurrency, maximumWaiting, signal, onUnavailable } = dependencies
  const decoders = pLimit(concurrency)

  function unavailable(reason: string): AppError {
    onUnavailable?.(reason)
    return new AppError('audio_inspection_unavailable', { cause: reason })
  }

  function retryAfterSeconds(isPaying: boolean): number | null {
    const places = concurrency + (isPaying ? maximumWaiting : Math.floor(maximumWaiting * UNPAID_SHARE))
    // A place is taken a microtask after it is asked for, so only the sum of the two counts tells how full it is.
    if (decoders.activeCount + decoders.pendingCount < places) return null
    return Math.ceil(((decoders.pendingCount + 1) / concurrency) * secondsPerDecode)
  }

  async function decodeInTurn(audio: Uint8Array, walk: Mp3Walk, isPaying: boolean): Promise<InspectionOutcome> {
    if (decode === undefined) throw unavailable('no ffmpeg was found')
    const seconds = retryAfterSeconds(isPaying)
    if (seconds !== null) throw overloaded('Every audio decoder is busy.', seconds)
    const plan = planDecode(audio, walk)
    const decoded = await decoders(decode, audio, plan, signal === undefined ? {} : { signal })
    if (decoded.outcome === 'unavailable') throw unavailable(decoded.reason)
    if (decoded.outcome === 'undecodable') {
      return reject('unsupported_audio', 'The upload is not a decodable MP3: the decoder fails on it.')
    }
    if (decoded.outcome === 'disagrees') {
      return reject('unsupported_audio', disagreement(walk, plan, decoded.decodedSamples, decoded.stopped))
    }
    return { outcome: 'accepted', inspection: { durationMs: walk.durationMs, parts: walk.parts } }
  }

  async function examine({ audio, walk }: MeasuredUpload, isPaying: boolean): Promise<InspectionOutcome> {
    if (walk.outcome === 'unsupported') {
      return reject('unsupported_audio', `The upload is not a decodable MP3: found ${walk.found}.`)
    }
    if (walk.durationMs > limits.maximumDurationMs) {
      const lasts = withThousands(walk.durationMs)
      const limit = withThousands(limits.maximumDurationMs)
      return reject('audio_too_long', `The audio lasts ${lasts} ms; the limit is ${limit} ms.`)
    }
    return await decodeInTurn(audio, walk, isPaying)
  }

  return {
    unpaidRetryAfterSeconds: () => retryAfterSeconds(false),
    inspect: async (upload, { param, isPaying = false } = {}) => {
      const { audio, sha256 } = upload
      const field = param === undefined ? {} : { param }
      if (audio.length > limits.maximumBytes) {
        const has = withThousands(audio.length)
        const limit = withThousands(limits.maximumBytes)
        throw new AppError('audio_too_large', {
          message: `The audio has ${has} bytes; the limit is ${limit}.`,
          ...field,
        })
      }
      const outcome = await cache.get(sha256, () => examine(upload, isPaying))
      if (outcome.outcome === 'accepted') return outcome.inspection
      throw new AppError(outcome.code, { message: outcome.message, ...field })
    },
    load: () => ({ busy: decoders.activeCount, waiting: decoders.pendingCount, places: concurrency }),
  }
}
