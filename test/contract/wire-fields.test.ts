import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { type TextRequest, textOutputSchema } from '#shared/operations/text/text-request.ts'
import { createAnthropicText } from '../../workers/providers/anthropic/text.ts'
import { messageEventWire, messageWire } from '../../workers/providers/anthropic/wire.ts'
import { createElevenLabsTranscription } from '../../workers/providers/elevenlabs/transcription.ts'
import { transcriptWire } from '../../workers/providers/elevenlabs/wire.ts'
import type { StreamProgress } from '../../workers/providers/event-stream.ts'
import { createGeminiImage } from '../../workers/providers/gemini/image.ts'
import { createGeminiText } from '../../workers/providers/gemini/text.ts'
import { answerWire } from '../../workers/providers/gemini/wire.ts'
import type { SendHttp } from '../../workers/providers/http.ts'
import { leastInputTokens, leastOutputTokens } from '../../workers/providers/least-tokens.ts'
import { createOpenAiCompatibleImage } from '../../workers/providers/openai-compatible/image.ts'
import { createOpenAiCompatibleText } from '../../workers/providers/openai-compatible/text.ts'
import { createOpenAiCompatibleTranscription } from '../../workers/providers/openai-compatible/transcription.ts'
import {
  chunkWire,
  completionWire,
  imagesWire,
  transcriptionWire,
} from '../../workers/providers/openai-compatible/wire.ts'
import type {
  ImageOutcome,
  ImageProvider,
  TextOutcome,
  TextProvider,
  TranscriptionOutcome,
  TranscriptionProvider,
} from '../../workers/providers/provider.ts'
import {
  ANTHROPIC_EVENTS,
  ANTHROPIC_WHOLE,
  COUNTED,
  ELEVENLABS_TRANSCRIPT,
  type FullAnswer,
  GEMINI_EVENTS,
  GEMINI_IMAGE,
  GEMINI_WHOLE,
  OPENAI_EVENTS,
  OPENAI_IMAGE,
  OPENAI_TRANSCRIPT,
  OPENAI_WHOLE,
  type UsablePart,
} from '../support/vendors/full-answers.ts'
import { CHANGES, changed, isWithin, placesOf, wireFields } from '../support/vendors/wire-fields.ts'

/*
 * Each field that an adapter reads × missing, null, of another type, an unknown word: what the vendor answered is delivered
 * as far as it can be read, and charged by what it used. The fields are those of the schemas themselves.
 */

type Outcome = TextOutcome | ImageOutcome | TranscriptionOutcome

const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'When does the next tram leave?' }] }],
  max_output_tokens: 512,
}
const OPTIONS = { timeoutMs: 60_000 }
const connection = (http: SendHttp) => ({
  baseUrl: 'http://vendor.test',
  apiKey: 'key',
  upstreamModel: 'gemini-2.5-flash',
  http,
})
type Create<Provider> = (connected: ReturnType<typeof connection>) => Provider

const answered = (bytes: Uint8Array, streamed?: StreamProgress) => ({
  outcome: 'response' as const,
  status: 200,
  headers: new Headers(),
  bytes,
  ...(streamed === undefined ? {} : { streamed }),
})
const whole =
  (document: unknown): SendHttp =>
  async () =>
    answered(Buffer.from(written(document)))
const streaming =
  (events: readonly string[]): SendHttp =>
  async (_, { onEvent }) => {
    let progress: StreamProgress = 'waiting'
    for (const event of events) {
      progress = onEvent?.(event) ?? 'unusable'
      if (progress === 'unusable' || progress === 'ended') break
    }
    return answered(new Uint8Array(), progress)
  }
const written = (document: unknown) => JSON.stringify(document)

const text = (create: Create<TextProvider>) => (document: unknown) =>
  create(connection(whole(document))).generateText(REQUEST, OPTIONS)
const streamed =
  (create: Create<TextProvider>, ...last: string[]) =>
  (document: unknown) =>
    create(connection(streaming([...(document as unknown[]).map(written), ...last]))).generateText(REQUEST, OPTIONS)
const image = (create: Create<ImageProvider>) => (document: unknown) =>
  create(connection(whole(document))).generateImage({ prompt: 'a tram', size: '1024x1024' }, OPTIONS)
const transcript = (create: Create<TranscriptionProvider>, wanted: object) => (document: unknown) => {
  const input = { audio: new Uint8Array(9), diarize: false, tagAudioEvents: false, needsWords: false }
  return create(connection(whole(document))).transcribe({ ...input, timestamps: 'word', ...wanted }, OPTIONS)
}

interface Adapter {
  readonly schema: z.ZodType
  readonly isStreamed?: true
  readonly answers: readonly FullAnswer[]
  readonly run: (document: unknown) => Promise<Outcome>
}

const ADAPTERS: Readonly<Record<string, Adapter>> = {
  'text of an OpenAI-style server': {
    schema: completionWire,
    answers: OPENAI_WHOLE,
    run: text(createOpenAiCompatibleText),
  },
  'text of an OpenAI-style server, streamed': {
    schema: chunkWire,
    isStreamed: true,
    answers: OPENAI_EVENTS,
    run: streamed(createOpenAiCompatibleText, '[DONE]'),
  },
  'text of Gemini': { schema: answerWire, answers: GEMINI_WHOLE, run: text(createGeminiText) },
  'text of Gemini, streamed': {
    schema: answerWire,
    isStreamed: true,
    answers: GEMINI_EVENTS,
    run: streamed(createGeminiText),
  },
  'text of Anthropic': { schema: messageWire, answers: ANTHROPIC_WHOLE, run: text(createAnthropicText) },
  'text of Anthropic, streamed': {
    schema: messageEventWire,
    isStreamed: true,
    answers: ANTHROPIC_EVENTS,
    run: streamed(createAnthropicText),
  },
  'images of an OpenAI-style server': {
    schema: imagesWire,
    answers: OPENAI_IMAGE,
    run: image(createOpenAiCompatibleImage),
  },
  'images of Gemini': { schema: answerWire, answers: GEMINI_IMAGE, run: image(createGeminiImage) },
  'transcripts of an OpenAI-style server': {
    schema: transcriptionWire,
    answers: OPENAI_TRANSCRIPT,
    run: transcript(
      (connected) =>
        createOpenAiCompatibleTranscription(connected, { path: '/transcriptions', transcript_detail: 'words' }),
      {},
    ),
  },
  'transcripts of ElevenLabs': {
    schema: transcriptWire,
    answers: ELEVENLABS_TRANSCRIPT,
    run: transcript(createElevenLabsTranscription, { timestamps: 'character', diarize: true }),
  },
}

/** Returns what a caller receives; `undefined` when the answer is lost. */
function delivered(outcome: Outcome): { readonly text: string; readonly items: readonly string[] } | undefined {
  switch (outcome.outcome) {
    case 'failed':
      return undefined
    case 'transcribed': {
      const { text: spoken, words = [] } = outcome.transcript
      return { text: spoken, items: words.map((word) => `${word.text} ${word.startSeconds} ${word.endSeconds}`) }
    }
    case 'generated': {
      if ('image' in outcome) return { text: '', items: [Buffer.from(outcome.image.bytes).toString('base64')] }
      const { text: said, refusal, tool_calls: calls } = outcome.output
      return {
        text: `${said ?? ''}${refusal ?? ''}`,
        items: calls.map(({ name, arguments_json: json }) => `${name} ${json}`),
      }
    }
  }
}

/** Returns what is wrong with a charge: less than what was delivered has at least, or more than the vendor counted. */
function unfairUsage(outcome: Outcome): string[] {
  if (outcome.outcome !== 'generated' || 'image' in outcome) return []
  const { usage, text: said, refusal, tool_calls: calls } = textOutputSchema.parse(outcome.output)
  const { input_tokens: input, output_tokens: output } = usage
  const leastOutput = leastOutputTokens({ text: `${said ?? ''}${refusal ?? ''}`, calls })
  return [
    ...(input < leastInputTokens(REQUEST) || output < leastOutput ? ['charged below the least tokens'] : []),
    ...(output > COUNTED.output || input + output > COUNTED.input + COUNTED.output ? ['charged above the counts'] : []),
  ]
}

/** Returns the usable parts that a caller did not receive. */
function missingParts(outcome: Outcome, parts: readonly UsablePart[]): UsablePart[] {
  const shown = delivered(outcome) ?? { text: '', items: [] }
  return parts.filter(
    ({ text: piece, item }) =>
      (piece !== undefined && !shown.text.includes(piece)) || (item !== undefined && !shown.items.includes(item)),
  )
}

/** Returns the fields of what an adapter reads, as they are found in its answers: each event has its own. */
function fieldsOf({ schema, isStreamed }: Adapter): string[] {
  const fields = wireFields(schema)
  return isStreamed === true ? ['*', ...fields.map((field) => `*.${field}`)] : fields
}

interface Trial {
  readonly field: string
  readonly kind: string
  readonly outcome: Outcome
  /** The parts that do not stand at the changed place. */
  readonly left: readonly UsablePart[]
  /** Whether the change took the only sign of a stream's end. */
  readonly isWithoutEnd: boolean
}

/** Changes each field of an adapter's answers wherever it stands. */
async function walk(adapter: Adapter): Promise<Trial[]> {
  const cells = fieldsOf(adapter).flatMap((field) =>
    Object.entries(CHANGES).map(([kind, value]) => ({ field, kind, value })),
  )
  const trials = cells.flatMap(({ field, kind, value }) =>
    adapter.answers.flatMap(({ document, parts, end }) =>
      placesOf(document, field).map(async (place): Promise<Trial> => {
        const outcome = await adapter.run(changed(document, place, value))
        const left = parts.filter(({ places }) => !places.some((needed) => isWithin(needed, place)))
        const isLost = delivered(outcome) === undefined
        return { field, kind, outcome, left, isWithoutEnd: isLost && end !== undefined && isWithin(end, place) }
      }),
    ),
  )
  return Promise.all(trials)
}

/** Returns what is wrong with each trial. */
function problemsOf({ field, kind, outcome, left, isWithoutEnd }: Trial): string[] {
  const hasEndedEarly = 'reason' in outcome && outcome.reason === 'HTTP 200 with a stream that ended early'
  const logged = 'reason' in outcome ? outcome.reason : 'mended' in outcome ? JSON.stringify(outcome.mended) : ''
  const problems = [
    ...(isWithoutEnd ? (hasEndedEarly ? [] : ['another reason']) : missingParts(outcome, left).map(written)),
    ...unfairUsage(outcome),
    ...(logged.includes('hologram') ? ['text of the vendor could be logged'] : []),
  ]
  return problems.map((problem) => `${field} is ${kind}: ${problem}, of ${written(outcome)}`)
}

describe.each(Object.entries(ADAPTERS))('%s', (_name, adapter) => {
  it('reads the full answers whole', async () => {
    for (const { document, parts } of adapter.answers) {
      const outcome = await adapter.run(document)
      expect([...missingParts(outcome, parts), ...unfairUsage(outcome)]).toEqual([])
    }
  })

  it('delivers what is left of an answer whatever any one of its fields is', async () => {
    const trials = await walk(adapter)
    expect(trials.flatMap(problemsOf)).toEqual([])
    // Every field that the adapter reads is in one of its answers.
    expect(new Set(trials.map(({ field }) => field))).toEqual(new Set(fieldsOf(adapter)))
    // Only a stream of Gemini has no other end than its finish reason: without it, it may have been cut anywhere.
    expect(trials.some(({ isWithoutEnd }) => isWithoutEnd)).toBe(adapter.answers.some(({ end }) => end !== undefined))
  })
})
