import type { StreamProgress, TakeEvent } from '../event-stream.ts'
import { readLeniently } from '../lenient.ts'
import { hasError } from '../streamed-answer.ts'
import { parseJsonText } from '../wire-fields.ts'
import { type AnswerWire, answerWire, type PartWire, streamErrorWire, WRITTEN } from './wire.ts'

type Counts = NonNullable<AnswerWire['usageMetadata']>

/** What has arrived of a streamed answer. */
export interface AnswerStream {
  readonly take: TakeEvent
  /** The error event that ended the stream, and whether the model had written anything by then. */
  readonly error: { readonly status: number; readonly data: string; readonly isAfterOutput: boolean } | undefined
  /** Returns what has arrived as one answer; its counts are cumulative, so the latest ones are those of the answer. */
  answer(): AnswerWire
  /** The fields that were not as documented. */
  readonly mended: readonly string[]
}

/**
 * Creates the assembly of a streamed answer. Each event is an answer with the next parts; function calls are never
 * divided. Source: ai.google.dev/api/generate-content, streamGenerateContent
 */
export function createAnswerStream(): AnswerStream {
  const parts: PartWire[] = []
  let finishReason: string | undefined
  let feedback: AnswerWire['promptFeedback']
  let counts: Counts | undefined
  let responseId: string | undefined
  let hasCandidate = false
  let hasEnded = false
  const mended = new Set<string>()
  let error: AnswerStream['error']
  let progress: StreamProgress = 'waiting'

  const add = (chunk: AnswerWire, isEnd: boolean): StreamProgress => {
    const candidate = chunk.candidates
    for (const part of candidate?.content?.parts ?? []) addPart(parts, part)
    if (candidate !== undefined) hasCandidate = true
    if (candidate?.finishReason) finishReason = candidate.finishReason
    hasEnded ||= finishReason !== undefined || isEnd
    feedback = chunk.promptFeedback ?? feedback
    const counted = chunk.usageMetadata
    if (counted !== undefined) counts = counts === undefined ? counted : { ...counts, ...withoutUndefined(counted) }
    responseId = chunk.responseId ?? responseId
    if (hasEnded || feedback?.blockReason !== undefined) return 'finished'
    return parts.some(isOutput) ? 'writing' : progress
  }
  return {
    take(data) {
      const value = parseJsonText(data, WRITTEN)
      const failed = hasError(value) ? streamErrorWire.safeParse(value) : undefined
      // The answer is whole: what fails behind it is not of the answer.
      if (failed !== undefined && hasEnded) return (progress = 'ended')
      if (failed?.success === true) error = { status: failed.data.error.code, data, isAfterOutput: parts.length > 0 }
      if (failed !== undefined) progress = 'unusable'
      else {
        const chunk = readLeniently(answerWire, value)
        for (const field of chunk.mended) mended.add(field)
        if (chunk.value === undefined) mended.add('event')
        // Only the last event has a reason, also where it cannot be read.
        else progress = add(chunk.value, chunk.mended.includes('finishReason'))
      }
      return progress
    },
    get error() {
      return error
    },
    answer: () => ({
      candidates: hasCandidate ? { content: { parts }, finishReason } : undefined,
      promptFeedback: feedback,
      usageMetadata: counts,
      responseId,
    }),
    get mended() {
      return [...mended]
    },
  }
}

function isOutput({ text, thought, functionCall }: PartWire): boolean {
  return thought !== true && ((text !== undefined && text !== '') || functionCall !== undefined)
}

/** Keeps of thinking only its signature: its text is hidden. */
function addPart(parts: PartWire[], part: PartWire): void {
  if (part.thought !== true) parts.push(part)
  else if (part.thoughtSignature !== undefined) parts.push({ ...part, text: undefined })
}

function withoutUndefined(counts: Counts): Partial<Counts> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined))
}
