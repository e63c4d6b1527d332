import { drawPng } from '../../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { Path } from './wire-fields.ts'

/*
 * Answers of vendors with every field that our schemas read, several where a field has forms that exclude one another, and
 * what of them a caller can use.
 */

/** A part of an answer that is of use by itself, and the places without which it cannot be read. */
export interface UsablePart {
  /** A piece of the text. */
  readonly text?: string
  /** A call with its arguments, a word with its times, an image. */
  readonly item?: string
  readonly places: readonly Path[]
}

export interface FullAnswer {
  /** A body, or the list of events. */
  readonly document: unknown
  readonly parts: readonly UsablePart[]
  /** The place of the end of a stream that has no other sign of it. */
  readonly end?: Path
}

const text = (value: string, ...places: Path[]): UsablePart => ({ text: value, places })
const item = (value: string, ...places: Path[]): UsablePart => ({ item: value, places })

const WEATHER = '{"city":"Paris"}'
const WEATHER_CALL = `get_weather ${WEATHER}`
const CITIES_CALL = 'list_cities {"n":9007199254740993}'
const CITIES = '{"n":9007199254740993}'

/** Input and output of every answer, thinking included. */
export const COUNTED = { input: 40, output: 100 } as const

const openAiUsage = {
  prompt_tokens: 40,
  completion_tokens: 100,
  total_tokens: 140,
  prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 30 },
  // The cached tokens again, as DeepSeek and Kimi say them.
  prompt_cache_hit_tokens: 8,
  cached_tokens: 8,
}
const openAiCall = (name: string, json: string) => ({ id: name, type: 'function', function: { name, arguments: json } })
const stops = { stop_reason: 'END', matched_stop: 'END' }
const contentParts = [
  { type: 'thinking', text: 'hidden' },
  { type: 'text', text: 'The tram ' },
  { type: 'refusal', refusal: 'leaves at nine.' },
]
const message: Path = ['choices', 0, 'message']

export const OPENAI_WHOLE: readonly FullAnswer[] = [
  {
    document: {
      id: 'chatcmpl-1',
      choices: [
        {
          finish_reason: 'tool_calls',
          ...stops,
          message: {
            content: 'The tram leaves at nine.',
            refusal: 'I say no more.',
            tool_calls: [openAiCall('get_weather', WEATHER), openAiCall('list_cities', CITIES)],
          },
        },
      ],
      usage: openAiUsage,
    },
    parts: [
      text('The tram leaves at nine.', [...message, 'content']),
      text('I say no more.', [...message, 'refusal']),
      item(WEATHER_CALL, [...message, 'tool_calls', 0, 'function']),
      item(CITIES_CALL, [...message, 'tool_calls', 1, 'function']),
    ],
  },
  {
    document: {
      choices: [
        {
          finish_reason: 'function_call',
          message: { content: contentParts, function_call: { name: 'get_weather', arguments: WEATHER } },
        },
      ],
      usage: openAiUsage,
    },
    parts: [
      text('The tram ', [...message, 'content', 1, 'text']),
      text('leaves at nine.', [...message, 'content', 2, 'refusal']),
      item(WEATHER_CALL, [...message, 'function_call']),
    ],
  },
]

const chunk = (delta: object, rest: object = {}) => ({
  id: 'chatcmpl-1',
  choices: [{ index: 0, delta, finish_reason: null, ...rest }],
})
const callChunk = (index: number, rest: object) => chunk({ tool_calls: [{ index, ...rest }] })
const deltaAt = (event: number): Path => [event, 'choices', 0, 'delta']
/** What tells which choice and which call a delta belongs to; a delta without a readable place belongs to the latest. */
const callAt = (event: number): Path => [...deltaAt(event), 'tool_calls', 0, 'function']

export const OPENAI_EVENTS: readonly FullAnswer[] = [
  {
    document: [
      chunk({ content: '' }),
      chunk({ content: 'The tram ' }),
      chunk({ content: contentParts.slice(2).concat({ type: 'text', text: '' }) }),
      chunk({ refusal: 'I say no more.' }),
      callChunk(0, { id: 'call_1', function: { name: 'get_weather', arguments: '{"city":' } }),
      callChunk(0, { function: { arguments: '"Paris"}' } }),
      callChunk(1, { id: 'call_2', function: { name: 'list_cities', arguments: CITIES.slice(0, 9) } }),
      callChunk(1, { function: { arguments: CITIES.slice(9) } }),
      chunk({}, { finish_reason: 'tool_calls', ...stops, usage: openAiUsage }),
      { id: 'chatcmpl-1', choices: [], usage: openAiUsage },
    ],
    parts: [
      text('The tram ', [...deltaAt(1), 'content']),
      text('leaves at nine.', [...deltaAt(2), 'content', 0, 'refusal']),
      text('I say no more.', [...deltaAt(3), 'refusal']),
      item(WEATHER_CALL, callAt(4), callAt(5)),
      item(CITIES_CALL, callAt(6), callAt(7)),
    ],
  },
  {
    document: [
      {
        id: 'chatcmpl-1',
        choices: [
          {
            index: 0,
            finish_reason: 'tool_calls',
            ...stops,
            message: {
              content: contentParts,
              refusal: 'I say no more.',
              tool_calls: [
                { index: 0, ...openAiCall('get_weather', WEATHER) },
                { index: 1, ...openAiCall('list_cities', CITIES) },
              ],
            },
          },
        ],
        usage: openAiUsage,
      },
    ],
    parts: [
      text('The tram ', [0, ...message, 'content', 1, 'text']),
      text('leaves at nine.', [0, ...message, 'content', 2, 'refusal']),
      text('I say no more.', [0, ...message, 'refusal']),
      item(WEATHER_CALL, [0, ...message, 'tool_calls', 0, 'function']),
      item(CITIES_CALL, [0, ...message, 'tool_calls', 1, 'function']),
    ],
  },
]

const geminiCounts = {
  promptTokenCount: 36,
  toolUsePromptTokenCount: 4,
  cachedContentTokenCount: 8,
  candidatesTokenCount: 70,
  thoughtsTokenCount: 30,
  totalTokenCount: 140,
}
const geminiParts = [
  { text: 'hidden', thought: true, thoughtSignature: 'sig==' },
  { text: 'The tram ' },
  { text: 'leaves at nine.', thought: false },
  { functionCall: { name: 'get_weather', args: JSON.parse(WEATHER) as unknown } },
  { functionCall: { name: 'list_cities', args: { n: 7 } } },
]
const GEMINI_CITIES = 'list_cities {"n":7}'
const partsAt: Path = ['candidates', 0, 'content', 'parts']
const blocked: FullAnswer = {
  document: { promptFeedback: { blockReason: 'OTHER' }, usageMetadata: { promptTokenCount: 36 } },
  parts: [],
}
const image = drawPng('a tram').toString('base64')

export const GEMINI_WHOLE: readonly FullAnswer[] = [
  {
    document: {
      responseId: 'response-1',
      candidates: [{ content: { parts: [...geminiParts, { inlineData: { data: 'AAAA' } }] }, finishReason: 'STOP' }],
      usageMetadata: geminiCounts,
    },
    parts: [
      text('The tram ', [...partsAt, 1, 'text']),
      text('leaves at nine.', [...partsAt, 2, 'text'], [...partsAt, 2, 'thought']),
      item(WEATHER_CALL, [...partsAt, 3, 'functionCall']),
      item(GEMINI_CITIES, [...partsAt, 4, 'functionCall']),
    ],
  },
  blocked,
]

const streamedParts = geminiParts.concat({ inlineData: { data: 'AAAA' } } as never)
const partAt = (event: number): Path => [event, ...partsAt, 0]

export const GEMINI_EVENTS: readonly FullAnswer[] = [
  {
    document: streamedParts.map((part, index) => ({
      responseId: 'response-1',
      candidates: [{ content: { parts: [part] }, ...(index === 5 ? { finishReason: 'STOP' } : {}) }],
      usageMetadata: geminiCounts,
    })),
    parts: [
      text('The tram ', [...partAt(1), 'text']),
      text('leaves at nine.', [...partAt(2), 'text'], [...partAt(2), 'thought']),
      item(WEATHER_CALL, [...partAt(3), 'functionCall']),
      item(GEMINI_CITIES, [...partAt(4), 'functionCall']),
    ],
    end: [5, 'candidates', 0, 'finishReason'],
  },
  { ...blocked, document: [blocked.document] },
]

export const GEMINI_IMAGE: readonly FullAnswer[] = [
  {
    document: {
      responseId: 'response-1',
      candidates: [
        {
          content: {
            parts: [
              { inlineData: { data: drawPng('a draft').toString('base64') }, thought: true, thoughtSignature: 'sig==' },
              { text: 'A tram.', functionCall: { name: 'f', args: {} } },
              { inlineData: { data: image } },
            ],
          },
          finishReason: 'STOP',
        },
      ],
      usageMetadata: geminiCounts,
    },
    // Without its mark the draft is an image like any other.
    parts: [item(image, [...partsAt, 2, 'inlineData'], [...partsAt, 0, 'thought'])],
  },
  blocked,
]

const claudeUsage = {
  input_tokens: 28,
  cache_creation_input_tokens: 4,
  cache_read_input_tokens: 8,
  output_tokens: 100,
  output_tokens_details: { thinking_tokens: 30 },
}

export const ANTHROPIC_WHOLE: readonly FullAnswer[] = [
  {
    document: {
      id: 'msg_1',
      content: [
        { type: 'thinking', thinking: 'hidden', signature: 'sig==' },
        { type: 'text', text: 'The tram leaves ' },
        { type: 'text', text: 'at nine.' },
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: JSON.parse(WEATHER) as unknown },
        { type: 'tool_use', id: 'toolu_2', name: 'list_cities', input: { n: 7 } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: 'END',
      usage: claudeUsage,
    },
    parts: [
      text('The tram leaves ', ['content', 1, 'text'], ['content', 1, 'type']),
      text('at nine.', ['content', 2, 'text'], ['content', 2, 'type']),
      item(WEATHER_CALL, ['content', 3, 'name'], ['content', 3, 'input'], ['content', 3, 'type']),
      item(GEMINI_CITIES, ['content', 4, 'name'], ['content', 4, 'input'], ['content', 4, 'type']),
    ],
  },
]

const started = (index: number, block: object) => ({ type: 'content_block_start', index, content_block: block })
const delta = (index: number, fields: object) => ({ type: 'content_block_delta', index, delta: fields })
const json = (index: number, piece: string) => delta(index, { type: 'input_json_delta', partial_json: piece })
/** A piece of a text, whose block need not have been announced. */
const pieceAt = (event: number, start: number): Path[] => [
  [event, 'delta', 'text'],
  [event, 'type'],
  [start, 'content_block', 'type'],
]
const jsonAt = (start: number, ...events: number[]): Path[] => [
  [start, 'type'],
  [start, 'content_block'],
  ...events.flatMap((event): Path[] => [
    [event, 'delta', 'partial_json'],
    [event, 'type'],
  ]),
]

export const ANTHROPIC_EVENTS: readonly FullAnswer[] = [
  {
    document: [
      { type: 'message_start', message: { id: 'msg_1', usage: { ...claudeUsage, output_tokens: 1 } } },
      started(0, { type: 'thinking', thinking: '', signature: 'sig' }),
      delta(0, { type: 'signature_delta', signature: 'sig==' }),
      { type: 'content_block_stop', index: 0 },
      started(1, { type: 'text', text: '' }),
      delta(1, { type: 'text_delta', text: 'The tram leaves ' }),
      delta(1, { type: 'text_delta', text: 'at nine.' }),
      { type: 'content_block_stop', index: 1 },
      started(2, { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} }),
      json(2, '{"city":'),
      json(2, '"Paris"}'),
      { type: 'content_block_stop', index: 2 },
      started(3, { type: 'tool_use', id: 'toolu_2', name: 'list_cities', input: {} }),
      json(3, CITIES.slice(0, 9)),
      json(3, CITIES.slice(9)),
      { type: 'content_block_stop', index: 3 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: 'END' }, usage: claudeUsage },
      { type: 'message_stop' },
    ],
    parts: [
      text('The tram leaves ', ...pieceAt(5, 4)),
      text('at nine.', ...pieceAt(6, 4)),
      item(WEATHER_CALL, ...jsonAt(8, 9, 10)),
      item(CITIES_CALL, ...jsonAt(12, 13, 14)),
    ],
  },
  { document: [{ type: 'error', error: { type: 'strange_error' } }], parts: [] },
]

export const OPENAI_IMAGE: readonly FullAnswer[] = [
  {
    document: {
      data: [{ b64_json: image, url: 'https://example.com/a.png', revised_prompt: 'A tram', respect_moderation: true }],
    },
    parts: [item(image, ['data', 0, 'b64_json'])],
  },
]

/** The text stands in for words that cannot be read, and words for the text, so either is enough. */
const STEP = ['Mind 0 0.4', 'the 0.4 0.6', 'step. 0.6 1']

/** Words at the top, as OpenAI lists them; inside segments; as LocalAI names them. */
export const OPENAI_TRANSCRIPT: readonly FullAnswer[] = [
  {
    document: {
      text: 'Mind the step.',
      language: 'english',
      words: [
        { word: 'Mind', start: 0, end: 0.4 },
        { word: 'the', start: 0.4, end: 0.6 },
        { word: 'step.', start: 0.6, end: 1 },
      ],
    },
    parts: [text('Mind the step.', ['text']), ...STEP.map((word, index) => item(word, ['words', index]))],
  },
  {
    document: {
      text: ' Mind the step.',
      segments: [
        {
          text: ' Mind the step.',
          words: [
            { word: 'Mind', start: 0, end: 0.4 },
            { word: 'the', start: 0.4, end: 0.6 },
            { word: 'step.', start: 0.6, end: 1 },
          ],
        },
      ],
    },
    parts: [
      text('Mind the step.', ['text']),
      ...STEP.map((word, index) => item(word, ['segments', 0, 'words', index])),
    ],
  },
  {
    document: {
      segments: [
        {
          text: ' Mind the',
          words: [
            { text: ' Mind', start: 0, end: 0.4 },
            { text: ' the', start: 0.4, end: 0.6 },
          ],
        },
        { text: ' step.', words: [{ text: ' step.', start: 0.6, end: 1 }] },
      ],
      words: [
        { text: 'Mind', start: 0, end: 0.4 },
        { text: 'the', start: 0.4, end: 0.6 },
        { text: 'step.', start: 0.6, end: 1 },
      ],
    },
    parts: STEP.map((word, index) => item(word, ['words', index])),
  },
]

const character = (value: string, start: number, end: number) => ({ text: value, start, end })

export const ELEVENLABS_TRANSCRIPT: readonly FullAnswer[] = [
  {
    document: {
      text: 'Oh no',
      language_code: 'eng',
      language_probability: 0.98,
      transcription_id: 'tr_1',
      words: [
        {
          text: 'Oh',
          type: 'word',
          start: 0.1,
          end: 0.3,
          speaker_id: 'speaker_0',
          characters: [character('O', 0.1, 0.2), character('h', 0.2, 0.3)],
        },
        { text: ' ', type: 'spacing', start: 0.3, end: 0.4, speaker_id: 'speaker_0', characters: [] },
        {
          text: 'no',
          type: 'word',
          start: 0.4,
          end: 0.8,
          speaker_id: 'speaker_1',
          characters: [character('n', 0.4, 0.6), character('o', 0.6, 0.8)],
        },
      ],
    },
    parts: [
      text('Oh no', ['text']),
      ...['Oh 0.1 0.3', '  0.3 0.4', 'no 0.4 0.8'].map((word, index) => item(word, ['words', index])),
    ],
  },
]
