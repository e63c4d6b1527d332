import { z } from 'zod'
import { writtenObjectSchema } from '#shared/operations/text/written-object.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The vendor omits a count that is zero. */
const tokens = z.int().nonnegative().optional()

/** The id of a response; anything else counts as absent, so that free text never reaches a log. */
const responseId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/)
  .optional()
  .catch(undefined)

/** The members of an answer that stay as the vendor wrote them. */
export const WRITTEN: ReadonlySet<string> = new Set(['args'])

/** One part has one kind of content. `thought` marks thinking: summaries and draft images. */
const part = z.object({
  text: storableText.optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  functionCall: z.object({ name: storableText, args: writtenObjectSchema.nullish() }).optional(),
  inlineData: z.object({ data: z.string() }).optional(),
})

export type PartWire = z.infer<typeof part>

/**
 * The 200 answer of `generateContent`, without the fields that are not used (`safetyRatings`, `modelVersion`, token
 * counts by modality, …). A blocked prompt has `promptFeedback.blockReason` and no candidates.
 *
 * Source: ai.google.dev/api/generate-content: GenerateContentResponse, Candidate, UsageMetadata;
 * ai.google.dev/api/caching: Content, Part.
 */
export const answerWire = z.object({
  candidates: z
    .array(z.object({ content: z.object({ parts: z.array(part).optional() }).optional(), finishReason: errorToken }))
    .optional(),
  promptFeedback: z.object({ blockReason: errorToken }).optional(),
  usageMetadata: z
    .object({
      promptTokenCount: tokens,
      // A malformed count is no reason to withhold a result that the vendor bills.
      cachedContentTokenCount: tokens.catch(undefined),
      toolUsePromptTokenCount: tokens,
      candidatesTokenCount: tokens,
      thoughtsTokenCount: tokens,
    })
    .optional(),
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
