import {
  failureOfStatus,
  failureWithoutResponse,
  gone,
  misconfigured,
  rejected,
  rejectedByDeployment,
  retryAfter,
  unavailable,
  unknownOutcome,
  unserviceable,
} from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { readJson } from '../wire-fields.ts'
import type { CompletionStream } from './completion-stream.ts'
import { callId } from './connection.ts'
import { type ErrorFields, errorWire } from './wire.ts'

/** Statuses that reject the request, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 415, 422])

/**
 * Problems of the deployment under status 400; OpenAI's images use `billing_hard_limit_reached`. A model of Groq whose terms its
 * organization has not accepted is `model_terms_required` (as quoted by many clients of its speech), one that Kokoro-FastAPI does
 * not have `invalid_model`, and one that Together does not serve any more `model_not_available` (HeyPuter/puter#3168); read on 1
 * December 2026.
 */
const DEPLOYMENT_CODES: ReadonlySet<string> = new Set([
  'billing_hard_limit_reached',
  'insufficient_quota',
  'invalid_api_key',
  'invalid_model',
  'model_not_available',
  'model_not_found',
  'model_terms_required',
])

/** What Groq says under status 400 of a model that it shut down (atiilla/sqlmap-ai#3, read on 1 December 2026). */
const GONE_CODE = 'model_decommissioned'

/** xAI refuses a wrong key with status 400 and this message alone (continuedev/continue#10778, read on 1 December 2026). */
const KEY_MESSAGE = /^incorrect(?: |%20)api(?: |%20)key\b/i

/** Codes for what this server or model does not support although others do. */
const MODEL_LIMIT_CODES: ReadonlySet<string> = new Set([
  'array_above_max_length',
  'context_length_exceeded',
  'integer_above_max_value',
  'invalid_language_format',
  'unknown_parameter',
  'unsupported_parameter',
  'unsupported_value',
])

/**
 * What OpenAI says with the code `invalid_value` of a recording that another model transcribes (murtaza-nasir/speakr#168, from 1,400
 * seconds on; read on 1 December 2026).
 */
const DURATION_MESSAGE = /^audio duration [\d.]+ seconds is longer than /i

/** Fields whose values this adapter chooses by the deployment's options: any fault in them is a limit of the model. */
const CHOSEN_FIELDS: ReadonlySet<string> = new Set(['max_completion_tokens', 'max_tokens', 'reasoning_effort', 'stop'])

/**
 * Fields of images, speech and transcriptions whose values come from the deployment's entry: a fault in one of them is
 * for the operator to correct. Every request meets it, except that of a voice.
 */
export const MEDIA_SETUP_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'quality',
  'response_format',
  'size',
  'timestamp_granularities',
  'voice',
])

/**
 * Messages that begin with the field at fault where the error does not name it: Groq's "response_format must be one of [wav]"
 * (roryeckel/wyoming_openai#43) and Kokoro-FastAPI's "Voice 'af_sky' not found. …", each with its status 400; read on 1 December 2026.
 */
const FIELD_MESSAGES: readonly (readonly [RegExp, string])[] = [
  [/^response_format must be one of /i, 'response_format'],
  [/^voice '[^']{1,200}' not found\b/i, 'voice'],
]

const NO_FIELDS: ReadonlySet<string> = new Set()

/**
 * Codes for content that violates a usage policy; it is not offered to another vendor. From GPT-5.4 on OpenAI has one for each
 * policy (400 `cyber_policy`, "This request has been flagged for potentially high-risk cyber activity.", of chat completions:
 * UKGovernmentBEIS/inspect_ai#3607; the others as its clients list them; read on 30 November 2026). Kimi has `content_filter` as
 * its type, beside a code that repeats the status (MoonshotAI/kimi-cli#1002, read on 1 December 2026);
 * Alibaba's Model Studio has `data_inspection_failed` (camel-ai/owl#432, likewise).
 */
const POLICY_CODES: ReadonlySet<string> = new Set([
  'bio_policy',
  'content_filter',
  'content_policy_violation',
  'cyber_policy',
  'data_inspection_failed',
  'invalid_prompt',
  'misalignment_policy_violation',
  'moderation_blocked',
])

/**
 * Maps every exchange other than a 200 to a failure.
 *
 * OpenAI documents its 4xx as problems of request and account (developers.openai.com, Error codes) and promises nothing
 * about 5xx, so a 5xx, a redirect, 408, 409, 425 and a 2xx other than 200 are ambiguous. One 503 is definite:
 * llama.cpp's `unavailable_error`, sent while the model is loading, before the request is read
 * (tools/server/README.md). A 413 is a limit of this server: OpenAI's is 25 MiB with the form's own bytes.
 */
export function failureOf(exchange: HttpOutcome, setupFields = NO_FIELDS): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const parsed = errorWire.safeParse(readJson(exchange.bytes))
  const error: ErrorFields = parsed.success ? parsed.data : {}
  const { code, type } = error
  const field = fieldOf(error)
  const name = code ?? type ?? error.status
  const reason = name === undefined || name === null ? `HTTP ${status}` : `HTTP ${status} ${name}`
  const known = { ...callId(headers), ...retryAfter(headers) }
  const isLoading = status === 503 && type === 'unavailable_error'
  if (status === 403 && isFlagged(error)) return { ...rejected(reason), ...known }
  const failure = isLoading ? unavailable(reason) : failureOfStatus(status, reason)
  if (failure !== undefined) return { ...failure, ...known }
  if (INPUT_REJECTIONS.has(status) && setupFields.has(field) && !violatesPolicy(error))
    return { ...(field === 'voice' ? misconfigured(reason) : unavailable(reason)), ...known }
  if (INPUT_REJECTIONS.has(status)) return { ...rejectionOf(reason, error), ...known }
  return { ...unknownOutcome(reason), ...known }
}

function rejectionOf(reason: string, error: ErrorFields): ProviderFailure {
  const { code = '', param = '', message } = error
  if (code === GONE_CODE) return gone(reason)
  if (DEPLOYMENT_CODES.has(code) || concernsAccount(error)) return unavailable(reason)
  if (violatesPolicy(error)) return rejected(reason)
  const isModelLimit = MODEL_LIMIT_CODES.has(code) || CHOSEN_FIELDS.has(param)
  return isModelLimit || DURATION_MESSAGE.test(message ?? '') ? unserviceable(reason) : rejectedByDeployment(reason)
}

/** Returns the name of the field at fault, or nothing. */
function fieldOf({ param, message }: ErrorFields): string {
  return param ?? FIELD_MESSAGES.find(([pattern]) => pattern.test(message ?? ''))?.[1] ?? ''
}

function violatesPolicy({ code = '', type = '' }: ErrorFields): boolean {
  return POLICY_CODES.has(code) || POLICY_CODES.has(type)
}

/**
 * Returns whether a 403 is about the input: OpenRouter's moderation adds its reasons, the only `metadata.reasons` of its errors
 * (openrouter.ai/docs/api/reference/errors-and-debugging, Moderation Errors, read on 1 December 2026).
 */
function isFlagged(error: ErrorFields): boolean {
  return violatesPolicy(error) || error.metadata?.reasons !== undefined
}

/** Returns whether a 400 is about the key or the account, as xAI and Google's endpoint of this API send it (see Gemini's errors). */
function concernsAccount({ status, details = [], message }: ErrorFields): boolean {
  const isGoogles = status === 'FAILED_PRECONDITION' || details.some(({ reason }) => reason?.startsWith('API_KEY_'))
  return isGoogles || KEY_MESSAGE.test(message ?? '')
}

/**
 * Maps an error event of a stream to a failure: before any output as the status that some servers repeat in it. An
 * error without one, or after output, may follow billed work.
 */
export function failureOfEvent({
  status,
  data,
  isAfterOutput,
}: NonNullable<CompletionStream['error']>): ProviderFailure {
  if (status === undefined || isAfterOutput) return unknownOutcome('HTTP 200 with an error event')
  const bytes = new TextEncoder().encode(data)
  return failureOf({ outcome: 'response', status, headers: new Headers(), bytes })
}
