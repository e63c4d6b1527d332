import { jsonText } from '#shared/digests/canonical-json.ts'
import type { TextOutput, TextRequest, TextUsage } from '#shared/operations/text/text-request.ts'
import { anthropicTextObstacle } from '#shared/operations/vendors/anthropic.ts'
import { callUrl, type KeyedConnection } from '../adapter.ts'
import { emptyOutput, rejected, unknownOutcome, unserviceable } from '../failures.ts'
import { leastInputTokens, leastOutputTokens } from '../least-tokens.ts'
import { nearestReason, readLeniently, withMended } from '../lenient.ts'
import type { TextOutcome, TextProvider } from '../provider.ts'
import {
  isStreamed,
  nothingInTime,
  type StreamedExchange,
  streamEnding,
  streamsAnswer,
  withReported,
} from '../streamed-answer.ts'
import { answerUsage, deliveredText, endingSequence, newCallId, WITHHELD_REFUSAL } from '../text-answer.ts'
import { readJson } from '../wire-fields.ts'
import { failureOf, failureOfEvent, requestIdOf } from './errors.ts'
import { createMessageStream, type MessageStream } from './message-stream.ts'
import { type AnthropicTextSettings, textBody } from './text-body.ts'
import { type MessageWire, messageWire, STOP_REASONS, WRITTEN } from './wire.ts'

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
      const body = jsonText({ ...textBody(request, dependencies), ...streaming })
      const exchange = await http(
        { method: 'POST', url, headers, body },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES, onEvent: stream.take },
      )
      if (isStreamed(exchange)) return readStream(stream, exchange, request)
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      return readAnswer(exchange.bytes, request, requestIdOf(exchange.headers))
    },
  }
}

function readAnswer(bytes: Uint8Array, request: TextRequest, requestId: string | undefined): TextOutcome {
  const body = readJson(bytes, WRITTEN)
  if (body === undefined) return unknownOutcome('HTTP 200 with a body that is not JSON')
  const { value: message, mended } = readLeniently(messageWire, body)
  if (message === undefined) return unknownOutcome('HTTP 200 with a malformed message')
  return withId(withMended(readOutput(withoutCutCall(message), request), mended), requestId ?? message.id)
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
  const { usage } = stream
  const reported = usage?.input_tokens === undefined ? undefined : usageOf(usage, { input: 0, output: 0 })
  if (stream.error !== undefined) return withId(withReported(failureOfEvent(stream.error), reported), id)
  const ending = streamEnding(exchange)
  if (typeof ending === 'object') return withId(withReported(ending, reported), id)
  const isCut = ending === 'cut'
  const stopReason = isCut ? 'max_tokens' : stream.stopReason
  const { blocks: content, pieces } = stream.content(finishReason(stopReason, false) === 'length')
  const message = { id: stream.id, content, stop_reason: stopReason, stop_sequence: stream.stopSequence, usage }
  const isEmpty = !content.some((block) => block.type === 'tool_use') && textOf(message).trim() === ''
  if (isCut && isEmpty) return withId(withReported(nothingInTime(exchange), reported), id)
  return withId(
    withMended(readOutput(message, request, { pieces, isCounted: stream.isCounted && !isCut }), stream.mended),
    id,
  )
}

function textOf({ content }: Pick<MessageWire, 'content'>): string {
  return content.flatMap((block) => (block.type === 'text' ? [block.text ?? ''] : [])).join('')
}

/**
 * Maps a message to its outcome. A refusal without any output is not billed, so it is a rejection; one that interrupts
 * an answer is billed, and the text so far is returned with `content_filter`. An answer that a stop sequence or the
 * output limit ended is complete without any text, and blank text is text.
 *
 * Source: platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals, release notes
 * of 2 June 2026, and …/build-with-claude/handling-stop-reasons.
 */
function readOutput(
  message: MessageWire,
  request: TextRequest,
  { pieces, isCounted }: { readonly pieces: number; readonly isCounted: boolean } = { pieces: 0, isCounted: true },
): TextOutcome {
  const { stop_reason: word } = message
  const text = textOf(message)
  const calls = toolCalls(message)
  const isBlank = text.trim() === '' && calls.length === 0
  const isWithheld = isBlank && word === 'refusal'
  if (isWithheld && (message.usage?.output_tokens ?? 0) === 0) return rejected('HTTP 200 with refusal')
  const isComplete = (word !== undefined && ENDED_BY_REQUEST.has(word)) || (word === 'end_turn' && text !== '')
  const least = { input: leastInputTokens(request), output: leastOutputTokens({ text, calls, pieces }) }
  const usage = usageOf(message.usage, least, isCounted)
  if (isBlank && !isComplete && !isWithheld) {
    const reason = word !== undefined && STOP_REASONS.has(word) ? word : 'no known stop reason'
    if (message.usage === undefined && message.content.length === 0)
      return unknownOutcome(`HTTP 200 with neither content nor usage, ${reason}`)
    return emptyOutput(`HTTP 200 without text or call, ${reason}`, message.usage && usage)
  }
  const signatures = message.content.flatMap((block) => (block.type === 'thinking' ? (block.signature ?? []) : []))
  const output: TextOutput = {
    text: deliveredText(text, isBlank && isComplete),
    refusal: isWithheld ? WITHHELD_REFUSAL : null,
    tool_calls: calls,
    finish_reason: finishReason(word, calls.length > 0),
    usage,
    ...(word === 'stop_sequence' ? endingSequence(request, message.stop_sequence) : {}),
    ...(signatures.length === 0 ? {} : { thought_signatures: signatures }),
  }
  return { outcome: 'generated', output }
}

/** Maps the stop reason; one that is not documented is mapped to the nearest. */
function finishReason(word: string | undefined, calls: boolean): TextOutput['finish_reason'] {
  switch (word) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length'
    case 'refusal':
      return 'content_filter'
    default: {
      const nearest = word === 'tool_use' ? 'stop' : nearestReason(word)
      return nearest === 'stop' && calls ? 'tool_calls' : nearest
    }
  }
}

function toolCalls({ content }: Pick<MessageWire, 'content'>): TextOutput['tool_calls'] {
  const calls = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
  return calls.map(({ name, input }) => ({ id: newCallId(), name, arguments_json: input === '' ? '{}' : input }))
}

/**
 * Returns the usage; total input is the sum of three counts (…/build-with-claude/prompt-caching, "Tracking cache
 * performance").
 */
function usageOf(
  usage: MessageWire['usage'],
  least: { readonly input: number; readonly output: number },
  isCounted = true,
): TextUsage {
  const [written, cached] = [usage?.cache_creation_input_tokens ?? 0, usage?.cache_read_input_tokens ?? 0]
  const input = usage?.input_tokens ?? (written + cached > 0 ? Math.max(0, least.input - written - cached) : undefined)
  const output = usage?.output_tokens
  return answerUsage(
    {
      input: input === undefined ? undefined : input + written + cached,
      cached,
      written,
      output: isCounted ? output : Math.max(output ?? 0, least.output),
      thinking: Math.min(usage?.output_tokens_details?.thinking_tokens ?? 0, output ?? Infinity),
    },
    least,
  )
}
