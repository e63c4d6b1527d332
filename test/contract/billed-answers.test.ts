import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { jsonText } from '#shared/digests/canonical-json.ts'
import { chatCompletionResult, chatCompletionResultSchema } from '#shared/operations/text/chat-result.ts'
import { messageResult, messageResultSchema } from '#shared/operations/text/message-result.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { createAnthropicText } from '../../workers/providers/anthropic/text.ts'
import type { StreamProgress } from '../../workers/providers/event-stream.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../workers/providers/openai-compatible/text.ts'
import { createProviderFetch } from '../../workers/providers/provider-fetch.ts'
import { PATIENCE_MS } from '../support/patience.ts'

/*
 * Answers that vendors bill and that are not as documented: complete texts with other finish reasons, calls without ids,
 * and what vendors say of the sequence that ended an answer.
 */

const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'When does the tram leave?' }] }],
  max_output_tokens: 512,
  stop_sequences: ['END', 'STOP'],
}
const FACTS = { id: '1', created: 1, model: 'model', includeThoughtSignatures: false }

const answering =
  (body: unknown): SendHttp =>
  async () => ({
    outcome: 'response',
    status: 200,
    headers: new Headers(),
    bytes: Buffer.from(JSON.stringify(body)),
  })
const streaming =
  (events: readonly unknown[]): SendHttp =>
  async (_, { onEvent }) => {
    let streamed: StreamProgress = 'waiting'
    for (const event of events) streamed = onEvent?.(event === '[DONE]' ? event : JSON.stringify(event)) ?? 'unusable'
    return { outcome: 'response', status: 200, headers: new Headers(), bytes: new Uint8Array(), streamed }
  }

const chunk = (delta: object) => ({ choices: [{ index: 0, delta, finish_reason: null }] })

interface Ending {
  readonly text?: string
  readonly reason?: unknown
  /** What the vendor says beside the reason. */
  readonly said?: object
  readonly calls?: readonly object[]
}

/** How each kind of vendor answers, as a body or as events. */
const VENDORS = {
  'an OpenAI-style server': ({ text = 'At nine.', reason, said, calls }: Ending) =>
    answering({
      choices: [{ index: 0, finish_reason: reason, ...said, message: { content: text, tool_calls: calls } }],
      usage: { prompt_tokens: 9, completion_tokens: 5 },
    }),
  'an OpenAI-style server, streamed': ({ text = 'At nine.', reason, said, calls }: Ending) =>
    streaming([
      { choices: [{ index: 0, finish_reason: null, delta: { role: 'assistant', content: text } }] },
      ...(calls ?? []).map((call, index) => ({ choices: [{ index: 0, delta: { tool_calls: [{ index, ...call }] } }] })),
      { choices: [{ index: 0, finish_reason: reason, ...said, delta: {} }] },
      { choices: [], usage: { prompt_tokens: 9, completion_tokens: 5 } },
      '[DONE]',
    ]),
  Anthropic: ({ text = 'At nine.', reason, said }: Ending) =>
    answering({
      content: [{ type: 'text', text }],
      stop_reason: reason,
      ...said,
      usage: { input_tokens: 9, output_tokens: 5 },
    }),
  'Anthropic, streamed': ({ text = 'At nine.', reason, said }: Ending) =>
    streaming([
      { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 9, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
      { type: 'message_delta', delta: { stop_reason: reason, ...said }, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    ]),
}
type Vendor = keyof typeof VENDORS
const isClaude = (vendor: Vendor) => vendor.startsWith('Anthropic')

/** Returns what a caller of each dialect receives. */
async function results(vendor: Vendor, ending: Ending) {
  const connection = { baseUrl: 'http://vendor.test', apiKey: 'key', http: VENDORS[vendor](ending) }
  const provider = isClaude(vendor)
    ? createAnthropicText({ ...connection, upstreamModel: 'claude-sonnet-4-5' })
    : createOpenAiCompatibleText({ ...connection, upstreamModel: 'model' })
  const outcome = await provider.generateText(REQUEST, { timeoutMs: 60_000 })
  if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
  const chat = chatCompletionResultSchema.parse(JSON.parse(jsonText(chatCompletionResult(FACTS, outcome.output))))
  const message = messageResultSchema.parse(JSON.parse(jsonText(messageResult(FACTS, outcome.output))))
  const [choice] = chat.choices
  if (choice === undefined) throw new Error('a completion has a choice')
  return { choice, message, usage: outcome.output.usage, mended: outcome.mended }
}

const OPENAI_STYLE = ['an OpenAI-style server', 'an OpenAI-style server, streamed'] as const
const CLAUDE = ['Anthropic', 'Anthropic, streamed'] as const

describe.each(OPENAI_STYLE)('B1: a complete text of %s', (vendor) => {
  it.each<[unknown, 'stop' | 'length' | 'content_filter', boolean]>([
    ['model_length', 'length', false],
    ['max_output_tokens', 'length', true],
    ['insufficient_system_resource', 'length', true],
    ['abort', 'length', true],
    ['error', 'length', true],
    ['end', 'stop', true],
    ['eos_token', 'stop', true],
    ['stop_sequence', 'stop', true],
    ['sensitive', 'content_filter', true],
    ['', 'stop', false],
    [null, 'stop', false],
    [undefined, 'stop', false],
    [7, 'stop', true],
  ])('is delivered and charged with finish reason %j as %s', async (reason, expected, isMended) => {
    const { choice, usage, mended } = await results(vendor, { reason })
    expect(choice).toMatchObject({ message: { content: 'At nine.' }, finish_reason: expected })
    expect(usage).toEqual({ input_tokens: 9, output_tokens: 5 })
    expect(mended).toEqual(isMended ? ['finish_reason'] : undefined)
  })
})

describe.each(OPENAI_STYLE)('B2: a call of %s', (vendor) => {
  it.each<[string, object, string]>([
    ['an empty id', { id: '', function: { name: 'now', arguments: '{"a":1}' } }, '{"a":1}'],
    ['no id', { function: { name: 'now', arguments: '{"a":1}' } }, '{"a":1}'],
    ['null as its id', { id: null, function: { name: 'now', arguments: '{"a":1}' } }, '{"a":1}'],
    ['a number as its id', { id: 7, function: { name: 'now', arguments: '{"a":1}' } }, '{"a":1}'],
    ['null as its arguments', { id: 'call_1', function: { name: 'now', arguments: null } }, '{}'],
    ['no arguments', { id: 'call_1', function: { name: 'now' } }, '{}'],
    ['an object as its arguments', { id: 'call_1', function: { name: 'now', arguments: { a: 1 } } }, '{"a":1}'],
    ['null as its type', { type: null, function: { name: 'now', arguments: '{"a":1}' } }, '{"a":1}'],
  ])('with %s is delivered with an id', async (_name, call, expected) => {
    const { choice, message } = await results(vendor, { text: '', reason: 'tool_calls', calls: [call] })
    expect(choice.finish_reason).toBe('tool_calls')
    expect(choice.message.tool_calls).toMatchObject([
      { id: expect.stringMatching(/^call_[0-9a-f]{24}$/) as string, function: { name: 'now', arguments: expected } },
    ])
    expect(message).toMatchObject({ stop_reason: 'tool_use', content: [{ type: 'tool_use', name: 'now' }] })
    expect(JSON.parse(jsonText(message)).content[0].input).toEqual(JSON.parse(expected))
  })

  it('has ids that are unique where the vendor repeats them from answer to answer', async () => {
    const call = { id: 'bash:0', function: { name: 'bash', arguments: '{}' } }
    const ids = new Set<string | undefined>()
    for (let turn = 1; turn <= 3; turn += 1) {
      const { choice } = await results(vendor, { reason: 'tool_calls', calls: [call] })
      ids.add(choice.message.tool_calls?.[0]?.id)
    }
    expect(ids.size).toBe(3)
  })

  it('has arguments that are no object as they were written, under raw_arguments in a message', async () => {
    const call = { id: 'call_1', function: { name: 'bash', arguments: 'ls -l' } }
    const { choice, message } = await results(vendor, { text: '', reason: 'tool_calls', calls: [call] })
    expect(choice.message.tool_calls?.[0]?.function.arguments).toBe('ls -l')
    expect(JSON.parse(jsonText(message)).content[0].input).toEqual({ raw_arguments: 'ls -l' })
  })
})

describe('B3: the stop sequence that ended an answer', () => {
  it.each<[string, Vendor, Ending]>([
    ...CLAUDE.map((vendor): [string, Vendor, Ending] => [
      'stop_sequence',
      vendor,
      { reason: 'stop_sequence', said: { stop_sequence: 'END' } },
    ]),
    ...OPENAI_STYLE.flatMap((vendor): [string, Vendor, Ending][] => [
      ['vLLM’s stop_reason', vendor, { reason: 'stop', said: { stop_reason: 'END' } }],
      ['SGLang’s matched_stop', vendor, { reason: 'stop', said: { matched_stop: 'END' } }],
    ]),
  ])('is told in both dialects after %s of %s', async (_name, vendor, ending) => {
    const { choice, message, mended } = await results(vendor, ending)
    expect(choice).toMatchObject({ finish_reason: 'stop', stop_reason: 'END', message: { content: 'At nine.' } })
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'END' })
    expect(mended).toBeUndefined()
  })

  it.each<[string, Vendor, Ending]>([
    ...CLAUDE.flatMap((vendor): [string, Vendor, Ending][] => [
      ['a text that the caller did not write', vendor, { reason: 'end_turn', said: { stop_sequence: '</s>' } }],
      ['one of another vendor', vendor, { reason: 'end_turn', said: { stop_sequence: 'END' } }],
      ['null', vendor, { reason: 'end_turn', said: { stop_sequence: null } }],
      ['a number', vendor, { reason: 'end_turn', said: { stop_sequence: 7 } }],
    ]),
    ...OPENAI_STYLE.flatMap((vendor): [string, Vendor, Ending][] => [
      ['a text that the caller did not write', vendor, { reason: 'stop', said: { stop_reason: '<|im_end|>' } }],
      ['the id of a token', vendor, { reason: 'stop', said: { stop_reason: 128_009, matched_stop: 128_009 } }],
      ['null', vendor, { reason: 'stop', said: { stop_reason: null, matched_stop: null } }],
      ['nothing', vendor, { reason: 'stop' }],
    ]),
  ])('is not told after %s of %s', async (_name, vendor, ending) => {
    const { choice, message } = await results(vendor, ending)
    expect(choice.finish_reason).toBe('stop')
    expect(choice).not.toHaveProperty('stop_reason')
    expect(message).toMatchObject({ stop_reason: 'end_turn', stop_sequence: null })
    expect(JSON.stringify([choice, message])).not.toMatch(/im_end|<\/s>|128009/)
  })

  it.each(OPENAI_STYLE)('does not stand for the limit or the calls that ended an answer of %s', async (vendor) => {
    const cut = await results(vendor, { reason: 'length', said: { stop_reason: 'END' } })
    expect(cut.choice).not.toHaveProperty('stop_reason')
    expect(cut.message).toMatchObject({ stop_reason: 'max_tokens', stop_sequence: null })
    const call = { id: 'call_1', function: { name: 'now', arguments: '{}' } }
    const called = await results(vendor, { reason: 'stop', said: { stop_reason: 'END' }, calls: [call] })
    expect(called.choice.finish_reason).toBe('tool_calls')
    expect(called.message.stop_reason).toBe('tool_use')
  })
})

describe('B4: the pieces of a text and of the arguments of a call', () => {
  it('are read where they are numbers, as which Cloudflare sends some tokens', async () => {
    const http = streaming([
      ...['It costs $', 0.005, ' [', 1, '].'].map((content) => chunk({ content })),
      ...['{"a":', 6, '}'].map((json) =>
        chunk({ tool_calls: [{ index: 0, function: { name: 'f', arguments: json } }] }),
      ),
      { choices: [{ index: 0, finish_reason: 'tool_calls', delta: {} }] },
      '[DONE]',
    ])
    const provider = createOpenAiCompatibleText({ baseUrl: 'http://vendor.test', upstreamModel: 'model', http })
    expect(await provider.generateText(REQUEST, { timeoutMs: 60_000 })).toMatchObject({
      output: { text: 'It costs $0.005 [1].', tool_calls: [{ name: 'f', arguments_json: '{"a":6}' }] },
      mended: expect.arrayContaining(['delta.content']) as unknown,
    })
  })

  it.each([...OPENAI_STYLE, ...CLAUDE])('are read where the text is a number: %s', async (vendor) => {
    const { choice, mended } = await results(vendor, {
      text: 42 as never,
      reason: isClaude(vendor) ? 'end_turn' : 'stop',
    })
    expect(choice.message.content).toBe('42')
    expect(mended).toHaveLength(1)
  })

  it('are read where those of a call of Claude are numbers', async () => {
    const http = streaming([
      { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 9, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } },
      ...['{"a":', 6, '}'].map((piece) => ({ type: 'content_block_delta', index: 0, delta: { partial_json: piece } })),
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    ])
    const provider = createAnthropicText({
      baseUrl: 'http://vendor.test',
      apiKey: 'key',
      upstreamModel: 'claude-sonnet-4-5',
      http,
    })
    expect(await provider.generateText(REQUEST, { timeoutMs: 60_000 })).toMatchObject({
      output: { tool_calls: [{ name: 'f', arguments_json: '{"a":6}' }] },
    })
  })
})

describe('B5: an answer whose content type, or whose end, is that of another kind', () => {
  const usage = { prompt_tokens: 9, completion_tokens: 5 }
  const whole = JSON.stringify({ choices: [{ finish_reason: 'stop', message: { content: 'At nine.' } }], usage })
  const events = [
    { choices: [{ index: 0, delta: { content: 'At nine.' }, finish_reason: 'stop' }] },
    { choices: [], usage },
  ]
  const streamed = `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`

  it.each<[string, string | undefined, string]>([
    ['events without a content type', undefined, streamed],
    ['events as plain text', 'text/plain; charset=utf-8', streamed],
    ['events as JSON', 'application/json', `: a comment\n\n${streamed}`],
    ['a whole answer as events', 'text/event-stream', whole],
    ['a whole answer in one event', 'text/event-stream', `data: ${whole}\n\ndata: [DONE]\n\n`],
    [
      'a whole answer behind its pieces',
      'text/event-stream',
      `${streamed.slice(0, streamed.indexOf('\n\n'))}\n\ndata: ${whole}\n\n`,
    ],
    ['a whole answer as events, with their end', 'text/event-stream; charset=utf-8', `${whole}\n\ndata: [DONE]\n\n`],
    ['a whole answer with the end of events', 'application/json', `${whole}data:[DONE]`],
    ['a whole answer after blanks', 'application/json', `\n\n\n${whole}\n`],
  ])('is delivered and charged: %s', async (_, contentType, body) => {
    const server = createServer((request, response) => {
      request.resume()
      response.writeHead(200, contentType === undefined ? {} : { 'content-type': contentType })
      // In two packets, the first of which tells nothing.
      response.write(body.slice(0, 1))
      setImmediate(() => response.end(body.slice(1)))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
    const http = createHttp({ fetch: createProviderFetch() })
    const provider = createOpenAiCompatibleText({ baseUrl, http, upstreamModel: 'model' })
    const outcome = await provider.generateText(REQUEST, { timeoutMs: PATIENCE_MS })
    server.closeAllConnections()
    server.close()
    expect(outcome).toMatchObject({
      outcome: 'generated',
      output: { text: 'At nine.', usage: { input_tokens: 9, output_tokens: 5 } },
    })
    expect(outcome).not.toHaveProperty('mended')
  })
})
