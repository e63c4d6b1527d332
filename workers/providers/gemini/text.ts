import type { TextOutput, TextRequest, TextUsage } from '#shared/operations/text/text-request.ts'
import { geminiTextObstacle } from '#shared/operations/vendors/gemini.ts'
import type { KeyedConnection } from '../adapter.ts'
import { emptyOutput, rejected, unknownOutcome, unserviceable } from '../failures.ts'
import { leastInputTokens, leastOutputTokens } from '../least-tokens.ts'
import { nearestReason, withMended } from '../lenient.ts'
import type { TextOutcome, TextProvider } from '../provider.ts'
import {
  isStreamed,
  nothingInTime,
  type StreamedExchange,
  streamEnding,
  streamsAnswer,
  withReported,
} from '../streamed-answer.ts'
import { answerUsage, deliveredText, endsAtStopSequence, newCallId, WITHHELD_REFUSAL } from '../text-answer.ts'
import { type AnswerStream, createAnswerStream } from './answer-stream.ts'
import { failureOfEvent } from './errors.ts'
import { answerOf, createPost } from './generate-content.ts'
import { type GeminiTextSettings, textBody } from './text-body.ts'
import { type AnswerWire, CUT_SHORT, LIMITED, type PartWire } from './wire.ts'

/** 65,536 tokens are well below 1 MiB; thought signatures and escapes add to it. */
const MAXIMUM_RESPONSE_BYTES = 16 * 1024 * 1024

/** Finish reasons of a failed function call: an answer without anything else has nothing to deliver. */
const FAILED_CALL_REASONS: ReadonlySet<string> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MISSING_THOUGHT_SIGNATURE',
  'MALFORMED_RESPONSE',
])

/**
 * Creates the text provider for the Gemini API. Long answers are streamed.
 * Source: ai.google.dev/api/generate-content
 */
export function createGeminiText(dependencies: KeyedConnection & GeminiTextSettings): TextProvider {
  const [stream, whole] = [
    createPost(dependencies, 'streamGenerateContent?alt=sse'),
    createPost(dependencies, 'generateContent'),
  ]
  return {
    async generateText(request, options) {
      const obstacle = geminiTextObstacle(request, dependencies.upstreamModel)
      if (obstacle !== undefined) return unserviceable(`not sent: ${obstacle.what}`)
      const parts = request.messages.flatMap((message) => message.parts)
      if (parts.some((part) => part.type === 'image' && part.source.kind !== 'inline')) {
        return rejected('not sent: an image is not inline')
      }
      const arriving = createAnswerStream()
      const post = streamsAnswer(request, options.timeoutMs) ? stream : whole
      const limits = { maximumResponseBytes: MAXIMUM_RESPONSE_BYTES, onEvent: arriving.take }
      const exchange = await post(textBody(request, dependencies), options, limits)
      if (isStreamed(exchange)) return readStream(arriving, exchange, request)
      const answered = answerOf(exchange)
      if (answered.outcome === 'failed') return answered
      return withMended(readOutput(answered.answer, request), answered.mended)
    },
  }
}

/** Reads a streamed answer. Its counts are cumulative, so those of the last event are measured even where the time limit cut the answer. */
function readStream(stream: AnswerStream, exchange: StreamedExchange, request: TextRequest): TextOutcome {
  const arrived = stream.answer()
  const reported = arrived.usageMetadata && usageOf(arrived, { input: leastInputTokens(request), output: 0 })
  if (stream.error !== undefined) return withReported(failureOfEvent(stream.error), reported)
  const ending = streamEnding(exchange)
  if (typeof ending === 'object') return withReported(ending, reported)
  const isCut = ending === 'cut'
  const { text, calls } = outputOf(arrived)
  if (isCut && text.trim() === '' && calls.length === 0) return withReported(nothingInTime(exchange), reported)
  return withMended(readOutput(arrived, request, isCut), stream.mended)
}

/** Returns what an answer shows: thinking is hidden. */
function outputOf({ candidates: candidate }: AnswerWire) {
  const parts = (candidate?.content?.parts ?? []).filter(({ thought }) => thought !== true)
  return { text: parts.map((part) => part.text ?? '').join(''), calls: toolCalls(parts) }
}

/**
 * Maps an answer to its outcome:
 *
 * - A blocked prompt (`promptFeedback.blockReason`, no candidates) is refused before anything was generated: rejected.
 * - A withheld answer (SAFETY, RECITATION, …) was worked on and is billed: a refusal with finish reason
 *   `content_filter`, or the part of the text that passed the filter.
 * - Any other documented reason than STOP and those of limits also means that the vendor cut the answer short:
 *   `content_filter`. One that is not documented is mapped to the nearest.
 * - An answer without text or call is complete when a limit ended it, which thinking alone can use up, or when the
 *   request has stop sequences: STOP stands for those as well as for the model's own end.
 *
 * Source: ai.google.dev/gemini-api/docs/safety-settings ("Safety feedback") and Candidate.FinishReason.
 */
function readOutput(answer: AnswerWire, request: TextRequest, isCut = false): TextOutcome {
  const { candidates: candidate, promptFeedback, usageMetadata: counts } = answer
  const blocked = promptFeedback?.blockReason
  const leastInput = leastInputTokens(request)
  if (candidate === undefined) {
    if (blocked !== undefined) return rejected(`HTTP 200 with a blocked prompt, ${blocked}`)
    if (counts === undefined) return unknownOutcome('HTTP 200 with neither candidate nor usage')
    return emptyOutput('HTTP 200 without a candidate', usageOf(answer, { input: leastInput, output: 0 }))
  }
  const word = isCut ? 'MAX_TOKENS' : candidate.finishReason
  const { text, calls } = outputOf(answer)
  const isBlank = text.trim() === '' && calls.length === 0
  const isLimited = word !== undefined && LIMITED.has(word)
  const isComplete = isLimited || (word === 'STOP' && (text !== '' || endsAtStopSequence(request)))
  const isCutShort = word !== undefined && CUT_SHORT.has(word)
  const isWithheld = isBlank && isCutShort && !FAILED_CALL_REASONS.has(word)
  const usage = usageOf(answer, { input: leastInput, output: leastOutputTokens({ text, calls }) }, isCut)
  if (isBlank && !isComplete && !isWithheld) {
    const reason = word === 'STOP' || isCutShort ? word : 'no known finish reason'
    return emptyOutput(`HTTP 200 without text or call, ${reason}`, counts && usage)
  }
  const signatures = (candidate.content?.parts ?? []).flatMap(({ thoughtSignature }) => thoughtSignature ?? [])
  const output: TextOutput = {
    text: deliveredText(text, isBlank && isComplete),
    refusal: isWithheld ? WITHHELD_REFUSAL : null,
    tool_calls: calls,
    finish_reason: finishReason(word, calls.length > 0),
    usage,
    ...(signatures.length === 0 ? {} : { thought_signatures: signatures }),
  }
  const { responseId } = answer
  return { outcome: 'generated', output, ...(responseId === undefined ? {} : { vendorRequestId: responseId }) }
}

function finishReason(word: string | undefined, calls: boolean): TextOutput['finish_reason'] {
  if (word !== undefined && LIMITED.has(word)) return 'length'
  if (word !== undefined && CUT_SHORT.has(word)) return 'content_filter'
  const nearest = word === 'STOP' ? 'stop' : nearestReason(word)
  return nearest === 'stop' && calls ? 'tool_calls' : nearest
}

/** Returns the calls with ids of ours, since the vendor's may be missing. */
function toolCalls(parts: readonly PartWire[]): TextOutput['tool_calls'] {
  const calls = parts.flatMap(({ functionCall }) => functionCall ?? [])
  return calls.map(({ name, args }) => ({ id: newCallId(), name, arguments_json: args ?? '{}' }))
}

/**
 * Returns the usage. `promptTokenCount` includes cached tokens and excludes tool prompts; `candidatesTokenCount` excludes
 * thinking, and is left out when it is zero. Source: ai.google.dev/api/generate-content, UsageMetadata; both output counts
 * are billed as output (ai.google.dev/gemini-api/docs/thinking, "Pricing").
 */
function usageOf(
  { usageMetadata: counts }: AnswerWire,
  least: { readonly input: number; readonly output: number },
  isCut = false,
): TextUsage {
  const thinking = counts?.thoughtsTokenCount ?? 0
  const reported = counts?.candidatesTokenCount
  const total = isCut ? undefined : counts?.totalTokenCount
  const hasRest = total !== undefined && counts?.promptTokenCount !== undefined
  const visible = isCut
    ? Math.max(reported ?? 0, least.output)
    : (reported ?? (thinking > 0 && !hasRest ? least.output : undefined))
  const input = counts?.promptTokenCount
  return answerUsage(
    {
      input: input === undefined ? undefined : input + (counts?.toolUsePromptTokenCount ?? 0),
      cached: counts?.cachedContentTokenCount,
      output: visible === undefined ? undefined : visible + thinking,
      thinking,
      total,
    },
    least,
  )
}
