import type { TextOutput, TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { openAiTextObstacle, readOpenAiOptions } from '#shared/operations/vendors/openai-compatible.ts'
import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, unserviceable } from '../failures.ts'
import { leastInputTokens, leastOutputTokens } from '../least-tokens.ts'
import type { TextOutcome, TextProvider } from '../provider.ts'
import { isStreamed, nothingInTime, type StreamedExchange, streamEnding, streamsAnswer } from '../streamed-answer.ts'
import { callArguments, callIdOf, deliveredText, endsAtStopSequence, inputUsage } from '../text-answer.ts'
import { readJson } from '../wire-fields.ts'
import { type CompletionStream, createCompletionStream } from './completion-stream.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, failureOfEvent } from './errors.ts'
import { type OpenAiTextSettings, textBody } from './text-body.ts'
import { type CompletionWire, completionWire } from './wire.ts'

/** 65,536 tokens of the longest kind, escaped as JSON, stay far below this. */
const MAXIMUM_RESPONSE_BYTES = 16 * 1024 * 1024

export interface OpenAiCompatibleTextDependencies extends OpenConnection, OpenAiTextSettings {
  /** Whether long answers are streamed, which they are by default; a server may support only whole ones. */
  readonly streams?: boolean | undefined
}

/**
 * Creates the text provider for an OpenAI-style server: one `POST {baseUrl}/chat/completions` per call.
 *
 * This API has no counterpart to `is_error` of a tool result; only its text is sent. A tool call whose arguments were
 * cut off by the output limit is dropped; any other call whose arguments are not a JSON object makes the outcome
 * unknown. Throws like `createPost`. Sources: see `wire.ts`.
 */
export function createOpenAiCompatibleText(dependencies: OpenAiCompatibleTextDependencies): TextProvider {
  const { streams = true } = dependencies
  const carried = readOpenAiOptions(dependencies.carried ?? {})
  const post = createPost(dependencies, '/chat/completions')
  return {
    async generateText(request, options) {
      const obstacle = openAiTextObstacle(request, carried)
      if (obstacle !== undefined) return unserviceable(`not sent: ${obstacle.what}`)
      if (request.messages.some(({ parts }) => parts.some(isRemoteImage)))
        return unserviceable('not sent: an image that was not fetched')
      const stream = createCompletionStream()
      const exchange = await post(
        {
          ...textBody(request, dependencies),
          ...(streams && streamsAnswer(request, options.timeoutMs) ? STREAMING : {}),
        },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES, onEvent: stream.take },
      )
      if (isStreamed(exchange)) return readStream(stream, exchange, request)
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      const answer = completionWire.safeParse(readJson(exchange.bytes))
      if (!answer.success) return unknownOutcome('HTTP 200 with a malformed completion')
      return { ...readCompletion(answer.data, request), ...callId(exchange.headers, answer.data.id) }
    },
  }
}

function isRemoteImage(part: TextPart): boolean {
  return part.type === 'image' && part.source.kind !== 'inline'
}

/** Without `include_usage` a server reports no token counts. */
const STREAMING = { stream: true, stream_options: { include_usage: true } }

/**
 * Reads a streamed completion. Servers report the token counts after the output, so those of an answer that the time
 * limit cut are the tokens that request and delivered text have at least; so are those of a server that reports none.
 */
function readStream(stream: CompletionStream, exchange: StreamedExchange, request: TextRequest): TextOutcome {
  const id = callId(exchange.outcome === 'response' ? exchange.headers : new Headers(), stream.id)
  if (stream.error !== undefined) return { ...failureOfEvent(stream.error), ...id }
  const ending = streamEnding(exchange)
  if (typeof ending === 'object') return { ...ending, ...id }
  const completion = completionWire.safeParse(wholeCompletion(stream, ending === 'cut', request))
  if (!completion.success) return { ...unknownOutcome('HTTP 200 with a malformed completion'), ...id }
  const outcome = readCompletion(completion.data, request)
  if (outcome.outcome === 'failed') return { ...outcome, ...id }
  const { output } = outcome
  const text = `${output.text ?? ''}${output.refusal ?? ''}`
  const isEmpty = text.trim() === '' && output.tool_calls.length === 0
  if (ending === 'cut' && isEmpty) return { ...nothingInTime(exchange), ...id }
  if (ending === 'complete' && stream.usage !== undefined) return { ...outcome, ...id }
  // Counts that include a call that is not delivered are not charged.
  const isAllDelivered = output.tool_calls.length === stream.calls.length
  const pieces = stream.textPieces + (isAllDelivered ? stream.callPieces : 0)
  const least = leastOutputTokens({ text, calls: output.tool_calls, pieces })
  const reported = isAllDelivered ? output.usage.output_tokens : 0
  const usage = { ...output.usage, output_tokens: Math.max(reported, least) }
  return { outcome: 'generated', output: { ...output, usage }, ...id }
}

/** Returns what has arrived in the form of a whole completion. */
function wholeCompletion(stream: CompletionStream, isCut: boolean, request: TextRequest): unknown {
  const toolCalls = stream.calls.map(({ id, name, arguments: json }, index) => ({
    id: id === '' ? String(index) : id,
    function: { name, arguments: json },
  }))
  const message = { content: stream.text, refusal: stream.refusal, tool_calls: toolCalls }
  return {
    id: stream.id,
    choices: [{ finish_reason: isCut ? 'length' : stream.finishReason, message }],
    // Input is cached only where a server says so: otherwise whoever outlasts the time limit would have it for a tenth.
    usage: stream.usage ?? { prompt_tokens: leastInputTokens(request), completion_tokens: 0 },
  }
}

const FINISH_REASONS = {
  stop: 'stop',
  eos: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
} as const satisfies Record<CompletionWire['choices'][number]['finish_reason'], TextOutput['finish_reason']>

/**
 * Maps a completion to its outcome. One without output is complete when the output limit ended it, which thinking alone
 * can use up, or when the request has stop sequences: `stop` stands for those as well as for the model's own end.
 */
function readCompletion({ id, choices, usage }: CompletionWire, request: TextRequest): TextOutcome {
  const [choice] = choices
  const thinking = usage.completion_tokens_details?.reasoning_tokens
  const counted = {
    ...inputUsage(usage.prompt_tokens, {
      cached: usage.prompt_tokens_details?.cached_tokens,
      written: usage.prompt_tokens_details?.cache_write_tokens,
    }),
    output_tokens: usage.completion_tokens,
    ...(typeof thinking === 'number' ? { thinking_tokens: Math.min(thinking, usage.completion_tokens) } : {}),
  }
  if (choice === undefined) return emptyOutput('HTTP 200 without a choice', counted)
  const finishReason = FINISH_REASONS[choice.finish_reason]
  const calls = (choice.message.tool_calls ?? []).map((call, index, all) => ({
    id: callIdOf(id, index, call.id),
    name: call.function.name,
    arguments_json: callArguments(call.function.arguments, finishReason === 'length' && index === all.length - 1),
  }))
  const whole = calls.flatMap(({ arguments_json: json, ...call }) =>
    json === undefined ? [] : [{ ...call, arguments_json: json }],
  )
  if (whole.length < calls.length && finishReason !== 'length') {
    return unknownOutcome('HTTP 200 with tool arguments that are not a JSON object')
  }
  const text = choice.message.content ?? ''
  const refusal = deliveredText(choice.message.refusal ?? '', false)
  const isBlank = text.trim() === '' && refusal === null && whole.length === 0
  const isComplete =
    finishReason === 'length' || (finishReason === 'stop' && (text !== '' || endsAtStopSequence(request)))
  if (isBlank && !isComplete) {
    return emptyOutput(`HTTP 200 without output, finish reason ${choice.finish_reason}`, counted)
  }
  return {
    outcome: 'generated',
    output: {
      text: deliveredText(text, isBlank),
      refusal,
      tool_calls: whole,
      // OpenAI ends a call that was forced by name with `stop`.
      finish_reason: finishReason === 'stop' && whole.length > 0 ? 'tool_calls' : finishReason,
      usage: counted,
    },
  }
}
