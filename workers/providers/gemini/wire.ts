import { z } from 'zod'
import {
  firstOf,
  list,
  noteMended,
  optional,
  optionalArguments,
  optionalCount,
  optionalText,
  optionalWord,
} from '../lenient.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The id of a response; anything else counts as absent, so that free text never reaches a log. */
const responseId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/)
  .nullish()
  .transform((id) => id ?? undefined)
  .catch(undefined)

/**
 * Reasons for which the vendor ended an answer otherwise than by its own end or limit.
 * Source: `@google/genai` 3.1, FinishReason (2026-11-28).
 */
export const CUT_SHORT: ReadonlySet<string> = new Set([
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'OTHER',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MISSING_THOUGHT_SIGNATURE',
  'MALFORMED_RESPONSE',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  'IMAGE_OTHER',
  'NO_IMAGE',
])

/**
 * Reasons of limits: of the request, and of what the model writes in one (`CONTINUATION`, 65,536 tokens of Gemini 4, which goes
 * on in another request; `@google/genai` 3.1, FinishReason).
 */
export const LIMITED: ReadonlySet<string> = new Set(['MAX_TOKENS', 'CONTINUATION'])

const FINISH_WORDS: ReadonlySet<string> = new Set(['STOP', ...LIMITED, ...CUT_SHORT])

/** The members of an answer that stay as the vendor wrote them. */
export const WRITTEN: ReadonlySet<string> = new Set(['args'])

/** Whether a part is thinking. It stays hidden where the mark is there and not as documented. */
const thought = z.union([
  z.boolean().nullish(),
  z.unknown().transform((mark) => {
    noteMended('parts.thought')
    return mark !== 0 && mark !== '' && mark !== 'false'
  }),
])

/** One part has one kind of content. `thought` marks thinking: summaries and draft images. */
const part = z.object({
  text: optionalText('parts.text'),
  thought,
  thoughtSignature: optional('parts.thoughtSignature', storableText),
  functionCall: optional(
    'parts.functionCall',
    z.object({
      name: storableText.pipe(z.string().min(1)),
      args: optionalArguments('parts.functionCall.args'),
    }),
  ),
  inlineData: optional('parts.inlineData', z.object({ data: z.string() })),
})

export type PartWire = z.infer<typeof part>

/**
 * The 200 answer of `generateContent`, without the fields that are not used (`safetyRatings`, `modelVersion`, token
 * counts by modality, …). A blocked prompt has `promptFeedback.blockReason` and no candidates. A count that is zero is
 * left out.
 *
 * Source: ai.google.dev/api/generate-content: GenerateContentResponse, Candidate, UsageMetadata;
 * ai.google.dev/api/caching: Content, Part.
 */
export const answerWire = z.object({
  candidates: firstOf(
    'candidates',
    z.object({
      content: optional('content', z.object({ parts: list('parts', part) })),
      finishReason: optionalWord('finishReason', FINISH_WORDS),
    }),
  ),
  promptFeedback: optional('promptFeedback', z.object({ blockReason: errorToken })),
  usageMetadata: optional(
    'usageMetadata',
    z.object({
      promptTokenCount: optionalCount('promptTokenCount'),
      cachedContentTokenCount: optionalCount('cachedContentTokenCount'),
      toolUsePromptTokenCount: optionalCount('toolUsePromptTokenCount'),
      candidatesTokenCount: optionalCount('candidatesTokenCount'),
      thoughtsTokenCount: optionalCount('thoughtsTokenCount'),
      totalTokenCount: optionalCount('totalTokenCount'),
    }),
  ),
  responseId,
})

export type AnswerWire = z.infer<typeof answerWire>

/** An error that ends a stream; its `code` is an HTTP status. */
export const streamErrorWire = z.object({ error: z.object({ code: z.int().min(400).max(599) }) })

/**
 * Google's error body. `message` quotes the request, so it is matched against known limits and never kept. Of the
 * details, ErrorInfo carries `reason` (`API_KEY_INVALID`) and RetryInfo `retryDelay` (`34s`).
 *
 * Source: google.aip.dev/193 (google.rpc.Status and its standard details).
 */
export const errorWire = z.object({
  error: z.object({
    status: errorToken,
    message: z.string().optional().catch(undefined),
    details: z
      .array(z.object({ reason: errorToken, retryDelay: z.string().optional().catch(undefined) }))
      .max(100)
      .optional()
      .catch(undefined),
  }),
})
