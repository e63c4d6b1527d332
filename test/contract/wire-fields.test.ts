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
    run: transcript(createOpenAiCompatibleTranscription, {}),
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

/** Checks that what is charged is at least what was delivered, and at most what the vendor counted. */
function expectFairUsage(outcome: Outcome): void {
  if (outcome.outcome !== 'generated' || 'image' in outcome) return
  const { usage, text: said, refusal, tool_calls: calls } = textOutputSchema.parse(outcome.output)
  expect(usage.input_tokens).toBeGreaterThanOrEqual(leastInputTokens(REQUEST))
  expect(usage.output_tokens).toBeGreaterThanOrEqual(
    leastOutputTokens({ text: `${said ?? ''}${refusal ?? ''}`, calls }),
  )
  expect(usage.output_tokens).toBeLessThanOrEqual(COUNTED.output)
  expect(usage.input_tokens + usage.output_tokens).toBeLessThanOrEqual(COUNTED.input + COUNTED.output)
}

/** Returns the fields of what an adapter reads, as they are found in its answers: each event has its own. */
function fieldsOf({ schema, isStreamed }: Adapter): string[] {
  const fields = wireFields(schema)
  return isStreamed === true ? ['*', ...fields.map((field) => `*.${field}`)] : fields
}

/** Walks the fields of an adapter, and returns how many changed answers were delivered, and how many lost and why. */
async function walk(adapter: Adapter) {
  const numbers = { delivered: 0, withoutPart: 0, withoutEnd: 0 }
  for (const field of fieldsOf(adapter)) {
    for (const [kind, value] of Object.entries(CHANGES)) {
      let found = 0
      for (const { document, parts, end } of adapter.answers) {
        for (const place of placesOf(document, field)) {
          const outcome = await adapter.run(changed(document, place, value))
          const what = `${field} (${place.join('.')}) is ${kind}: ${JSON.stringify(outcome)}`
          const left = parts.filter(({ places }) => !places.some((needed) => isWithin(needed, place)))
          const shown = delivered(outcome)
          found += 1
          if (end !== undefined && shown === undefined && isWithin(end, place)) {
            expect(outcome, what).toMatchObject({ reason: 'HTTP 200 with a stream that ended early' })
            numbers.withoutEnd += 1
          } else if (shown === undefined) {
            expect(left, what).toEqual([])
            numbers.withoutPart += 1
          } else {
            for (const part of left) {
              if (part.text !== undefined) expect(shown.text, what).toContain(part.text)
              if (part.item !== undefined) expect(shown.items, what).toContain(part.item)
            }
            numbers.delivered += 1
          }
          expectFairUsage(outcome)
          const logged =
            'reason' in outcome ? outcome.reason : JSON.stringify('mended' in outcome ? outcome.mended : '')
          expect(logged, what).not.toContain('hologram')
        }
      }
      expect(found, `no answer has the field ${field}`).toBeGreaterThan(0)
    }
  }
  return numbers
}

describe.each(Object.entries(ADAPTERS))('%s', (_name, adapter) => {
  it('reads the full answers whole', async () => {
    for (const { document, parts } of adapter.answers) {
      const outcome = await adapter.run(document)
      const shown = delivered(outcome)
      for (const part of parts) {
        if (part.text !== undefined) expect(shown?.text).toContain(part.text)
        if (part.item !== undefined) expect(shown?.items).toContain(part.item)
      }
      expectFairUsage(outcome)
    }
  })

  it('delivers what is left of an answer whatever any one of its fields is', async () => {
    const numbers = await walk(adapter)
    expect(numbers.delivered).toBeGreaterThan(0)
    expect(numbers.withoutEnd > 0).toBe(adapter.answers.some(({ end }) => end !== undefined))
  })
})
