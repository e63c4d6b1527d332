import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type TextOutput, type TextRequest, textOutputSchema } from '#shared/operations/text/text-request.ts'
import { createAnthropicText } from '../../../workers/providers/anthropic/text.ts'
import { lookAtBody, readerOf, readEventStream, type StreamProgress } from '../../../workers/providers/event-stream.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import type { HttpOutcome, SendHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../../workers/providers/openai-compatible/text.ts'
import type { TextOutcome, TextProvider } from '../../../workers/providers/provider.ts'

const REQUEST: TextRequest = {
  system: 'Be brief.',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'When does the tram leave?' }] }],
  max_output_tokens: 512,
}
/** Each of its seven words is a token at least. */
const INPUT_WORDS = 7
const CONNECTION = { baseUrl: 'http://vendor.test', apiKey: 'key', upstreamModel: 'gemini-3.6-flash' }
interface Vendor {
  readonly provider: (http: SendHttp) => TextProvider
  /** Thoughts, the text `The tram leaves at nine.`, a call with arguments and one without. */
  readonly events: readonly object[]
  /** The same without any counts. */
  readonly withoutCounts: readonly object[]
  /** The number of events after which the answer has its finish reason. */
  readonly finishedAfter: number
  /** What ends the stream after the events, in addition to the end of the response. */
  readonly last: readonly string[]
}
const blockDelta = (index: number, delta: object) => ({ type: 'content_block_delta', index, delta })
const blockStart = (index: number, block: object) => ({ type: 'content_block_start', index, content_block: block })
const blockStop = (index: number) => ({ type: 'content_block_stop', index })
const anthropicEvents = (started?: object, ended?: object) => [
  { type: 'message_start', message: { id: 'msg_1', content: [], stop_reason: null, usage: started } },
  { type: 'ping' },
  blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
  blockDelta(0, { type: 'thinking_delta', thinking: 'CANARY thought' }),
  blockDelta(0, { type: 'signature_delta', signature: 'sig==' }),
  blockStop(0),
  blockStart(1, { type: 'text', text: '' }),
  blockDelta(1, { type: 'text_delta', text: 'The tram ' }),
  { type: 'an_event_of_next_year', index: 7 },
  blockDelta(1, { type: 'text_delta', text: 'leaves at ' }),
  blockDelta(1, { type: 'text_delta', text: 'nine.' }),
  blockStop(1),
  blockStart(2, { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} }),
  blockDelta(2, { type: 'input_json_delta', partial_json: '' }),
  blockDelta(2, { type: 'input_json_delta', partial_json: '{"city":"Pa' }),
  blockDelta(2, { type: 'input_json_delta', partial_json: 'ris"}' }),
  blockStop(2),
  blockStart(3, { type: 'tool_use', id: 'toolu_2', name: 'list_cities', input: {} }),
  blockDelta(3, { type: 'input_json_delta', partial_json: '' }),
  blockStop(3),
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: ended },
  { type: 'message_stop' },
]
const chunk = (delta: object, finishReason: string | null = null, usage?: object | null) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
  ...(usage === undefined ? {} : { usage }),
})
const callChunk = (index: number, call: object) => chunk({ tool_calls: [{ index, ...call }] })
const openAiEvents = [
  chunk({ role: 'assistant', content: '', refusal: null }, null, null),
  chunk({ reasoning_content: 'CANARY thought' }),
  chunk({ content: 'The tram ' }),
  chunk({ content: 'leaves at ' }, ''),
  chunk({ content: 'nine.' }),
  callChunk(0, { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '' } }),
  callChunk(0, { function: { arguments: '{"city":"Pa' } }),
  callChunk(0, { function: { arguments: 'ris"}' } }),
  callChunk(1, { id: 'call_2', type: 'function', function: { name: 'list_cities', arguments: '' } }),
  chunk({}, 'tool_calls'),
]
const answerChunk = (parts: readonly object[], counts?: object, finishReason?: string) => ({
  candidates: [
    { content: { role: 'model', parts }, index: 0, ...(finishReason === undefined ? {} : { finishReason }) },
  ],
  ...(counts === undefined ? {} : { usageMetadata: { promptTokenCount: 20, ...counts } }),
  responseId: 'response-1',
})
const geminiEvents = (counts: readonly (object | undefined)[]) => [
  answerChunk([{ text: 'CANARY thought', thought: true }], counts[0]),
  answerChunk([{ text: 'The tram ', thoughtSignature: 'sig==' }], counts[1]),
  answerChunk([{ text: 'leaves at ' }], counts[2]),
  answerChunk([{ text: 'nine.' }], counts[3]),
  answerChunk([{ functionCall: { name: 'get_weather', args: { city: 'Paris' } } }], counts[4]),
  answerChunk([{ functionCall: { name: 'list_cities' } }], counts[5], 'STOP'),
]
const VENDORS: Readonly<Record<string, Vendor>> = {
  anthropic: {
    provider: (http) => createAnthropicText({ ...CONNECTION, http }),
    events: anthropicEvents(
      { input_tokens: 11, cache_creation_input_tokens: 1, cache_read_input_tokens: 8, output_tokens: 2 },
      { input_tokens: null, output_tokens: 60, output_tokens_details: { thinking_tokens: 30 } },
    ),
    withoutCounts: anthropicEvents(),
    finishedAfter: 21,
    last: [],
  },
  gemini: {
    provider: (http) => createGeminiText({ ...CONNECTION, http }),
    events: geminiEvents([
      { thoughtsTokenCount: 30 },
      { thoughtsTokenCount: 30, candidatesTokenCount: 3 },
      { thoughtsTokenCount: 30, candidatesTokenCount: 6 },
      { thoughtsTokenCount: 30, candidatesTokenCount: 8 },
      { thoughtsTokenCount: 30, candidatesTokenCount: 20 },
      { thoughtsTokenCount: 30, candidatesTokenCount: 30, cachedContentTokenCount: 8 },
    ]),
    withoutCounts: geminiEvents([]),
    finishedAfter: 6,
    last: [],
  },
  'openai-compatible': {
    provider: (http) => createOpenAiCompatibleText({ ...CONNECTION, http }),
    events: [
      ...openAiEvents,
      {
        id: 'chatcmpl-1',
        choices: [],
        usage: {
          prompt_tokens: 20,
          prompt_tokens_details: { cached_tokens: 8 },
          completion_tokens: 60,
          completion_tokens_details: { reasoning_tokens: 30 },
        },
      },
    ],
    withoutCounts: openAiEvents,
    finishedAfter: 10,
    last: ['[DONE]'],
  },
}
const text = (events: readonly object[]) => events.map((event) => JSON.stringify(event))
type Ending = 'closed' | 'deadline' | 'reset'
/** A sender whose response is a stream of these events with this ending. */
function streaming(events: readonly string[], ending: Ending): SendHttp {
  return async (_, { onEvent }) => {
    let streamed: StreamProgress = 'waiting'
    for (const event of events) {
      streamed = onEvent?.(event) ?? 'unusable'
      if (streamed === 'unusable' || streamed === 'ended') break
    }
    const outcomes: Record<Ending, HttpOutcome> = {
      closed: { outcome: 'response', status: 200, headers: new Headers(), bytes: new Uint8Array(), streamed },
      deadline: {
        outcome: 'unknown',
        status: 200,
        reason: 'no complete response within 9 ms',
        timedOut: true,
        streamed,
      },
      reset: { outcome: 'unknown', status: 200, reason: 'ECONNRESET', streamed },
    }
    return outcomes[ending]
  }
}
const run = (vendor: Vendor, events: readonly string[], ending: Ending = 'closed'): Promise<TextOutcome> =>
  vendor.provider(streaming(events, ending)).generateText(REQUEST, { timeoutMs: 1000 })
async function output(...call: Parameters<typeof run>): Promise<TextOutput> {
  const outcome = await run(...call)
  if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
  return textOutputSchema.parse(outcome.output)
}
const TEXT = 'The tram leaves at nine.'
const CALLS = [
  ['get_weather', { city: 'Paris' }],
  ['list_cities', {}],
]
const callsOf = ({ tool_calls }: TextOutput) =>
  tool_calls.map(({ name, arguments_json: json }): [string, unknown] => [name, JSON.parse(json)])
const AMBIGUOUS = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const
const ANTHROPIC_TEXT = [
  { type: 'message_start', message: { id: 'msg_1', content: [], usage: { input_tokens: 12, output_tokens: 1 } } },
  blockStart(0, { type: 'text', text: '' }),
]
const digitEvents = (of: (digits: string) => object) => Array.from({ length: 100 }, () => of('31415926'))
const inCall = (json: string) => callChunk(0, { function: { name: 'keep', arguments: json } })
/** A message of one call, whose arguments arrive in these pieces. */
const anthropicCall = (pieces: readonly string[], stopReason: string) => [
  { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 9, output_tokens: 1 } } },
  blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }),
  ...pieces.map((json) => blockDelta(0, { type: 'input_json_delta', partial_json: json })),
  blockStop(0),
  { type: 'message_delta', delta: { stop_reason: stopReason }, usage: { output_tokens: 9 } },
]
const openAiCall = (pieces: readonly string[], finishReason: string) => [
  callChunk(0, { id: 'call_1', function: { name: 'f', arguments: '' } }),
  ...pieces.map((json) => callChunk(0, { function: { arguments: json } })),
  chunk({}, finishReason, { prompt_tokens: 9, completion_tokens: 9 }),
]
const anthropicError = (type: string) => ({ type: 'error', error: { type, message: 'CANARY' } })
const googleError = (code: number, status: string) => ({ error: { code, status, message: 'CANARY' } })
const LIMITS = { maximumBytes: 10_000, stallMs: 5000 }
/** A response whose body the test writes and whose end and cancellation it sees. */
function openStream() {
  const sent: { controller?: ReadableStreamDefaultController<Uint8Array> } = {}
  const closed = vi.fn()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      sent.controller = controller
    },
    cancel: closed,
  })
  return {
    body,
    closed,
    send: (bytes: string | Uint8Array) => sent.controller?.enqueue(Buffer.from(bytes)),
    end: () => sent.controller?.close(),
    fail: (error: Error) => sent.controller?.error(error),
  }
}
const streamOf = (pieces: readonly Uint8Array[]) => {
  const stream = openStream()
  for (const piece of pieces) stream.send(piece)
  stream.end()
  return stream
}
/** Takes events that are the next progress themselves, and remembers all. */
function taking() {
  const events: string[] = []
  const take = (data: string): StreamProgress => {
    events.push(data)
    return /^(?:waiting|writing|finished|ended|unusable)$/.test(data) ? (data as StreamProgress) : 'writing'
  }
  return { events, take }
}
/** Returns whether a body of these pieces is taken for a stream, and all that its reader still returns. */
async function look(contentType: string | undefined, ...pieces: readonly string[]) {
  const headers = new Headers(contentType === undefined ? {} : { 'content-type': contentType })
  const { isEventStream, reader } = await lookAtBody({
    headers,
    body: streamOf(pieces.map((piece) => Buffer.from(piece))).body,
  })
  const read: Uint8Array[] = []
  for (let next = await reader.read(); !next.done; next = await reader.read()) read.push(next.value)
  return { isEventStream, whole: Buffer.concat(read).toString() === pieces.join('') }
}

describe('output without spaces that the time limit cuts', () => {
  it.each<[string, Vendor | undefined, readonly object[]]>([
    [
      'Anthropic',
      VENDORS['anthropic'],
      [...ANTHROPIC_TEXT, ...digitEvents((digits) => blockDelta(0, { type: 'text_delta', text: digits }))],
    ],
    ['an OpenAI-style server', VENDORS['openai-compatible'], digitEvents((digits) => chunk({ content: digits }))],
    [
      'an OpenAI-style server, in a call',
      VENDORS['openai-compatible'],
      [inCall('{"a":"'), ...digitEvents(inCall).slice(2), inCall('"}')],
    ],
  ])('is charged for each of its events by %s', async (_, vendor, written) => {
    if (!vendor) throw new Error('no such vendor')
    expect((await output(vendor, text(written), 'deadline')).usage.output_tokens).toBe(100)
  })
})

describe.each(Object.entries(VENDORS))('a streamed answer of %s', (name, vendor) => {
  const events = [...text(vendor.events), ...vendor.last]

  it('is put together from its events, with the vendor’s own counts', async () => {
    const whole = await output(vendor, events)
    expect(whole).toMatchObject({
      text: TEXT,
      refusal: null,
      finish_reason: 'tool_calls',
      usage: { input_tokens: 20, cached_input_tokens: 8, output_tokens: 60, thinking_tokens: 30 },
    })
    expect(whole.usage.cache_write_tokens).toBe(name === 'anthropic' ? 1 : undefined)
    expect(callsOf(whole)).toEqual(CALLS)
    expect(whole.thought_signatures ?? []).toEqual(name === 'openai-compatible' ? [] : ['sig=='])
    expect(JSON.stringify(whole)).not.toMatch(/CANARY|toolu|"call_1"/)
  })

  it('is delivered wherever the time limit cuts it after its first word, with `length` and no more than was written', async () => {
    const whole = await output(vendor, events)
    const outcomes: TextOutcome[] = []
    for (let count = 0; count < vendor.finishedAfter; count += 1)
      outcomes.push(await run(vendor, events.slice(0, count), 'deadline'))
    const failures = outcomes.filter(({ outcome }) => outcome === 'failed')
    const cuts = outcomes.flatMap((each) => (each.outcome === 'generated' ? [textOutputSchema.parse(each.output)] : []))

    expect(outcomes.slice(0, failures.length)).toEqual(failures)
    for (const failure of failures) expect(failure).toMatchObject({ ...AMBIGUOUS, timedOut: true })
    for (const [index, cut] of cuts.entries()) {
      expect(cut.finish_reason).toBe('length')
      expect(TEXT.startsWith(cut.text ?? 'none')).toBe(true)
      expect(callsOf(cut)).toEqual(CALLS.slice(0, cut.tool_calls.length))
      expect(cut.usage.input_tokens).toBe(name === 'openai-compatible' ? INPUT_WORDS : whole.usage.input_tokens)
      expect(cut.usage.output_tokens).toBeGreaterThanOrEqual(cuts[index - 1]?.usage.output_tokens ?? 1)
      expect(cut.usage.output_tokens).toBeLessThanOrEqual(whole.usage.output_tokens)
    }
    expect(cuts[0]?.text).toBe('The tram ')
    expect(callsOf(cuts.at(-1) ?? whole)).toEqual(CALLS.slice(0, 1))
  })

  it('is complete once it has a finish reason, however the stream ends then', async () => {
    for (const ending of ['deadline', 'reset', 'closed'] as const) {
      const finished = await output(vendor, events.slice(0, vendor.finishedAfter), ending)
      expect(finished).toMatchObject({ text: TEXT, finish_reason: 'tool_calls' })
      expect(callsOf(finished)).toEqual(CALLS)
    }
  })

  it('fails with an unknown outcome wherever the connection is lost or the stream ends before that', async () => {
    for (let count = 0; count < vendor.finishedAfter; count += 1) {
      for (const [ending, reason] of [
        ['reset', 'HTTP 200, ECONNRESET'],
        ['closed', 'HTTP 200 with a stream that ended early'],
      ] as const) {
        const outcome = await run(vendor, events.slice(0, count), ending)
        expect(outcome).toMatchObject({ ...AMBIGUOUS, reason })
        expect(outcome).not.toHaveProperty('concerns')
      }
    }
  })

  it('counts the words of request and answer where the vendor reports no counts', async () => {
    const { usage } = await output(vendor, [...text(vendor.withoutCounts), ...vendor.last])
    // Five words, and for each call its name with its arguments.
    expect(usage).toMatchObject({ input_tokens: INPUT_WORDS, output_tokens: 9 })
  })

  it('loses nothing to an event that cannot be read, wherever it stands, and notes it without quoting it', async () => {
    const { tool_calls: _, ...whole } = await output(vendor, events)
    for (const event of ['CANARY', '7', 'null', '[]', JSON.stringify({ choices: 'CANARY', candidates: 'CANARY' })]) {
      for (let place = 0; place <= vendor.finishedAfter; place += 1) {
        const outcome = await run(vendor, [...events.slice(0, place), event, ...events.slice(place)])
        if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
        expect(outcome.output).toMatchObject(whole)
        expect(callsOf(outcome.output)).toEqual(CALLS)
        expect(outcome.mended).toHaveLength(1)
        expect(JSON.stringify(outcome)).not.toContain('CANARY')
      }
    }
  })

  it('has nothing to deliver where no event can be read', async () => {
    expect(await run(vendor, ['CANARY', '7', ...vendor.last])).toMatchObject(AMBIGUOUS)
  })

  it('gives each call an id of ours, which no other answer has', async () => {
    const answers = [await output(vendor, events), await output(vendor, events)]
    const ids = answers.flatMap(({ tool_calls: calls }) => calls.map(({ id }) => id))
    expect(new Set(ids).size).toBe(4)
    for (const id of ids) expect(id).toMatch(/^call_[0-9a-f]{24}$/)
  })

  it('says of a time limit before the first word that the deployment may hang, and afterwards that the answer was long', async () => {
    expect(await run(vendor, events.slice(0, 1), 'deadline')).not.toHaveProperty('concerns')
    expect(await run(vendor, [], 'deadline')).toMatchObject({ ...AMBIGUOUS, timedOut: true })
  })
})

describe('a call that the output limit cuts', () => {
  const { anthropic: claude, 'openai-compatible': gpt } = VENDORS
  if (claude === undefined || gpt === undefined) throw new Error('no such vendor')

  it.each<[string, Vendor, readonly object[]]>([
    ['anthropic', claude, anthropicCall(['{"a":', '1'], 'max_tokens')],
    ['openai-compatible', gpt, openAiCall(['{"a":', '1'], 'length')],
    ['anthropic, before its arguments', claude, anthropicCall([], 'max_tokens')],
    ['openai-compatible, before its arguments', gpt, openAiCall([], 'length')],
  ])('is not delivered by %s', async (_name, vendor, events) => {
    expect(await output(vendor, text(events))).toMatchObject({
      text: '',
      tool_calls: [],
      finish_reason: 'length',
      usage: { input_tokens: 9, output_tokens: 9 },
    })
  })

  it.each<[string, Vendor, readonly object[]]>([
    ['anthropic', claude, anthropicCall(['{"a":', '1}'], 'max_tokens')],
    ['openai-compatible', gpt, openAiCall(['{"a":', '1}'], 'length')],
  ])('is delivered by %s when its arguments are whole', async (_name, vendor, events) => {
    expect(await output(vendor, text(events))).toMatchObject({ tool_calls: [{ name: 'f' }], finish_reason: 'length' })
  })

  it.each<[string, Vendor, readonly object[]]>([
    ['anthropic', claude, anthropicCall(['{"a":', '1'], 'tool_use')],
    ['openai-compatible', gpt, openAiCall(['{"a":', '1'], 'tool_calls')],
  ])('is delivered by %s as it was written when no limit cut it', async (_name, vendor, events) => {
    expect(await output(vendor, text(events))).toMatchObject({
      tool_calls: [{ name: 'f', arguments_json: '{"a":1' }],
      finish_reason: 'tool_calls',
      usage: { input_tokens: 9, output_tokens: 9 },
    })
  })

  it.each<[string, object | undefined]>([
    ['neither index nor id', undefined],
    ['an index of another type', { index: 'x' }],
  ])('keeps the pieces of its arguments together that have %s', async (_name, place) => {
    const events = [
      callChunk(0, { id: 'a', function: { name: 'f', arguments: '{}' } }),
      callChunk(1, { id: 'b', function: { name: 'g', arguments: '{"a":' } }),
      chunk({ tool_calls: [{ ...place, function: { arguments: '1}' } }] }),
      chunk({}, 'tool_calls', { prompt_tokens: 9, completion_tokens: 9 }),
    ]
    expect(callsOf(await output(gpt, text(events)))).toEqual([
      ['f', {}],
      ['g', { a: 1 }],
    ])
  })

  it('does not get the arguments of a call whose beginning was lost', async () => {
    const events = [
      callChunk(0, { id: 'a', function: { name: 'f', arguments: '{}' } }),
      callChunk(1, { function: { arguments: '{"a":1}' } }),
      chunk({}, 'tool_calls', { prompt_tokens: 9, completion_tokens: 9 }),
    ]
    expect(callsOf(await output(gpt, text(events)))).toEqual([['f', {}]])
  })

  it('has the arguments that it began with where none follow', async () => {
    const whole = { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } }
    const events = anthropicCall([], 'tool_use').map((event) =>
      'content_block' in event ? blockStart(0, whole) : event,
    )
    expect(callsOf(await output(claude, text(events)))).toEqual([['f', { a: 1 }]])
  })

  it('is not charged when a server that counts as it writes counted it, but the text before it is', async () => {
    const written = { prompt_tokens: 9, completion_tokens: 50 }
    const events = [
      chunk({ content: 'Let me look.' }, null, { prompt_tokens: 9, completion_tokens: 4 }),
      callChunk(0, { id: 'call_1', function: { name: 'f', arguments: '{"a":' } }),
      chunk({}, null, written),
    ]
    expect(await output(gpt, text(events.slice(0, 1)), 'deadline')).toMatchObject({ usage: { output_tokens: 4 } })
    expect(await output(gpt, text(events), 'deadline')).toMatchObject({
      text: 'Let me look.',
      tool_calls: [],
      usage: { input_tokens: 9, output_tokens: 3 },
    })
  })

  it('charges the hidden thinking of which only the total of each chunk tells, also of a cut answer', async () => {
    const [first, latest] = [1, 3].map((visible) => ({
      prompt_tokens: 9,
      completion_tokens: visible,
      total_tokens: 102 + visible,
    }))
    const events = [chunk({ content: '1' }, null, first), chunk({ content: ', 2' }, null, latest)]
    expect((await output(gpt, text(events), 'deadline')).usage).toEqual({
      input_tokens: 9,
      output_tokens: 96,
      thinking_tokens: 93,
    })
    const whole = await output(gpt, text([...events, chunk({}, 'length', latest)]))
    expect(whole.usage).toEqual({ input_tokens: 9, output_tokens: 96, thinking_tokens: 93 })
  })

  it.each<[string, object, object]>([
    ['the last event with zeros', { input_tokens: 9, cache_read_input_tokens: 4 }, { input_tokens: 0 }],
    [
      'the last event with zeros of all kinds',
      { input_tokens: 9, cache_read_input_tokens: 4 },
      { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
    ],
    ['the first event with zeros', { input_tokens: 0 }, { input_tokens: 9, cache_read_input_tokens: 4 }],
    ['the last event by kinds', { input_tokens: 13 }, { input_tokens: 9, cache_read_input_tokens: 4 }],
  ])('charges the input that a proxy counts in one event only: %s', async (_name, first, last) => {
    const events = [
      { type: 'message_start', message: { id: 'msg_1', usage: { ...first, output_tokens: 1 } } },
      blockStart(0, { type: 'text', text: 'So far' }),
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { ...last, output_tokens: 5 } },
    ]
    expect((await output(claude, text(events))).usage).toEqual({
      input_tokens: 13,
      cached_input_tokens: 4,
      output_tokens: 5,
    })
  })

  it('reads the counts that a server puts into its last choice', async () => {
    const counts = { prompt_tokens: 19, completion_tokens: 5, total_tokens: 24, cached_tokens: 10 }
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: counts }] }
    expect(await output(gpt, text([chunk({ content: 'So far' }), last]))).toMatchObject({
      usage: { input_tokens: 19, cached_input_tokens: 10, output_tokens: 5 },
    })
  })

  it.each<[string, object]>([
    ['no id', {}],
    ['an empty id', { id: '' }],
  ])('takes calls with %s apart where a server numbers all of them 0', async (_name, id) => {
    const events = [
      callChunk(0, { ...id, function: { name: 'f', arguments: '{"a":{"b":' } }),
      callChunk(0, { ...id, function: { name: 'f', arguments: '1}' } }),
      callChunk(0, { ...id, function: { arguments: '}' } }),
      callChunk(0, { ...id, function: { name: 'f', arguments: '' } }),
      callChunk(0, { ...id, function: { name: 'f', arguments: '{"a":2}' } }),
      callChunk(0, { ...id, function: { name: 'g' } }),
      callChunk(0, { ...id, function: { name: 'h', arguments: '{}' } }),
      chunk({}, 'tool_calls', { prompt_tokens: 9, completion_tokens: 9 }),
    ]
    expect(callsOf(await output(gpt, text(events)))).toEqual([
      ['f', { a: { b: 1 } }],
      ['f', { a: 2 }],
      ['g', {}],
      ['h', {}],
    ])
  })

  it('takes calls with other ids apart where a server numbers all of them 0', async () => {
    const events = [
      callChunk(0, { id: 'a', function: { name: 'f', arguments: '{}' } }),
      callChunk(0, { id: 'b', function: { name: 'g', arguments: '{}' } }),
      chunk({}, 'tool_calls', { prompt_tokens: 9, completion_tokens: 9 }),
    ]
    expect(callsOf(await output(gpt, text(events)))).toEqual([
      ['f', {}],
      ['g', {}],
    ])
  })
})

describe('an error event', () => {
  const DEFINITE = { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable' } as const

  it.each<[string, string, object, object]>([
    [
      'anthropic',
      'as an overload, about whose billing nothing is promised',
      anthropicError('overloaded_error'),
      AMBIGUOUS,
    ],
    ['anthropic', 'as a rate limit', anthropicError('rate_limit_error'), DEFINITE],
    ['anthropic', 'of an unknown type', anthropicError('strange_error'), AMBIGUOUS],
    ['gemini', 'as a server error of its own, which is not billed', googleError(503, 'UNAVAILABLE'), DEFINITE],
    ['gemini', 'of a proxy', googleError(503, 'OTHER'), AMBIGUOUS],
    ['openai-compatible', 'with the status of a rate limit', { error: { message: 'CANARY', code: 429 } }, DEFINITE],
    ['openai-compatible', 'without a status', { error: { message: 'CANARY', code: 'server_error' } }, AMBIGUOUS],
  ])('of %s before the first output counts %s', async (name, _what, event, expected) => {
    const vendor = VENDORS[name]
    if (vendor === undefined) throw new Error('no such vendor')
    const outcome = await run(vendor, text([event]))
    expect(outcome).toMatchObject(expected)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  it.each([
    ['anthropic', anthropicError('rate_limit_error'), 1],
    ['anthropic', anthropicError('overloaded_error'), 9],
    ['gemini', googleError(503, 'UNAVAILABLE'), 3],
    ['openai-compatible', { error: { message: 'CANARY', code: 429 } }, 3],
  ])('of %s after work has begun leaves the outcome unknown', async (name, event, after) => {
    const vendor = VENDORS[name]
    if (vendor === undefined) throw new Error('no such vendor')
    const outcome = await run(vendor, [...text(vendor.events).slice(0, after), JSON.stringify(event)])
    expect(outcome).toMatchObject(AMBIGUOUS)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })
})

describe('the events of a stream', () => {
  const STREAM = Buffer.from(
    ': comment\n\nevent: message\ndata: {"text":"größer 𝄞"}\n\nretry: 5\n\r\ndata: one\ndata: two\n\ndata:last\r\n\r\ndata: without a blank line',
  )

  it('are the same however its bytes are divided', async () => {
    const cuts = fc.array(fc.nat({ max: STREAM.length }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(cuts, async (at) => {
        const bounds = [0, ...at.toSorted((left, right) => left - right), STREAM.length]
        const pieces = bounds.slice(1).map((bound, index) => STREAM.subarray(bounds[index], bound))
        const { events, take } = taking()
        expect(await readEventStream(readerOf(streamOf(pieces)), take, LIMITS)).toEqual({
          progress: 'writing',
          end: 'closed',
        })
        expect(events).toEqual(['{"text":"größer 𝄞"}', 'one\ntwo', 'last', 'without a blank line'])
      }),
      { numRuns: 200 },
    )
  })

  it('are not taken after the last one, or after one that cannot be used', async () => {
    for (const last of ['ended', 'unusable'] as const) {
      const { events, take } = taking()
      const stream = streamOf([Buffer.from(`data: a\n\ndata: ${last}\n\ndata: b\n\n`)])
      expect(await readEventStream(readerOf(stream), take, LIMITS)).toEqual({ progress: last, end: 'closed' })
      expect(events).toEqual(['a', last])
    }
  })

  const [EVENTS, JSON_TYPE] = ['text/event-stream; charset=utf-8', 'application/json']
  it.each([
    ['named as such', EVENTS, ['data: {"a":1}\n\n']],
    ['that begin with a comment', EVENTS, [': OPENROUTER PROCESSING\n\n']],
    ['named plain text', 'text/plain; charset=utf-8', ['data: {}\n\n']],
    ['named JSON', JSON_TYPE, ['event: message_start\ndata: {}\n\n']],
    ['without a name', undefined, ['id: 1\ndata: {}\n\n']],
    ['in pieces', undefined, ['\uFEFF', '\n', 'd', 'at', 'a: {}\n\n']],
    ['of another kind', EVENTS, ['foo: bar\n\ndata: {}\n\n']],
    ['that never arrive', 'Text/Event-Stream', []],
  ])('are told from a whole answer: events %s', async (_, type, pieces) => {
    expect(await look(type, ...pieces)).toEqual({ isEventStream: true, whole: true })
  })

  it.each([
    ['named as such', JSON_TYPE, ['{"data":1}']],
    ['named a stream of events', EVENTS, ['{"id": "1"}']],
    ['that is a list', EVENTS, ['[{"error":{}}]']],
    ['after blanks', EVENTS, ['\n\n', '\n   ', '{"id": "1"}']],
    ['that is none', JSON_TYPE, ['database down']],
    ['that is a page', 'text/html', ['<!doctype html>']],
    ['that never arrives', JSON_TYPE, []],
    ['after more blanks than anybody waits for', JSON_TYPE, [' '.repeat(70_000), 'data: {}\n\n']],
    ['of another kind of stream', 'text/event-streams', ['foo']],
  ])('are told from a whole answer: one %s', async (_, type, pieces) => {
    expect(await look(type, ...pieces)).toEqual({ isEventStream: false, whole: true })
  })

  it('are lost with the connection, also before they can be told', async () => {
    const stream = openStream()
    stream.send('dat')
    const looking = lookAtBody({ headers: new Headers({ 'content-type': 'text/event-stream' }), body: stream.body })
    await Promise.resolve()
    const error = new Error('reset')
    stream.fail(error)
    const { isEventStream, reader } = await looking
    expect(isEventStream).toBe(true)
    expect(await readEventStream(reader, taking().take, LIMITS)).toEqual({ progress: 'waiting', end: 'broken', error })
  })
})

describe('the end of a stream', () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  it('is known where the connection is lost, with the error', async () => {
    const stream = openStream()
    stream.send('data: writing\n\n')
    const reading = readEventStream(readerOf(stream), taking().take, LIMITS)
    await vi.advanceTimersByTimeAsync(0)
    const error = new Error('reset')
    stream.fail(error)
    expect(await reading).toEqual({ progress: 'writing', end: 'broken', error })
    expect(vi.getTimerCount()).toBe(0)
  })

  it.each(['\n', ''])('takes the last event, whose blank line is missing: %j', async (ending) => {
    const stream = openStream()
    stream.send(`data: writing\n\ndata: ended${ending}`)
    stream.end()
    expect(await readEventStream(readerOf(stream), taking().take, LIMITS)).toEqual({ progress: 'ended', end: 'closed' })
  })

  it('comes when a stream that writes stands still, and closes the connection', async () => {
    const stream = openStream()
    const reading = readEventStream(readerOf(stream), taking().take, LIMITS)
    stream.send('data: writing\n\n')
    for (let pause = 0; pause < 3; pause += 1) {
      await vi.advanceTimersByTimeAsync(4999)
      // A comment, which some vendors send as a heartbeat.
      stream.send(': ping\n\n')
    }
    await vi.advanceTimersByTimeAsync(4999)
    expect(stream.closed).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(await reading).toEqual({ progress: 'writing', end: 'stalled' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it('does not come while the model thinks before its first output', async () => {
    const stream = openStream()
    const reading = readEventStream(readerOf(stream), taking().take, LIMITS)
    stream.send('data: waiting\n\n')
    await vi.advanceTimersByTimeAsync(600_000)
    expect(stream.closed).not.toHaveBeenCalled()
    stream.send('data: ended\n\n')
    stream.end()
    expect(await reading).toEqual({ progress: 'ended', end: 'closed' })
  })

  it('comes a second after the last event where the server keeps the response open', async () => {
    const stream = openStream()
    const reading = readEventStream(readerOf(stream), taking().take, LIMITS)
    stream.send('data: ended\n\n')
    await vi.advanceTimersByTimeAsync(999)
    expect(stream.closed).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(await reading).toEqual({ progress: 'ended', end: 'closed' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it.each([
    ['without end', () => 'data: writing\n\n'.repeat(700), 'writing'],
    ['of pings', () => ': ping\n\n'.repeat(1500), 'waiting'],
    ['of one line without end', () => 'x'.repeat(10_001), 'waiting'],
  ])('comes at the limit of a stream %s, and closes the connection', async (_name, bytes, progress) => {
    const stream = openStream()
    stream.send(bytes())
    expect(await readEventStream(readerOf(stream), taking().take, LIMITS)).toEqual({ progress, end: 'over_limit' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it('comes at the limit of one event, however many bytes the stream may have', async () => {
    const stream = openStream()
    stream.send(`data: ${'x'.repeat(9 * 1024 * 1024)}`)
    const limits = { ...LIMITS, maximumBytes: 64 * 1024 * 1024 }
    expect(await readEventStream(readerOf(stream), taking().take, limits)).toEqual({
      progress: 'waiting',
      end: 'over_limit',
    })
  })
})
