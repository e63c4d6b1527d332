import type { TextOutput, TextRequest, TextUsage } from '#shared/operations/text/text-request.ts'
import { geminiTextObstacle } from '#shared/operations/vendors/gemini.ts'
import type { KeyedConnection } from '../adapter.ts'
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
import { callIdOf, deliveredText, endsAtStopSequence, inputUsage, WITHHELD_REFUSAL } from '../text-answer.ts'
import { type AnswerStream, createAnswerStream } from './answer-stream.ts'
import { failureOfEvent } from './errors.ts'
import { answerOf, createPost } from './generate-content.ts'
import { type GeminiTextSettings, textBody } from './text-body.ts'
import type { AnswerWire, PartWire } from './wire.ts'

/** 65,536 tokens are well below 1 MiB; thought signatures and escapes add to it. */
const MAXIMUM_RESPONSE_BYTES = 16 * 1024 * 1024

/** Finish reasons of a failed function call; any other output does not answer the request. */
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
      return answered.outcome === 'failed' ? answered : readOutput(answered.answer, request)
    },
  }
}

/**
 * Reads a streamed answer. Its counts are cumulative, so those of the last event are measured even where the time limit
 * cut the answer; what they lack is counted as the tokens that the text has at least.
 */
function readStream(stream: AnswerStream, exchange: StreamedExchange, request: TextRequest): TextOutcome {
  if (stream.error !== undefined) return failureOfEvent(stream.error)
  const ending = streamEnding(exchange)
  const arrived = stream.answer()
  const reported = readUsage(arrived, false)
  if (typeof ending === 'object') return withReported(ending, reported)
  const parts = (arrived.candidates?.[0]?.content?.parts ?? []).filter(({ thought }) => thought !== true)
  const text = parts.map((part) => part.text ?? '').join('')
  const calls = toolCalls(parts, arrived)
  if (ending === 'cut' && text.trim() === '' && calls.length === 0)
    return withReported(nothingInTime(exchange), reported)
  const { promptTokenCount: input, candidatesTokenCount: output, ...others } = arrived.usageMetadata ?? {}
  const least = leastOutputTokens({ text, calls })
  const usageMetadata = {
    ...others,
    promptTokenCount: input ?? leastInputTokens(request),
    candidatesTokenCount: ending === 'cut' ? Math.max(output ?? 0, least) : (output ?? least),
  }
  const candidates =
    ending === 'cut' ? [{ content: arrived.candidates?.[0]?.content, finishReason: 'MAX_TOKENS' }] : arrived.candidates
  return readOutput({ ...arrived, candidates, usageMetadata }, request)
}

/**
 * Maps an answer to its outcome:
 *
 * - A blocked prompt (`promptFeedback.blockReason`, no candidates) is refused before anything was generated: rejected.
 * - A withheld answer (SAFETY, RECITATION, …) was worked on and is billed: a refusal with finish reason
 *   `content_filter`, or the part of the text that passed the filter.
 * - Any reason other than STOP and MAX_TOKENS also means that the vendor cut the answer short: `content_filter`.
 * - An answer without text or call is complete when MAX_TOKENS ended it, which thinking alone can use up, or when the
 *   request has stop sequences: STOP stands for those as well as for the model's own end.
 *
 * Source: ai.google.dev/gemini-api/docs/safety-settings ("Safety feedback") and Candidate.FinishReason.
 */
function readOutput(answer: AnswerWire, request: TextRequest): TextOutcome {
  const candidate = answer.candidates?.[0]
  const blocked = answer.promptFeedback?.blockReason
  if (candidate === undefined) {
    if (blocked !== undefined) return rejected(`HTTP 200 with a blocked prompt, ${blocked}`)
    if (answer.usageMetadata === undefined) return unknownOutcome('HTTP 200 with neither candidate nor usage')
    return emptyOutput('HTTP 200 without a candidate', readUsage(answer, false))
  }
  const reason = candidate.finishReason ?? 'no finish reason'
  if (FAILED_CALL_REASONS.has(reason)) return emptyOutput(`HTTP 200 with ${reason}`, readUsage(answer, false))
  const parts = (candidate.content?.parts ?? []).filter(({ thought }) => thought !== true)
  const text = parts.map((part) => part.text ?? '').join('')
  const calls = toolCalls(parts, answer)
  const isBlank = text.trim() === '' && calls.length === 0
  const isComplete = reason === 'MAX_TOKENS' || (reason === 'STOP' && (text !== '' || endsAtStopSequence(request)))
  const isWithheld = isBlank && reason !== 'STOP' && reason !== 'MAX_TOKENS'
  if (isBlank && !isComplete && (!isWithheld || candidate.finishReason === undefined)) {
    return emptyOutput(`HTTP 200 without text or call, ${reason}`, readUsage(answer, false))
  }
  const usage = readUsage(answer, !isBlank)
  if (usage === undefined) return unknownOutcome('HTTP 200 without usable token counts')
  const signatures = (candidate.content?.parts ?? []).flatMap(({ thoughtSignature }) => thoughtSignature ?? [])
  const output: TextOutput = {
    text: deliveredText(text, isBlank && isComplete),
    refusal: isWithheld ? WITHHELD_REFUSAL : null,
    tool_calls: calls,
    finish_reason: finishReason(reason, calls.length > 0),
    usage,
    ...(signatures.length === 0 ? {} : { thought_signatures: signatures }),
  }
  const { responseId } = answer
  return { outcome: 'generated', output, ...(responseId === undefined ? {} : { vendorRequestId: responseId }) }
}

function finishReason(reason: string, calls: boolean): TextOutput['finish_reason'] {
  if (reason === 'MAX_TOKENS') return 'length'
  if (reason !== 'STOP') return 'content_filter'
  return calls ? 'tool_calls' : 'stop'
}

/** Returns the calls with ids of ours, since the vendor's may be missing. */
function toolCalls(parts: readonly PartWire[], answer: AnswerWire): TextOutput['tool_calls'] {
  const calls = parts.flatMap(({ functionCall }) => functionCall ?? [])
  return calls.map(({ name, args }, index) => {
    const argumentsJson = JSON.stringify(args ?? {})
    const id = callIdOf(answer.responseId, answer.usageMetadata, index, name, argumentsJson)
    return { id, name, arguments_json: argumentsJson }
  })
}

/**
 * Reads the token counts. `promptTokenCount` includes cached tokens and excludes tool prompts; `candidatesTokenCount`
 * excludes thinking. Source: ai.google.dev/api/generate-content, UsageMetadata; both output counts are billed as output
 * (ai.google.dev/gemini-api/docs/thinking, "Pricing").
 */
function readUsage({ usageMetadata: counts }: AnswerWire, hasOutput: boolean): TextUsage | undefined {
  if (counts?.promptTokenCount === undefined) return undefined
  if (hasOutput && counts.candidatesTokenCount === undefined) return undefined
  const { thoughtsTokenCount } = counts
  return {
    ...inputUsage(counts.promptTokenCount + (counts.toolUsePromptTokenCount ?? 0), {
      cached: counts.cachedContentTokenCount,
    }),
    output_tokens: (counts.candidatesTokenCount ?? 0) + (thoughtsTokenCount ?? 0),
    ...(thoughtsTokenCount === undefined ? {} : { thinking_tokens: thoughtsTokenCount }),
  }
}
