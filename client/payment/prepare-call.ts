import { createHash, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { parseUsdc } from '../budget/usdc.ts'
import { canonicalJson } from '../wire/canonical-json.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { requestIdentity } from './call-key.ts'
import {
  DEFAULT_TRANSCRIPTION_MODEL,
  type JsonOperation,
  OPERATION_PATHS,
  type Requests,
  type TranscriptionRequest,
} from './operations.ts'
import type { PaidCall } from './paid-call.ts'

export interface CallOptions {
  /** The idempotency key; another one is drawn for each call. Repeat a call under its key to be charged once. */
  readonly requestId?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Decimal USDC; a challenge above it is refused. */
  readonly maximum?: string | undefined
  /** How long to wait for retries; ten minutes by default. */
  readonly patienceMs?: number | undefined
  readonly onWait?: PaidCall['onWait']
  /** What the journal shows; the operation's name by default. */
  readonly purpose?: string | undefined
}

const DEFAULT_PATIENCE_MS = 10 * 60_000

/** Prepares a call whose request is JSON. */
export function prepareJsonCall<Name extends JsonOperation>(
  baseUrl: string,
  operation: Name,
  request: Requests[Name],
  options: CallOptions,
): PaidCall {
  const body = JSON.stringify(request)
  return {
    ...common(baseUrl, operation, sha256(canonicalJson(request)), options),
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: () => body,
  }
}

/** Prepares a transcription. A file is read once, so that what is priced, signed and sent is the same. */
export async function prepareTranscription(
  baseUrl: string,
  { file, audio, ...given }: TranscriptionRequest,
  options: CallOptions,
): Promise<PaidCall> {
  const fields = { model: DEFAULT_TRANSCRIPTION_MODEL, ...given } as const
  const recording = await readRecording(file)
  const contentSha256 = sha256(new Uint8Array(await recording.arrayBuffer()))
  if (audio !== undefined && audio.sha256 !== contentSha256) throw changed(audio.sha256, contentSha256)
  return {
    ...common(baseUrl, 'createTranscription', sha256(canonicalJson({ fields, contentSha256 })), options),
    headers: { accept: 'application/json' },
    body: () => transcriptionForm(fields, recording),
    priceFirst:
      audio === undefined
        ? undefined
        : {
            url: new URL('/v1/quotes', baseUrl).href,
            body: JSON.stringify({ operation: 'createTranscription', request: { ...fields, audio }, challenge: true }),
          },
  }
}

function common(baseUrl: string, operation: keyof typeof OPERATION_PATHS, digest: string, options: CallOptions) {
  const { requestId = randomUUID(), purpose = operation, patienceMs = DEFAULT_PATIENCE_MS, signal, onWait } = options
  const url = new URL(OPERATION_PATHS[operation], baseUrl).href
  return {
    key: requestId,
    url,
    identity: requestIdentity('POST', url, digest),
    purpose,
    patienceMs,
    signal,
    onWait,
    quotedMaximum: options.maximum === undefined ? undefined : parseUsdc(options.maximum),
  }
}

async function readRecording(file: string | Uint8Array | Blob): Promise<Blob> {
  if (file instanceof Blob) return file
  if (typeof file !== 'string') return new Blob([new Uint8Array(file)])
  try {
    return new Blob([new Uint8Array(await readFile(file))])
  } catch (cause) {
    throw new FareboxError({
      code: 'file_unreadable',
      problem: `The recording ${file} cannot be read.`,
      money: 'none',
      advice: 'Check its path and permissions.',
      cause,
    })
  }
}

function transcriptionForm(
  fields: Readonly<Record<string, string | number | boolean | undefined>>,
  recording: Blob,
): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) form.append(name, String(value))
  form.append('file', recording, 'recording.mp3')
  return form
}

function changed(expected: string, actual: string): FareboxError {
  return new FareboxError({
    code: 'file_changed',
    problem: `The recording is not the one that was measured: its SHA-256 is ${actual} instead of ${expected}.`,
    money: 'none',
    advice: 'Measure the file again when nothing writes to it.',
  })
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
