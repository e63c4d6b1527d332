import { z } from 'zod'
import { errorToken, storableText } from '../wire-fields.ts'

const tokenCount = z.int().min(0)
/** A malformed count is no reason to withhold a result that the vendor bills: its input is charged as any other. */
const optionalCount = tokenCount.nullish().catch(undefined)

const completionUsage = z.object({
  prompt_tokens: tokenCount,
  completion_tokens: tokenCount,
  /** Parts of `prompt_tokens`; OpenAI bills writes from GPT-5.6 on (developers.openai.com/api/docs/guides/prompt-caching). */
  prompt_tokens_details: z
    .object({ cached_tokens: optionalCount, cache_write_tokens: optionalCount })
    .nullish()
    .catch(undefined),
  completion_tokens_details: z.object({ reasoning_tokens: tokenCount.nullish() }).nullish(),
})

const finishReason = z.enum(['stop', 'length', 'tool_calls', 'content_filter', 'function_call', 'eos'])

/**
 * The 200 answer of `POST /chat/completions`, without unused fields. `reasoning_content` (vLLM, llama.cpp) is hidden
 * thinking and is ignored; `completion_tokens` includes it.
 *
 * `eos` and `function_call` are older spellings of `stop` and `tool_calls` that some servers still send.
 *
 * Source: developers.openai.com/api/reference, ChatCompletion (as typed by the npm package `openai` 7,
 * resources/chat/completions/completions.d.ts and resources/completions.d.ts); docs.vllm.ai, OpenAI-Compatible Server;
 * github.com/ggml-org/llama.cpp, tools/server/README.md.
 */
export const completionWire = z.object({
  id: z.string().nullish(),
  choices: z
    .array(
      z.object({
        finish_reason: finishReason,
        message: z.object({
          content: storableText.nullish(),
          refusal: storableText.nullish(),
          tool_calls: z
            .array(
              z.object({
                id: storableText.pipe(z.string().min(1)),
                function: z.object({ name: storableText.pipe(z.string().min(1)), arguments: storableText }),
              }),
            )
            .nullish(),
        }),
      }),
    )
    .min(1),
  usage: completionUsage,
})

export type CompletionWire = z.infer<typeof completionWire>

/** Some servers send an empty reason until the last chunk. */
const streamedFinishReason = z
  .union([finishReason, z.literal('').transform(() => undefined)])
  .nullish()
  .transform((reason) => reason ?? undefined)

/**
 * An event of a streamed completion, without unused fields. The chunk with the counts has no choices.
 * Source: as above, ChatCompletionChunk.
 */
export const chunkWire = z.object({
  id: z.string().nullish(),
  choices: z
    .array(
      z.object({
        index: z.int().nullish(),
        finish_reason: streamedFinishReason,
        delta: z
          .object({
            content: z.string().nullish(),
            refusal: z.string().nullish(),
            tool_calls: z
              .array(
                z.object({
                  index: z.int().nullish(),
                  id: z.string().nullish(),
                  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
                }),
              )
              .nullish(),
          })
          .nullish(),
      }),
    )
    .nullish(),
  usage: completionUsage.nullish(),
})

export type ChunkWire = z.infer<typeof chunkWire>

/** An error that ends a stream; vLLM repeats the status as its code. */
export const chunkErrorWire = z.object({
  error: z.object({ code: z.int().min(400).max(599).optional().catch(undefined) }),
})

/**
 * The 200 answer of `POST /images/generations`.
 * Source: `openai` 7, resources/images.d.ts, ImagesResponse.
 */
export const imagesWire = z.object({
  data: z
    .array(
      z.object({
        b64_json: z.string().nullish(),
        url: z.string().nullish(),
        revised_prompt: storableText.nullish(),
      }),
    )
    .nullish(),
})

/**
 * The 200 answer of `POST /audio/transcriptions` in `verbose_json`. `words` is validated separately and only when words
 * were requested. Source: `openai` 7, resources/audio/transcriptions.d.ts, TranscriptionVerbose.
 */
export const transcriptionWire = z.object({
  text: storableText.nullish(),
  language: storableText.nullish(),
  words: z.unknown().optional(),
})

const seconds = z.number().nonnegative()

export const wordsWire = z.array(z.object({ word: storableText, start: seconds, end: seconds }))

/** OpenAI's `code` is a string; other servers often repeat the status as a number, which is ignored. */
const errorFields = z.object({ type: errorToken, code: errorToken, param: errorToken })

/**
 * Error bodies: OpenAI's `{error: {…}}`, which llama.cpp, LocalAI and newer vLLM send too, and the bare object of older
 * vLLM. Only short tokens are read; `message` quotes the caller's values and is ignored.
 */
export const errorWire = z.union([z.object({ error: errorFields }).transform(({ error }) => error), errorFields])
