import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { SpokenRequest } from '#shared/operations/speech.ts'
import type { TextOutput, TextRequest } from '#shared/operations/text/text-request.ts'
import type { SpeechFormat } from './speech-format.ts'

/** The error codes that a provider call can fail with. */
export type ProviderFailureCode = Extract<
  ErrorCode,
  'provider_unavailable' | 'provider_rejected' | 'provider_outcome_unknown' | 'provider_empty_output'
>

/**
 * A provider call without a usable result; the payer is never charged for it.
 *
 * - `definite`: the vendor certainly did no billable work. After `provider_unavailable`, and only then, the job may be
 *   sent again (to this or the next deployment) without risking a second upstream bill; after `provider_rejected` the
 *   same input would be rejected again, by any deployment unless it is `rejectedBy: 'deployment'`.
 * - `empty`: the vendor worked, may bill it, and returned nothing that can be delivered; never call again. Usually
 *   `provider_empty_output`; `provider_rejected` where the vendor withheld what it had generated.
 * - `ambiguous`, always `provider_outcome_unknown`: the vendor may have worked, or may still be working.
 *
 * Unless it is ambiguous, nothing remains open at the vendor, so a staged upload can be deleted immediately.
 */
export interface ProviderFailure {
  readonly outcome: 'failed'
  readonly certainty: 'definite' | 'empty' | 'ambiguous'
  readonly code: ProviderFailureCode
  /**
   * Present when the request itself caused the failure and other requests would succeed. Never counts against the
   * deployment's health, or callers could take it out of service.
   */
  readonly concerns?: 'request'
  /**
   * Present with a definite `provider_rejected` whose cause is unknown: the input may be at fault, or a limit of this
   * upstream that another does not have.
   */
  readonly rejectedBy?: 'deployment'
  /** Present with `provider_unavailable` when the upstream model was shut down. */
  readonly isGone?: true
  /** Present with `provider_unavailable` when the operator must correct the deployment's setup. */
  readonly isSetupFault?: true
  /**
   * In the form of the operation: what the vendor bills although the call brought nothing, at least where it is ambiguous;
   * absent when it is not known.
   */
  readonly usage?: JsonValue | undefined
  /** Present when the call's time limit ended it. */
  readonly timedOut?: true
  /** For logs only. Built from statuses and codes, so it never contains input, output or the key. */
  readonly reason: string
  /** The vendor's `retry-after`, when it sent one. */
  readonly retryAfterSeconds?: number
  /** The vendor's id of this call, for support requests. */
  readonly vendorRequestId?: string
}

/** What every outcome with a result may have. */
interface Delivered {
  readonly vendorRequestId?: string
  /** Names of the fields that were not as the vendor documents them and were read all the same. */
  readonly mended?: readonly string[]
}

export interface TranscriptionInput {
  /** The complete MP3 file. */
  readonly audio: Uint8Array
  /** ISO 639-1 or 639-3 code; absent: the vendor detects the language. */
  readonly language?: string
  readonly diarize: boolean
  /** 1 to 32; a hint, which has no effect on the result without `diarize`. */
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
  /** `speaker_0`, `speaker_1`, …; present only with `diarize`. */
  readonly speaker?: string
  /** Present only with `timestamps: 'character'`. */
  readonly characters?: readonly TranscribedCharacter[]
}

export interface Transcript {
  /** Empty for a recording without speech. */
  readonly text: string
  /** Detected or requested language as an ISO 639-3 code (`eng`), whichever notation the vendor uses. */
  readonly language?: string
  /** Integer, 0 to 1,000,000. */
  readonly languageProbabilityMillionths?: number
  /** Present exactly when the input asks for words; empty when the text is, or when the vendor sent none. */
  readonly words?: readonly TranscribedWord[]
}

export type TranscriptionOutcome =
  | (Delivered & { readonly outcome: 'transcribed'; readonly transcript: Transcript })
  | ProviderFailure

export interface CallOptions {
  /** Aborting makes the outcome ambiguous unless nothing was sent yet. */
  readonly signal?: AbortSignal | undefined
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
 * The outcome of a text call. An answer that the request's own stop sequence or output limit ended is generated, even
 * without any visible text; any other answer without text, tool call or refusal is `provider_empty_output`. What the
 * vendor did not count of its usage is what request and answer have at least.
 */
export type TextOutcome = (Delivered & { readonly outcome: 'generated'; readonly output: TextOutput }) | ProviderFailure

export interface ImageInput {
  readonly prompt: string
  /** The only size served: 1024 × 1024 (`1K`, `1:1`). */
  readonly size: '1024x1024'
}

export type ImageOutcome =
  | (Delivered & {
      readonly outcome: 'generated'
      readonly image: { readonly bytes: Uint8Array; readonly contentType: 'image/png' | 'image/jpeg' | 'image/webp' }
      readonly revisedPrompt?: string
    })
  | ProviderFailure

/** Port for images. The bytes determine the content type, not the vendor's header. */
export interface ImageProvider {
  generateImage(input: ImageInput, options: CallOptions): Promise<ImageOutcome>
}

export type SpeechOutcome =
  | {
      readonly outcome: 'synthesized'
      readonly audio: Uint8Array
      /** Absent: an MP3. */
      readonly format?: SpeechFormat
      readonly vendorRequestId?: string
    }
  | ProviderFailure

/** Port for text to speech. */
export interface SpeechProvider {
  synthesize(input: SpokenRequest, options: CallOptions): Promise<SpeechOutcome>
}

/**
 * Port for speech to text. Sends the audio at most once per call, without retries, because the caller's attempt row
 * represents exactly one upstream call. Expected outcomes are returned, never thrown.
 */
export interface TranscriptionProvider {
  transcribe(input: TranscriptionInput, options: CallOptions): Promise<TranscriptionOutcome>
}
