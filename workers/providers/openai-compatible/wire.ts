import { z } from 'zod'
import type { TextOutput } from '#shared/operations/text/text-request.ts'
import {
  firstOf,
  list,
  noteMended,
  numberAsText,
  optional,
  optionalArguments,
  optionalCount,
  optionalSeconds,
  optionalText,
  optionalWord,
} from '../lenient.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The members of an answer that stay as the server wrote them: some send the arguments of a call as an object. */
export const WRITTEN: ReadonlySet<string> = new Set(['arguments'])

/**
 * Counts of tokens, each of which may be missing. `cached_tokens` and `cache_write_tokens` are parts of `prompt_tokens`;
 * OpenAI bills writes from GPT-5.6 on (developers.openai.com/api/docs/guides/prompt-caching). `reasoning_tokens` are a
 * part of `completion_tokens`, except at servers whose `total_tokens` says otherwise. Cached tokens are `prompt_cache_hit_tokens`
 * at DeepSeek (api-docs.deepseek.com/guides/kv_cache) and `usage.cached_tokens` at Kimi (platform.kimi.ai/docs/api/chat), where
 * a stream has its counts in the last choice as well; read on 30 November 2026.
 */
const completionUsage = z.object({
  prompt_tokens: optionalCount('prompt_tokens'),
  completion_tokens: optionalCount('completion_tokens'),
  total_tokens: optionalCount('total_tokens'),
  prompt_cache_hit_tokens: optionalCount('prompt_cache_hit_tokens'),
  cached_tokens: optionalCount('cached_tokens'),
  prompt_tokens_details: optional(
    'prompt_tokens_details',
    z.object({
      cached_tokens: optionalCount('cached_tokens'),
      cache_write_tokens: optionalCount('cache_write_tokens'),
    }),
  ),
  completion_tokens_details: optional(
    'completion_tokens_details',
    z.object({ reasoning_tokens: optionalCount('reasoning_tokens') }),
  ),
})

/** A part of a content that is a list: Mistral's servers send text and thinking in parts (docs.mistral.ai/api, ContentChunk). */
const contentPart = z.object({
  type: optionalWord('content.type'),
  text: optionalText('content.text'),
  refusal: optionalText('content.refusal'),
})

/** Text, or a list of parts of which the text is joined; thinking is hidden. */
function contentText(name: string, text: z.ZodType<string>) {
  const joined = list(name, contentPart).transform((parts) => {
    noteMended(name)
    return parts.map((part) => (part.type === 'thinking' ? '' : (part.text ?? part.refusal ?? ''))).join('')
  })
  return optional(name, z.union([text, numberAsText(name), joined]))
}

const callFunction = z.object({
  name: storableText.pipe(z.string().min(1)),
  arguments: optionalArguments('arguments', storableText),
})

/** The id is ours in every answer, so whatever the server sends as its own is of no use. */
const toolCall = z.object({ function: callFunction })

const message = z.object({
  content: contentText('content', storableText),
  refusal: optionalText('refusal'),
  tool_calls: list('tool_calls', toolCall),
  /** The older form of a single call. */
  function_call: optional('function_call', callFunction),
})

/**
 * Reasons that a server sends; `eos` and `function_call` are older spellings of `stop` and `tool_calls`. `model_length` is
 * Mistral's for the end of the context (its API's FinishReason, as in docs.rs/mistral-openapi-client; LangChain maps it to
 * `length`, langchain-ai/langchainjs#12252; read on 30 November 2026).
 */
export const FINISH_REASONS = {
  stop: 'stop',
  eos: 'stop',
  length: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
} as const satisfies Record<string, TextOutput['finish_reason']>

const FINISH_WORDS: ReadonlySet<string> = new Set(Object.keys(FINISH_REASONS))

/** What vLLM (a text, or the id of a token) and SGLang say of the sequence that ended the answer. */
const stopFields = {
  stop_reason: z.string().nullish().catch(undefined),
  matched_stop: z.string().nullish().catch(undefined),
} as const

/**
 * The 200 answer of `POST /chat/completions`, without unused fields. `reasoning_content` (vLLM, llama.cpp) is hidden
 * thinking and is ignored; `completion_tokens` includes it.
 *
 * Source: developers.openai.com/api/reference, ChatCompletion (as typed by the npm package `openai` 7,
 * resources/chat/completions/completions.d.ts and resources/completions.d.ts); docs.vllm.ai, OpenAI-Compatible Server
 * (`stop_reason`); github.com/sgl-project/sglang, entrypoints/openai/protocol.py (`matched_stop`);
 * github.com/ggml-org/llama.cpp, tools/server/README.md. Read on 2026-11-28.
 */
export const completionWire = z.object({
  id: optionalText('id'),
  choices: firstOf(
    'choices',
    z.object({
      finish_reason: optionalWord('finish_reason', FINISH_WORDS),
      ...stopFields,
      message: optional('message', message),
    }),
  ),
  usage: optional('usage', completionUsage),
})

export type CompletionWire = z.infer<typeof completionWire>

const callDelta = z.object({
  index: z.int().nullish().catch(undefined),
  id: optionalText('delta.tool_calls.id'),
  function: optional(
    'delta.tool_calls.function',
    z.object({
      name: optionalText('delta.tool_calls.name'),
      arguments: optionalArguments('delta.tool_calls.arguments', z.string()),
    }),
  ),
})

const outputDelta = z.object({
  content: contentText('delta.content', z.string()),
  refusal: optionalText('delta.refusal', z.string()),
  tool_calls: list('delta.tool_calls', callDelta),
})

/**
 * An event of a streamed completion, without unused fields. The chunk with the counts has no choices.
 * Source: as above, ChatCompletionChunk.
 */
export const chunkWire = z.object({
  id: optionalText('id'),
  choices: list(
    'choices',
    z.object({
      index: z.int().nullish().catch(undefined),
      finish_reason: optionalWord('finish_reason', FINISH_WORDS),
      ...stopFields,
      delta: optional('delta', outputDelta),
      message: optional('message', outputDelta),
      usage: optional('choices.usage', completionUsage),
    }),
  ),
  usage: optional('usage', completionUsage),
})

export type ChunkWire = z.infer<typeof chunkWire>

/** An error that ends a stream; vLLM repeats the status as its code. */
export const chunkErrorWire = z.object({
  error: z.object({ code: z.int().min(400).max(599).optional().catch(undefined) }),
})

/**
 * The 200 answer of `POST /images/generations`.
 * Source: `openai` 7, resources/images.d.ts, ImagesResponse. QVAC's server has data URLs as `url` (tetherto/qvac#2008), and
 * clients of gateways meet them as `b64_json`, too. xAI answers with `respect_moderation: false` in the place of an image that it
 * withholds (vercel/ai#19185). Read on 1 December 2026.
 */
export const imagesWire = z.object({
  data: list(
    'data',
    z.object({
      b64_json: optional('b64_json', z.string()),
      url: optional('url', z.string()),
      revised_prompt: optionalText('revised_prompt'),
      respect_moderation: optional('respect_moderation', z.boolean()),
    }),
  ),
})

/** A word, which LocalAI calls `text`, or a token of whisper.cpp; times that are missing are filled from its neighbors. */
const timedWord = z
  .object({
    word: optional('words.word', storableText),
    text: optional('words.text', storableText),
    start: optionalSeconds('words.start'),
    end: optionalSeconds('words.end'),
  })
  .refine(({ word, text }) => (word ?? text) !== undefined)

/**
 * The 200 answer of `POST /audio/transcriptions`, in `json` (`text` alone) and `verbose_json`; times are seconds.
 *
 * Source: `openai` 7, resources/audio/transcriptions.d.ts, TranscriptionVerbose: words at the top. Read in their repositories on
 * 28 November 2026:
 * - whisper.cpp 1.9.3 (233fe1fc), examples/server/server.cpp: `segments[].words`, which are tokens;
 * - Speaches 0.9.0-rc.3 (870e1e16), executors/whisper.py: words at the top, or null; faster-whisper's keep their spaces;
 * - vLLM (0cca7f62), entrypoints/openai/speech_to_text: segments; `verbose_json` only for models that write times;
 * - LocalAI 4.9.0 (82c191af), core/schema/transcription.go: words at the top or in segments, with `text` for `word`;
 * - Ollama 0.33.0-rc2 (fb307609), middleware/openai.go, and llama.cpp, tools/server/server-chat.cpp: `text` alone.
 */
export const transcriptionWire = z.object({
  text: optionalText('text'),
  language: optionalText('language'),
  words: list('words', timedWord),
  segments: list('segments', z.object({ text: optionalText('segments.text'), words: list('words', timedWord) })),
})

/** Compared from its start with what is known of the key and the model; it can quote the caller's values and is never kept. */
const errorMessage = z.string().nullish().catch(undefined)

/**
 * OpenAI's `code` is a string; other servers often repeat the status as a number, which is ignored. Google has a `status` and
 * `details` (google.aip.dev/193).
 */
const errorFields = z.object({
  type: errorToken,
  code: errorToken,
  param: errorToken,
  message: errorMessage,
  status: errorToken,
  details: list('details', z.object({ reason: errorToken })),
  metadata: optional('metadata', z.object({ reasons: z.array(z.unknown()).min(1) })),
})

export type ErrorFields = Partial<z.infer<typeof errorFields>>

const errorBody = z.union([
  z.object({ error: errorFields }).transform(({ error }): ErrorFields => error),
  z
    .object({ type: errorToken, code: errorToken, error: z.string() })
    .transform(({ error: message, ...fields }): ErrorFields => ({ ...fields, message })),
  z
    .object({ detail: z.object({ error: errorToken, type: errorToken, message: errorMessage }) })
    .transform(({ detail: { error: code, ...fields } }): ErrorFields => ({ code, ...fields })),
  z
    .object({ detail: z.tuple([z.object({ type: errorToken, loc: z.array(z.unknown()) })], z.unknown()) })
    .transform(({ detail: [{ type, loc }] }): ErrorFields => ({ type, param: errorToken.parse(loc.at(-1)) })),
  errorFields.transform((fields): ErrorFields => fields),
])

/**
 * Error bodies: OpenAI's `{error: {…}}`, which llama.cpp, LocalAI and newer vLLM send too, and the bare object of older vLLM.
 * Read on 1 December 2026: Google's endpoint of this API sends a list of one (n4ze3m/page-assist#406), xAI the message as
 * `error` (i-am-bee/beeai-framework#447), and Kokoro-FastAPI (032990dc, api/src/routers/openai_compatible.py) `{detail: {error:
 * code, …}}`; that, Speaches and others built on FastAPI list the fields that they refuse, each with where it is (`detail[].loc`).
 */
export const errorWire = z.union([errorBody, z.tuple([errorBody], z.unknown()).transform(([first]) => first)])
