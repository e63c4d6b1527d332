import { hash, randomBytes, randomUUID } from 'node:crypto'
import { parseUsdc } from '../budget/usdc.ts'
import type { Followed } from '../wire/ask-service.ts'
import { canonicalJson } from '../wire/json.ts'
import { IDEMPOTENCY_KEY, requestIdentity } from './call-key.ts'
import {
  DEFAULT_TRANSCRIPTION_MODEL,
  type JsonOperation,
  OPERATION_PATHS,
  type Requests,
  type TranscriptionRequest,
} from './operations.ts'
import type { PaidCall } from './paid-call.ts'
import { contentOf } from './recording-content.ts'
import { ANSWER_WITHIN_MS } from './send-call.ts'

export interface CallOptions extends Followed {
  /** The idempotency key; another one is drawn for each call. Repeat a call under its key to be charged once. */
  readonly requestId?: string | undefined
  /** Decimal USDC; a challenge above it is refused. */
  readonly maximum?: string | undefined
  /** How long to wait for retries; ten minutes by default. */
  readonly patienceMs?: number | undefined
  /** What the journal shows; the operation's name by default. */
  readonly purpose?: string | undefined
  /** Whose limits of the budget hold next to those of all calls. */
  readonly group?: string | undefined
  /** Called before a payment is sent, with its maximum in atomic units; what it throws refuses the payment. */
  readonly beforePayment?: ((maximum: bigint) => void) | undefined
}

const DEFAULT_PATIENCE_MS = 10 * 60_000
/** Vendors transcribe at more than this multiple of real time. */
const LEAST_SPEED = 40

/** Prepares a call whose request is JSON. */
export function prepareJsonCall<Name extends JsonOperation>(
  baseUrl: string,
  operation: Name,
  request: Requests[Name],
  options: CallOptions,
): PaidCall {
  const body = JSON.stringify(request)
  return {
    ...common(baseUrl, operation, hash('sha256', canonicalJson(request)), options),
    model: request.model,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: () => body,
  }
}

/** Returns the identity that the journal records for a call whose request is JSON. */
export function jsonCallIdentity<Name extends JsonOperation>(
  baseUrl: string,
  operation: Name,
  request: Requests[Name],
): string {
  return identityOf(baseUrl, operation, hash('sha256', canonicalJson(request)))
}

/** Prepares a transcription. */
export async function prepareTranscription(
  baseUrl: string,
  { file, audio, ...given }: TranscriptionRequest,
  options: CallOptions,
): Promise<PaidCall> {
  const fields = { model: DEFAULT_TRANSCRIPTION_MODEL, ...given } as const
  const content = await contentOf(file, audio)
  const { sha256: contentSha256 } = content
  const form = createMultipartForm(fields, 'recording.mp3')
  return {
    ...common(baseUrl, 'createTranscription', hash('sha256', canonicalJson({ fields, contentSha256 })), options),
    model: fields.model,
    headers: { accept: 'application/json', 'content-type': form.contentType },
    body: async () => form.encode(await content.open()),
    audioMs: audio?.duration_ms,
    answerWithinMs: audio && ANSWER_WITHIN_MS + audio.duration_ms / LEAST_SPEED,
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
  if (!IDEMPOTENCY_KEY.test(requestId)) throw new RangeError('requestId must be 1 to 255 visible ASCII characters')
  return {
    key: requestId,
    url: urlOf(baseUrl, operation),
    identity: identityOf(baseUrl, operation, digest),
    purpose,
    group: options.group,
    beforePayment: options.beforePayment,
    patienceMs,
    signal,
    onWait,
    quotedMaximum: options.maximum === undefined ? undefined : parseUsdc(options.maximum),
  }
}

function identityOf(baseUrl: string, operation: keyof typeof OPERATION_PATHS, digest: string): string {
  return requestIdentity('POST', urlOf(baseUrl, operation), digest)
}

function urlOf(baseUrl: string, operation: keyof typeof OPERATION_PATHS): string {
  return new URL(OPERATION_PATHS[operation], baseUrl).href
}

/**
 * Creates a form of fields and one file. Node's own `FormData` is not used as a body: when an answer arrives before all
 * is sent, as of a busy service, its fetch fails with an error that nobody can catch and that ends the process.
 */
function createMultipartForm(
  fields: Readonly<Record<string, string | number | boolean | undefined>>,
  fileName: string,
) {
  const boundary = `farebox-${randomBytes(16).toString('hex')}`
  const begin = (disposition: string) => `--${boundary}\r\ncontent-disposition: form-data; ${disposition}\r\n`
  const head = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${begin(`name="${name}"`)}\r\n${String(value)}\r\n`)
    .join('')
  const fileHead = `${begin(`name="file"; filename="${fileName}"`)}content-type: application/octet-stream\r\n\r\n`
  const contentType = `multipart/form-data; boundary=${boundary}`
  return {
    contentType,
    /** Returns a `Blob`: Node streams it from the disk, with a known length. */
    encode: (file: Blob) => new Blob([head + fileHead, file, `\r\n--${boundary}--\r\n`], { type: contentType }),
  }
}
