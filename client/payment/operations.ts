import type {
  CreateChatCompletionRequest,
  CreateChatCompletionResult,
  CreateImageGenerationRequest,
  CreateImageGenerationResult,
  CreateMessageRequest,
  CreateMessageResult,
  CreateSpeechRequest,
  CreateSpeechResult,
  CreateTranscriptionFormRequest,
  CreateTranscriptionResult,
} from '../wire/schemas.ts'

/** The path of each paid operation. */
export const OPERATION_PATHS = {
  createChatCompletion: '/v1/chat/completions',
  createMessage: '/v1/messages',
  createImageGeneration: '/v1/images/generations',
  createSpeech: '/v1/audio/speech',
  createTranscription: '/v1/audio/transcriptions',
} as const

/** Returns the operation of a paid path, or the path itself. */
export function operationOfPath(path: string): string {
  return Object.entries(OPERATION_PATHS).find(([, each]) => each === path)?.[0] ?? path
}

export type Operation = keyof typeof OPERATION_PATHS
export type JsonOperation = Exclude<Operation, 'createTranscription'>

export interface Requests {
  readonly createChatCompletion: CreateChatCompletionRequest
  readonly createMessage: CreateMessageRequest
  readonly createImageGeneration: CreateImageGenerationRequest
  readonly createSpeech: CreateSpeechRequest
}

export interface Results {
  readonly createChatCompletion: CreateChatCompletionResult
  readonly createMessage: CreateMessageResult
  readonly createImageGeneration: CreateImageGenerationResult
  readonly createSpeech: CreateSpeechResult
  readonly createTranscription: CreateTranscriptionResult
}

/** A recording as it is described for its price, before it is sent. */
export interface AudioClaim {
  readonly sha256: string
  readonly bytes: number
  /** All frames without the Xing, Info or VBRI frame, encoder delay and padding included, rounded up. */
  readonly duration_ms: number
}

export type TranscriptionOptions = Partial<Omit<CreateTranscriptionFormRequest, 'file'>>

export interface TranscriptionRequest extends TranscriptionOptions {
  /** An MP3: its path or its content. */
  readonly file: string | Uint8Array | Blob
  /** Prices the call first, so that the recording is sent only once; a file is then read only when it is sent. */
  readonly audio?: AudioClaim | undefined
}

export const DEFAULT_TRANSCRIPTION_MODEL = 'speechvendor/scribe-v2'
