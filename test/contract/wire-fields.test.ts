import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { messageEventWire, messageWire } from '../../workers/providers/anthropic/wire.ts'
import { createElevenLabsTranscription } from '../../workers/providers/elevenlabs/transcription.ts'
import { transcriptWire } from '../../workers/providers/elevenlabs/wire.ts'
import { createGeminiImage } from '../../workers/providers/gemini/image.ts'
import { answerWire } from '../../workers/providers/gemini/wire.ts'
import type { SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleImage } from '../../workers/providers/openai-compatible/image.ts'
import { createOpenAiCompatibleTranscription } from '../../workers/providers/openai-compatible/transcription.ts'
import {
  chunkWire,
  completionWire,
  imagesWire,
  transcriptionWire,
} from '../../workers/providers/openai-compatible/wire.ts'
import { ADAPTERS } from '../support/json/passed-through.ts'
import { ODD_VALUES, type WirePath, wirePaths, withValueAt } from '../support/vendors/wire-walk.ts'
import { pngHead } from '../unit/operations/sample-images.ts'

/*
 * Every field that a wire schema reads × what it may be instead: an answer is delivered whenever a usable part of it is
 * left, and charged by no more than the vendor counted and no less than what was delivered. Fields are read from the
 * schemas, so that one that is added later is among them.
 */

const OPTIONS = { timeoutMs: 600_000 }
const connection = { baseUrl: 'http://127.0.0.1:9', apiKey: 'key', upstreamModel: 'model' }
const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'When does the tram leave?' }] }],
  max_output_tokens: 512,
  stop_sequences: ['END'],
}
/** More than any count of these answers. */
const MOST_TOKENS = 100

interface Cells {
  readonly cells: number
  readonly delivered: number
  /** Places and values whose answer was lost although a part of it was left. */
  readonly lost: string[]
}

/** Tries every value in every place; `isUsable` says whether a changed answer still has a part that can be delivered. */
async function tryAll(
  schema: z.ZodType,
  answer: unknown,
  deliver: (changed: unknown) => Promise<boolean>,
  isUsable: (changed: unknown) => boolean,
): Promise<Cells> {
  const lost: string[] = []
  let [cells, delivered] = [0, 0]
  for (const path of uniquePaths(wirePaths(schema))) {
    for (const value of ODD_VALUES) {
      const changed = withValueAt(answer, path, value)
      if (changed === null) continue
      cells += 1
      const isDelivered = await deliver(changed)
      if (isDelivered) delivered += 1
      else if (isUsable(changed)) lost.push(`${path.join('.')}: ${JSON.stringify(value) ?? 'missing'}`)
    }
  }
  return { cells, delivered, lost }
}

function uniquePaths(paths: readonly WirePath[]): WirePath[] {
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()]
}

const answering =
  (body: unknown): SendHttp =>
  () =>
    Promise.resolve({
      outcome: 'response',
      status: 200,
      headers: new Headers(),
      bytes: Buffer.from(JSON.stringify(body)),
    })

/** Whether two texts are in an answer's JSON, of which one is enough. */
const hasEither = (changed: unknown, ...texts: readonly string[]) =>
  texts.some((text) => JSON.stringify(changed)?.includes(text))

describe('answers of text', () => {
  const call = { id: 't', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
  const ANSWERS: Record<string, { schema: z.ZodType; answer: unknown }> = {
    'openai-compatible': {
      schema: completionWire,
      answer: {
        id: 'c',
        choices: [
          {
            finish_reason: 'tool_calls',
            stop_reason: 'END',
            matched_stop: 'END',
            message: { content: 'Let me look.', refusal: null, tool_calls: [call], function_call: null },
          },
        ],
        usage: {
          prompt_tokens: 9,
          completion_tokens: 20,
          total_tokens: 29,
          prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 1 },
          completion_tokens_details: { reasoning_tokens: 2 },
        },
      },
    },
    gemini: {
      schema: answerWire,
      answer: {
        candidates: [
          {
            finishReason: 'STOP',
            content: {
              parts: [
                { text: 'Let me look.', thought: false, thoughtSignature: 's' },
                { functionCall: { name: 'f', args: { a: 1 } } },
              ],
            },
          },
        ],
        promptFeedback: {},
        usageMetadata: {
          promptTokenCount: 9,
          cachedContentTokenCount: 3,
          toolUsePromptTokenCount: 1,
          candidatesTokenCount: 18,
          thoughtsTokenCount: 2,
          totalTokenCount: 30,
        },
        responseId: 'r',
      },
    },
    anthropic: {
      schema: messageWire,
      answer: {
        id: 'msg_1',
        content: [
          { type: 'text', text: 'Let me look.' },
          { type: 'tool_use', id: 't', name: 'f', input: { a: 1 } },
          { type: 'thinking', thinking: '', signature: 's' },
        ],
        stop_reason: 'tool_use',
        stop_sequence: null,
        usage: {
          input_tokens: 9,
          output_tokens: 20,
          cache_creation_input_tokens: 1,
          cache_read_input_tokens: 3,
          output_tokens_details: { thinking_tokens: 2 },
        },
      },
    },
  }

  it.each(Object.entries(ANSWERS))('of %s are delivered whatever a field is', async (name, { schema, answer }) => {
    const deliver = async (changed: unknown) => {
      const outcome = await ADAPTERS[name]?.create(answering(changed)).generateText(REQUEST, OPTIONS)
      if (outcome?.outcome !== 'generated') return false
      const { usage, text, tool_calls: calls } = outcome.output
      expect(usage.input_tokens).toBeGreaterThanOrEqual(1)
      expect(usage.output_tokens).toBeGreaterThanOrEqual(text === null && calls.length === 0 ? 0 : 1)
      expect(usage.input_tokens + usage.output_tokens).toBeLessThanOrEqual(MOST_TOKENS)
      return true
    }
    const readable = { 'openai-compatible': 'choices', gemini: 'candidates', anthropic: 'content' }[name] ?? ''
    const isUsable = (changed: unknown) =>
      hasEither((changed as Record<string, unknown>)[readable], 'Let me look', '"f"')
    const { cells, delivered, lost } = await tryAll(schema, answer, deliver, isUsable)
    expect(lost).toEqual([])
    expect(cells).toBeGreaterThan(150)
    expect(delivered / cells).toBeGreaterThan(0.85)
  })
})

describe('events of text', () => {
  const delta = {
    content: 'So far',
    refusal: null,
    tool_calls: [{ index: 0, id: 't', function: { name: 'f', arguments: '{}' } }],
  }
  const EVENTS: Record<
    string,
    { schemas: readonly z.ZodType[]; before: unknown[]; changed: unknown[]; after: unknown[] }
  > = {
    'openai-compatible': {
      schemas: [chunkWire],
      before: [{ id: 'c', choices: [{ index: 0, delta: { content: 'Let me look.' } }] }],
      changed: [
        {
          id: 'c',
          choices: [{ index: 0, finish_reason: null, stop_reason: null, matched_stop: null, delta }],
          usage: null,
        },
      ],
      after: [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }],
    },
    gemini: {
      schemas: [answerWire],
      before: [{ candidates: [{ content: { parts: [{ text: 'Let me look.' }] } }] }],
      changed: [
        {
          candidates: [{ content: { parts: [{ text: 'So far', thought: false }] } }],
          usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 9, totalTokenCount: 18 },
          responseId: 'r',
        },
      ],
      after: [{ candidates: [{ finishReason: 'STOP' }] }],
    },
    anthropic: {
      schemas: [messageEventWire],
      before: [
        { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 9, output_tokens: 1 } } },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Let me look.' } },
      ],
      changed: [
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'So far' } },
        { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', name: 'f', text: null } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } },
      ],
      after: [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }],
    },
  }

  it.each(Object.entries(EVENTS))('of %s cost no other event', async (name, { schemas, before, changed, after }) => {
    let cells = 0
    for (const event of changed)
      for (const schema of schemas)
        for (const path of uniquePaths(wirePaths(schema)))
          for (const value of ODD_VALUES) {
            const odd = withValueAt(event, path, value)
            if (odd === null) continue
            cells += 1
            const http: SendHttp = (_, { onEvent }) => {
              const progress = [...before, odd, ...after].map((each) => onEvent?.(JSON.stringify(each)) ?? 'waiting')
              const streamed = progress.at(-1) ?? 'waiting'
              return Promise.resolve({
                outcome: 'response',
                status: 200,
                headers: new Headers(),
                bytes: new Uint8Array(),
                streamed,
              })
            }
            const outcome = await ADAPTERS[name]
              ?.create(http)
              .generateText({ ...REQUEST, max_output_tokens: 60_000 }, OPTIONS)
            expect({ path, value, outcome }).toMatchObject({
              outcome: { outcome: 'generated', output: { text: expect.stringMatching(/^Let me look\./) as string } },
            })
          }
    expect(cells).toBeGreaterThan(50)
  })
})

const INPUT = {
  audio: new Uint8Array(),
  diarize: false,
  timestamps: 'character',
  tagAudioEvents: false,
  needsWords: false,
} as const

const deliverByElevenLabs = async (changed: unknown) => {
  const provider = createElevenLabsTranscription({ ...connection, http: answering(changed) })
  return (await provider.transcribe(INPUT, OPTIONS)).outcome === 'transcribed'
}

const deliverByOpenAiStyle = async (changed: unknown) => {
  const provider = createOpenAiCompatibleTranscription({ ...connection, http: answering(changed) })
  return (await provider.transcribe({ ...INPUT, timestamps: 'word' }, OPTIONS)).outcome === 'transcribed'
}

describe('answers of media', () => {
  const png = pngHead(1024, 1024).toString('base64')
  const images: [string, z.ZodType, unknown, (http: SendHttp) => ReturnType<typeof createGeminiImage>][] = [
    [
      'OpenAI-style images',
      imagesWire,
      { data: [{ b64_json: png, url: null, revised_prompt: 'A tram' }, { b64_json: png }] },
      (http) => createOpenAiCompatibleImage({ ...connection, http }),
    ],
    [
      'Gemini images',
      answerWire,
      {
        candidates: [
          { finishReason: 'STOP', content: { parts: [{ inlineData: { data: png } }, { inlineData: { data: png } }] } },
        ],
        usageMetadata: { promptTokenCount: 3 },
      },
      (http) => createGeminiImage({ ...connection, http }),
    ],
  ]
  it.each(images)('of %s are delivered whatever a field is', async (_name, schema, answer, create) => {
    const deliver = async (changed: unknown) =>
      (await create(answering(changed)).generateImage({ prompt: 'A tram', size: '1024x1024' }, OPTIONS)).outcome ===
      'generated'
    const { cells, lost } = await tryAll(schema, answer, deliver, (changed) => hasEither(changed, png))
    expect(lost).toEqual([])
    expect(cells).toBeGreaterThan(30)
  })

  it('of ElevenLabs are delivered whatever a field is', async () => {
    const word = {
      text: 'Hello',
      type: 'word',
      start: 0,
      end: 1,
      speaker_id: 's',
      characters: [{ text: 'H', start: 0, end: 1 }],
    }
    const answer = {
      text: 'Hello',
      language_code: 'eng',
      language_probability: 0.9,
      transcription_id: 't',
      words: [word, word],
    }
    const { cells, lost } = await tryAll(transcriptWire, answer, deliverByElevenLabs, (changed) =>
      hasEither(changed, 'Hello'),
    )
    expect(lost).toEqual([])
    expect(cells).toBeGreaterThan(100)
  })

  it('of OpenAI-style transcriptions are delivered whatever a field is', async () => {
    const word = { word: 'Hello', start: 0, end: 1 }
    const answer = { text: 'Hello', language: 'english', words: [word, word] }
    const { cells, lost } = await tryAll(transcriptionWire, answer, deliverByOpenAiStyle, (changed) =>
      hasEither(changed, 'Hello'),
    )
    expect(lost).toEqual([])
    expect(cells).toBeGreaterThan(60)
  })
})
