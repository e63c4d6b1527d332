import type { TextOutput, TextRequest, TextUsage } from '#shared/operations/text/text-request.ts'
import { anthropicTextObstacle } from '#shared/operations/vendors/anthropic.ts'
import { callUrl, type KeyedConnection } from '../adapter.ts'
import { emptyOutput, rejected, unknownOutcome, unserviceable } from '../failures.ts'
import { leastInputTokens, leastOutputTokens } from '../least-tokens.ts'
import type { TextOutcome, TextProvider } from '../provider.ts'
import {
  isStreamed,
  nothingInTime,
  type StreamedExchange,
  streamEnding,
  streamsAnswer,
  withReported,
} from '../streamed-answer.ts'
import { callIdOf, deliveredText, inputUsage, WITHHELD_REFUSAL } from '../text-answer.ts'
import { readJson } from '../wire-fields.ts'
import { failureOf, failureOfEvent, requestIdOf } from './errors.ts'
import { createMessageStream, type MessageStream } from './message-stream.ts'
import { type AnthropicTextSettings, textBody } from './text-body.ts'
import { type MessageWire, messageWire } from './wire.ts'

/** 65,536 tokens are well below 1 MiB; thinking signatures and escapes add to it. */
const MAXIMUM_RESPONSE_BYTES = 16 * 1024 * 1024

/** Stop reasons for which the output limit ended the answer, perhaps in the middle of a call. */
const CUT: ReadonlySet<string> = new Set(['max_tokens', 'model_context_window_exceeded'])

/** Stop reasons for which the request's own limits ended the answer. */
const ENDED_BY_REQUEST: ReadonlySet<string> = new Set(['stop_sequence', ...CUT])

/**
 * Creates the text provider for the Anthropic API: one `POST {baseUrl}/v1/messages` per call. Long answers are streamed.
 *
 * Throws immediately when the base URL or the key is unusable, since no call could ever succeed.
 * Source: platform.claude.com/docs/en/api/messages, …/api/versioning
 */
export function createAnthropicText(dependencies: KeyedConnection & AnthropicTextSettings): TextProvider {
  const { apiKey, http } = dependencies
  const url = callUrl('Anthropic', dependencies, '/v1/messages')
  const headers = { 'content-type': 'application/json', 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }

  return {
    async generateText(request, options) {
      const obstacle = anthropicTextObstacle(request, dependencies.upstreamModel)
      if (obstacle !== undefined) return unserviceable(`not sent: ${obstacle.what}`)
      const parts = request.messages.flatMap((message) => message.parts)
      if (parts.some((part) => part.type === 'image' && part.source.kind !== 'inline')) {
        return rejected('not sent: an image is not inline')
      }
      const stream = createMessageStream()
      const streaming = streamsAnswer(request, options.timeoutMs) ? { stream: true } : {}
      const body = JSON.stringify({ ...textBody(request, dependencies), ...streaming })
      const exchange = await http(
        { method: 'POST', url, headers, body },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES, onEvent: stream.take },
      )
      if (isStreamed(exchange)) return readStream(stream, exchange, request)
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      return readAnswer(exchange.bytes, requestIdOf(exchange.headers))
    },
  }
}

function readAnswer(bytes: Uint8Array, requestId: string | undefined): TextOutcome {
  const body = readJson(bytes)
  if (body === undefined) return unknownOutcome('HTTP 200 with a body that is not JSON')
  const message = messageWire.safeParse(body)
  if (!message.success) return unknownOutcome('HTTP 200 with a malformed message')
  return withId(readOutput(withoutCutCall(message.data)), requestId ?? message.data.id)
}

function withId(outcome: TextOutcome, id: string | null | undefined): TextOutcome {
  return typeof id === 'string' ? { ...outcome, vendorRequestId: id } : outcome
}

/** Drops a call at the end of an answer that the output limit ended: a whole answer does not say whether it is whole. */
function withoutCutCall(message: MessageWire): MessageWire {
  const isCut = CUT.has(message.stop_reason ?? '') && message.content.at(-1)?.type === 'tool_use'
  return isCut ? { ...message, content: message.content.slice(0, -1) } : message
}

/**
 * Reads a streamed message. The vendor reports the input with the first event and the whole output with the stop
 * reason; where the time limit cuts the answer before that, the delivered text is counted as the tokens that it has at
 * least.
 */
function readStream(stream: MessageStream, exchange: StreamedExchange, request: TextRequest): TextOutcome {
  const requestId = exchange.outcome === 'response' ? requestIdOf(exchange.headers) : undefined
  const id = requestId ?? stream.id
  if (stream.error !== undefined) return withId(failureOfEvent(stream.error), id)
  const ending = streamEnding(exchange)
  const { input_tokens: input, output_tokens: output, ...others } = stream.usage
  const reported =
    typeof input === 'number' ? readUsage({ ...others, input_tokens: input, output_tokens: output ?? 0 }) : undefined
  if (typeof ending === 'object') return withId(withReported(ending, reported), id)
  const stopReason = ending === 'cut' ? 'max_tokens' : stream.stopReason
  const content = stream.content(CUT.has(stopReason ?? ''))
  const message = messageWire.safeParse({ id: stream.id, content: content?.blocks, stop_reason: stopReason })
  if (!message.success) return withId(unknownOutcome('HTTP 200 with a malformed message'), id)
  const texts = message.data.content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  const calls = toolCalls(message.data)
  if (ending === 'cut' && calls.length === 0 && texts.join('').trim() === '')
    return withId(withReported(nothingInTime(exchange), reported), id)
  const least = leastOutputTokens({ text: texts.join(''), calls, pieces: content?.pieces ?? 0 })
  const usage = {
    ...others,
    input_tokens: input ?? leastInputTokens(request),
    output_tokens: ending === 'cut' ? Math.max(output ?? 0, least) : (output ?? least),
  }
  return withId(readOutput({ ...message.data, usage }), id)
}

/**
 * Maps a message to its outcome. A refusal without any output is not billed, so it is a rejection; one that interrupts
 * an answer is billed, and the text so far is returned with `content_filter`. An answer that a stop sequence or the
 * output limit ended is complete without any text, and blank text is text.
 *
 * Source: platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals, release notes
 * of 2 June 2026, and …/build-with-claude/handling-stop-reasons.
 */
function readOutput(message: MessageWire): TextOutcome {
  const reason = message.stop_reason ?? 'no stop reason'
  const text = message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
  const calls = toolCalls(message)
  const isBlank = text.trim() === '' && calls.length === 0
  const isWithheld = isBlank && reason === 'refusal'
  if (isWithheld && (message.usage?.output_tokens ?? 0) === 0) return rejected('HTTP 200 with refusal')
  const isComplete = ENDED_BY_REQUEST.has(reason) || (reason === 'end_turn' && text !== '')
  if (isBlank && !isComplete && !isWithheld)
    return emptyOutput(`HTTP 200 without text or call, ${reason}`, readUsage(message.usage))
  const usage = readUsage(message.usage)
  if (usage === undefined) return unknownOutcome('HTTP 200 without usable token counts')
  const signatures = message.content.flatMap((block) => (block.type === 'thinking' ? (block.signature ?? []) : []))
  const output: TextOutput = {
    text: deliveredText(text, isBlank && isComplete),
    refusal: isWithheld ? WITHHELD_REFUSAL : null,
    tool_calls: calls,
    finish_reason: finishReason(reason, calls.length > 0),
    usage,
    ...(signatures.length === 0 ? {} : { thought_signatures: signatures }),
  }
  return { outcome: 'generated', output }
}

/** Maps the stop reason; an unknown one means that the vendor ended the answer. */
function finishReason(reason: string, calls: boolean): TextOutput['finish_reason'] {
  switch (reason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length'
    case 'end_turn':
    case 'stop_sequence':
    case 'tool_use':
      return calls ? 'tool_calls' : 'stop'
    default:
      return 'content_filter'
  }
}

function toolCalls({ id: messageId, content }: MessageWire): TextOutput['tool_calls'] {
  const calls = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
  return calls.map(({ name, input }, index) => {
    const argumentsJson = JSON.stringify(input)
    return { id: callIdOf(messageId, index, name, argumentsJson), name, arguments_json: argumentsJson }
  })
}

/**
 * Reads the token counts; total input is the sum of three counts (…/build-with-claude/prompt-caching, "Tracking cache
 * performance").
 */
function readUsage(usage: MessageWire['usage']): TextUsage | undefined {
  if (usage === undefined) return undefined
  const thinkingTokens = usage.output_tokens_details?.thinking_tokens
  const [written, cached] = [usage.cache_creation_input_tokens ?? 0, usage.cache_read_input_tokens ?? 0]
  return {
    ...inputUsage(usage.input_tokens + written + cached, { cached, written }),
    output_tokens: usage.output_tokens,
    ...(thinkingTokens === undefined ? {} : { thinking_tokens: Math.min(thinkingTokens, usage.output_tokens) }),
  }
}
