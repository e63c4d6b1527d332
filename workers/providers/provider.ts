import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { TextOutput, TextRequest } from '#shared/operations/text/text-request.ts'

/** The error codes that a provider call can fail with. */
export type ProviderFailureCode = Extract<
  ErrorCode,
  'provider_unavailable' | 'provider_rejected' | 'provider_outcome_unknown' | 'provider_empty_output'
>

/**
 * A provider call without a usable result; the payer is never charged for it.
 *
 * `certainty` is `definite` when nothing remains open at the vendor, so a staged upload can be deleted immediately:
 * - `provider_unavailable`: the vendor certainly did no billable work. The only failure after which the job may be sent
 *   again (to this or the next deployment) without risking a second upstream bill.
 * - `provider_rejected`: no billable work either, but the input itself was rejected; the same input fails again.
 * - `provider_empty_output`: the vendor worked and returned nothing. The vendor may bill it, so never call again.
 *
 * `ambiguous` is always `provider_outcome_unknown`: the vendor may have worked, or may still be working.
 */
export interface ProviderFailure {
  readonly outcome: 'failed'
  readonly certainty: 'definite' | 'ambiguous'
  readonly code: ProviderFailureCode
  /** For logs only. Built from statuses and codes, so it never contains input, output or the key. */
  readonly reason: string
  /** The vendor's `retry-after`, when it sent one. */
  readonly retryAfterSeconds?: number
  /** The vendor's id of this call, for support requests. */
  readonly vendorRequestId?: string
}

export interface TranscriptionInput {
  /** The complete MP3 file. */
  readonly audio: Uint8Array
  /** ISO 639-1 or 639-3 code; absent: the vendor detects the language. */
  readonly language?: string
  readonly diarize: boolean
  /** 1 to 32; a hint that is passed on even without `diarize`. */
  readonly numSpeakers?: number
  readonly timestamps: 'none' | 'word' | 'character'
  readonly tagAudioEvents: boolean
  /** Whether the result must list words although neither `timestamps` nor `diarize` asks for them. */
  readonly needsWords: boolean
}

/** One character of a word. Times are seconds from the start of the audio. */
export interface TranscribedCharacter {
  readonly text: string
  readonly startSeconds: number
  readonly endSeconds: number
}

/** One item of the transcript in spoken order. Neighboring items may overlap by a few milliseconds. */
export interface TranscribedWord {
  readonly text: string
  readonly type: 'word' | 'spacing' | 'audio_event'
  readonly startSeconds: number
  readonly endSeconds: number
  /** `speaker_0`, `speaker_1`, …; present only with `diarize`, and only where the vendor reports it. */
  readonly speaker?: string
  /** Present only with `timestamps: 'character'`. */
  readonly characters?: readonly TranscribedCharacter[]
}

export interface Transcript {
  /** Never blank. */
  readonly text: string
  /** Detected or requested language, in the vendor's notation (`en` or `eng`). */
  readonly language?: string
  /** Integer, 0 to 1,000,000. */
  readonly languageProbabilityMillionths?: number
  /** Present, and not empty, exactly when the input asks for words. */
  readonly words?: readonly TranscribedWord[]
}

export type TranscriptionOutcome =
  | { readonly outcome: 'transcribed'; readonly transcript: Transcript; readonly vendorRequestId?: string }
  | ProviderFailure

export interface CallOptions {
  /** Aborting makes the outcome ambiguous unless nothing was sent yet. */
  readonly signal?: AbortSignal
  /** For the whole call: connecting, sending, waiting and reading the response. */
  readonly timeoutMs: number
}

/**
 * Port for text. Image parts are inline: the worker has fetched remote ones. Makes at most one upstream call and never
 * throws.
 */
export interface TextProvider {
  generateText(request: TextRequest, options: CallOptions): Promise<TextOutcome>
}

/**
 * The outcome of a text call: `provider_empty_output` when there is no visible text, tool call or refusal. Usage must
 * be complete; a response without it is `provider_outcome_unknown`.
 */
export type TextOutcome =
  | { readonly outcome: 'generated'; readonly output: TextOutput; readonly vendorRequestId?: string }
  | ProviderFailure

export interface ImageInput {
  readonly prompt: string
  /** The only size served: 1024 × 1024 (`1K`, `1:1`). */
  readonly size: '1024x1024'
}

export type ImageOutcome =
  | {
      readonly outcome: 'generated'
      readonly image: { readonly bytes: Uint8Array; readonly contentType: 'image/png' | 'image/jpeg' | 'image/webp' }
      readonly revisedPrompt?: string
      readonly vendorRequestId?: string
    }
  | ProviderFailure

/** Port for images. The bytes determine the content type, not the vendor's header. */
export interface ImageProvider {
  generateImage(input: ImageInput, options: CallOptions): Promise<ImageOutcome>
}

export interface SpeechInput {
  readonly text: string
  /** The vendor's own voice id; the deployment maps the public alias to it. */
  readonly voice: string
  /** 0.7 to 1.2 in steps of 0.001. */
  readonly speed: number
}

export type SpeechOutcome =
  | {
      readonly outcome: 'synthesized'
      /** A complete MP3. */
      readonly audio: Uint8Array
      readonly vendorRequestId?: string
    }
  | ProviderFailure

/** Port for text to speech. */
export interface SpeechProvider {
  synthesize(input: SpeechInput, options: CallOptions): Promise<SpeechOutcome>
}

/**
 * Port for speech to text. Sends the audio at most once per call, without retries, because the caller's attempt row
 * represents exactly one upstream call. Expected outcomes are returned, never thrown.
 */
export interface TranscriptionProvider {
  transcribe(input: TranscriptionInput, options: CallOptions): Promise<TranscriptionOutcome>
}
