import type { TextOutput, TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { openAiTextObstacle, readOpenAiOptions } from '#shared/operations/vendors/openai-compatible.ts'
import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, unserviceable } from '../failures.ts'
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
import {
  answerUsage,
  callArguments,
  deliveredText,
  endingSequence,
  endsAtStopSequence,
  newCallId,
  type ReportedCounts,
  WITHHELD_REFUSAL,
} from '../text-answer.ts'
import { readJson, storable } from '../wire-fields.ts'
import { type CompletionStream, createCompletionStream } from './completion-stream.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, failureOfEvent } from './errors.ts'
import { type OpenAiTextSettings, textBody } from './text-body.ts'
import { type CompletionWire, completionWire, FINISH_REASONS, WRITTEN } from './wire.ts'

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
 * cut off by the output limit is dropped; other arguments that are not a JSON object are delivered as the model wrote
 * them. Throws like `createPost`. Sources: see `wire.ts`.
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
      const { value, mended } = readLeniently(completionWire, readJson(withoutDone(exchange.bytes), WRITTEN))
      if (value === undefined) return unknownOutcome('HTTP 200 with a malformed completion')
      return { ...withMended(readCompletion(value, request), mended), ...callId(exchange.headers, value.id) }
    },
  }
}

/** Some proxies end a whole completion like a stream (decolua/9router#3492, read on 1 December 2026). */
function withoutDone(bytes: Uint8Array): Uint8Array {
  const end = Buffer.from(bytes.subarray(-64)).toString('latin1')
  const done = /\s*data: ?\[DONE\]\s*$/.exec(end)
  return done === null ? bytes : bytes.subarray(0, done.index - end.length)
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
  const { usage } = stream
  const reported = usage && answerUsage(countsOf(usage), { input: leastInputTokens(request), output: 0 })
  if (stream.error !== undefined) return { ...withReported(failureOfEvent(stream.error), reported), ...id }
  const ending = streamEnding(exchange)
  if (typeof ending === 'object') return { ...withReported(ending, reported), ...id }
  const isCut = ending === 'cut'
  const outcome = readCompletion(wholeCompletion(stream, isCut), request, {
    isCut,
    textPieces: stream.textPieces,
    callPieces: stream.callPieces,
  })
  if (outcome.outcome === 'failed') return { ...outcome, ...id }
  const { text, refusal, tool_calls: calls } = outcome.output
  const isEmpty = `${text ?? ''}${refusal ?? ''}`.trim() === '' && calls.length === 0
  if (isCut && isEmpty) return { ...withReported(nothingInTime(exchange), reported), ...id }
  return { ...withMended(outcome, stream.mended), ...id }
}

/** Returns what has arrived in the form of a whole completion. */
function wholeCompletion(stream: CompletionStream, isCut: boolean): CompletionWire {
  const calls = stream.calls.map(({ name, arguments: json }) => ({
    function: { name: storable(name), arguments: storable(json) },
  }))
  const message = {
    content: storable(stream.text),
    refusal: storable(stream.refusal),
    tool_calls: calls.filter((call) => call.function.name !== ''),
    function_call: undefined,
  }
  return {
    id: stream.id,
    choices: { finish_reason: isCut ? 'length' : stream.finishReason, message, ...stream.stop },
    usage: stream.usage,
  }
}

function finishReasonOf(word: string | undefined): TextOutput['finish_reason'] {
  const known: Readonly<Record<string, TextOutput['finish_reason']>> = FINISH_REASONS
  return known[word ?? ''] ?? nearestReason(word)
}

/** How an answer arrived: how many events its text and the arguments of its calls came in, if it was streamed. */
interface Arrival {
  readonly isCut: boolean
  readonly textPieces: number
  readonly callPieces: number
}

const WHOLE: Arrival = { isCut: false, textPieces: 0, callPieces: 0 }

/**
 * Maps a completion to its outcome. One without output is complete when the output limit ended it, which thinking alone
 * can use up, or when the request has stop sequences: `stop` stands for those as well as for the model's own end. One that
 * `content_filter` withheld is a refusal, and billed: "Charges will also occur when a status 200 is received with a
 * finish_reason of content_filter" (MicrosoftDocs/azure-ai-docs, articles/ai-services/openai/faq.yml, 11 June 2025, read on 30
 * November 2026).
 * Of an answer that the time limit cut, what was delivered is counted, and no call that was not.
 */
function readCompletion(
  { choices: choice, usage }: CompletionWire,
  request: TextRequest,
  { isCut, textPieces, callPieces }: Arrival = WHOLE,
): TextOutcome {
  const counts = countsOf(usage)
  const word = choice?.finish_reason
  const finishReason = finishReasonOf(word)
  const sent = choice?.message?.tool_calls ?? []
  const older = choice?.message?.function_call
  const calls = sent.length === 0 && older !== undefined ? [{ function: older }] : sent
  const whole = calls.flatMap(({ function: { name, arguments: written = '' } }, index) => {
    const mayBeCut = finishReason === 'length' && index === calls.length - 1
    const json = callArguments(written, mayBeCut)
    return json === undefined ? [] : [{ id: newCallId(), name, arguments_json: json }]
  })
  const text = choice?.message?.content ?? ''
  const refusal = deliveredText(choice?.message?.refusal ?? '', false)
  const isBlank = text.trim() === '' && refusal === null && whole.length === 0
  const isWithheld = isBlank && word === 'content_filter'
  const isLimited = word === 'length' || word === 'model_length'
  const isComplete = isLimited || (finishReason === 'stop' && (text !== '' || endsEmpty(choice, request)))
  const isAllDelivered = whole.length === calls.length
  const least = {
    input: leastInputTokens(request),
    output: leastOutputTokens({
      text: `${text}${refusal ?? ''}`,
      calls: whole,
      pieces: textPieces + (isAllDelivered ? callPieces : 0),
    }),
  }
  const reported = isAllDelivered ? (counts.output ?? 0) : 0
  const measured = isCut ? { ...counts, output: Math.max(reported, least.output), total: undefined } : counts
  if (choice === undefined || (isBlank && !isComplete && !isWithheld)) {
    if (usage === undefined && choice === undefined) return unknownOutcome('HTTP 200 with neither choice nor usage')
    const what = choice === undefined ? 'a choice' : `output, finish reason ${finishReason}`
    return emptyOutput(`HTTP 200 without ${what}`, usage && answerUsage(counts, least))
  }
  return {
    outcome: 'generated',
    output: {
      text: deliveredText(text, isBlank && isComplete),
      refusal: isWithheld ? WITHHELD_REFUSAL : refusal,
      tool_calls: whole,
      // OpenAI ends a call that was forced by name with `stop`.
      finish_reason: finishReason === 'stop' && whole.length > 0 ? 'tool_calls' : finishReason,
      usage: answerUsage(measured, least),
      ...(finishReason === 'stop' ? endingSequence(request, choice.stop_reason, choice.matched_stop) : {}),
    },
  }
}

function countsOf(usage: CompletionWire['usage']): ReportedCounts {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? usage?.prompt_cache_hit_tokens ?? usage?.cached_tokens
  const written = usage?.prompt_tokens_details?.cache_write_tokens
  const { prompt_tokens: input, completion_tokens: output, total_tokens: total } = usage ?? {}
  const thinking = usage?.completion_tokens_details?.reasoning_tokens
  const counts = { input, cached, written, output, thinking, total }
  if (thinking !== undefined || output === undefined) return counts
  const hidden = hiddenThinking({ input, output, total, inCache: (cached ?? 0) + (written ?? 0) })
  return hidden === 0 ? counts : { ...counts, output: output + hidden, thinking: hidden }
}

/**
 * Returns the thinking of which a server says nothing but the total: Google's endpoint of this API, which bills it as output
 * (discuss.ai.google.dev/t/127400, read on 30 November 2026). What the cache had is no thinking where the input was counted
 * without it.
 */
function hiddenThinking({
  input = 0,
  output,
  total = 0,
  inCache,
}: {
  readonly input: number | undefined
  readonly output: number
  readonly total: number | undefined
  readonly inCache: number
}): number {
  const rest = Math.max(0, total - input - output)
  return input === 0 || inCache > input || rest === inCache ? 0 : rest
}

/** Returns whether an answer without text may have ended at a sequence of the request: it says so, and shows its message. */
function endsEmpty(choice: CompletionWire['choices'], request: TextRequest): boolean {
  const isKnown = choice?.finish_reason !== undefined && choice.finish_reason in FINISH_REASONS
  return isKnown && choice.message !== undefined && endsAtStopSequence(request)
}
