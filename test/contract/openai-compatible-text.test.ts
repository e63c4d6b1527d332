import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { drawPng } from '../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { gone, rejected, rejectedByDeployment, unserviceable } from '../../workers/providers/failures.ts'
import { createHttp } from '../../workers/providers/http.ts'
import {
  createOpenAiCompatibleText,
  type OpenAiCompatibleTextDependencies,
} from '../../workers/providers/openai-compatible/text.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { written } from '../support/vendors/written.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'sk-CANARY-key'
const fixture = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`./fixtures/openai-compatible/${name}.json`, import.meta.url), 'utf8'))

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

type Setting = Partial<OpenAiCompatibleTextDependencies> & { timeoutMs?: number; signal?: AbortSignal }

const textMessages = (text: string): TextRequest['messages'] => [{ role: 'user', parts: [{ type: 'text', text }] }]

function generate(changes: Partial<TextRequest> = {}, { timeoutMs = PATIENCE_MS, signal, ...setting }: Setting = {}) {
  const provider = createOpenAiCompatibleText({
    baseUrl: `${upstream.url}/v1`,
    apiKey: API_KEY,
    upstreamModel: 'simulated-chat',
    http: createHttp({ fetch }),
    ...setting,
  })
  const request = { messages: textMessages('Hello, tram!'), max_output_tokens: 200, ...changes }
  return provider.generateText(request, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
}

async function generated(changes: Partial<TextRequest> = {}, setting: Setting = {}) {
  const outcome = await generate(changes, setting)
  if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
  return outcome.output
}

/** Returns the fields of the first call from the simulated vendor's log, which stores each as JSON. */
const sent = (): Record<string, unknown> =>
  Object.fromEntries(Object.entries(upstream.calls[0]?.fields ?? {}).map(([name, json]) => [name, JSON.parse(json)]))

function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

/** Answers with the documented completion and another choice. */
function answerWithChoice(finishReason: string | null, message: Record<string, unknown>) {
  answerWith({ ...fixture('completion'), choices: [{ index: 0, finish_reason: finishReason, message }] })
}

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

const WEATHER_TOOL = {
  name: 'get_weather',
  description: 'Returns the weather.',
  parameters: written({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }),
}

describe('request', () => {
  test('sends only model, message and limit for the smallest request', async () => {
    await generated()
    expect(sent()).toEqual({
      model: 'simulated-chat',
      messages: [{ role: 'user', content: 'Hello, tram!' }],
      max_completion_tokens: 200,
    })
    expect(upstream.calls).toHaveLength(1)
  })

  test.each([
    ['max_completion_tokens', { max_completion_tokens: 200 }],
    ['max_tokens', { max_tokens: 200 }],
    ['both', { max_tokens: 200, max_completion_tokens: 200 }],
  ] as const)('sends the output limit as %s', async (outputLimit, fields) => {
    answerWith(fixture('completion'))
    await generated({}, { outputLimit })
    const { model, messages, ...limits } = sent()
    expect([model, messages]).toBeDefined()
    expect(limits).toEqual(fields)
  })

  test('sends every option under its name in the wire format', async () => {
    await generated({
      system: 'Be brief.',
      tools: [WEATHER_TOOL],
      tool_choice: { name: 'get_weather' },
      response_format: { type: 'json_schema', name: 'weather', schema: written({ type: 'object' }) },
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      stop_sequences: ['END'],
      seed: 7,
      presence_penalty: 0.1,
      frequency_penalty: -0.1,
    })
    expect(sent()).toMatchObject({
      messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }],
      tools: [{ type: 'function', function: { ...WEATHER_TOOL, parameters: WEATHER_TOOL.parameters.toJSON() } }],
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
      response_format: { type: 'json_schema', json_schema: { name: 'weather', schema: { type: 'object' } } },
      temperature: 0.5,
      top_p: 0.9,
      stop: ['END'],
      seed: 7,
      presence_penalty: 0.1,
      frequency_penalty: -0.1,
    })
    expect(sent()).not.toHaveProperty('top_k')
  })

  test('applies the deployment’s settings for top_k, the developer role and a missing key', async () => {
    answerWith(fixture('completion'))
    await generated({ system: 'Be brief.', top_k: 40 }, { sendTopK: true, systemRole: 'developer', apiKey: undefined })
    expect(sent()).toMatchObject({ top_k: 40, messages: [{ role: 'developer' }, { role: 'user' }] })
  })

  test('sends strict, one call at a time, the format’s description and a verbosity', async () => {
    answerWith(fixture('completion'))
    const schema = written({ type: 'object' })
    await generated(
      {
        tools: [{ ...WEATHER_TOOL, strict: true }],
        parallel_tool_calls: false,
        response_format: { type: 'json_schema', name: 'n', description: 'D', schema, strict: true },
        verbosity: 'high',
      },
      { carried: { send_verbosity: true } },
    )
    expect(sent()).toMatchObject({
      tools: [{ function: { ...WEATHER_TOOL, parameters: WEATHER_TOOL.parameters.toJSON(), strict: true } }],
      parallel_tool_calls: false,
      response_format: { json_schema: { name: 'n', description: 'D', schema: schema.toJSON(), strict: true } },
      verbosity: 'high',
    })
    expect(sent()).not.toHaveProperty('tool_choice')
  })

  test('sends none of them by default, and leaves a verbosity to another deployment', async () => {
    answerWith(fixture('completion'))
    await generated({ tools: [WEATHER_TOOL] })
    for (const name of ['parallel_tool_calls', 'verbosity', 'strict'])
      expect(JSON.stringify(sent())).not.toContain(name)
    expect(await generate({ verbosity: 'low' })).toEqual(unserviceable('not sent: a verbosity other than "medium"'))
  })

  const LUNA = 'gpt-6-luna'
  const PRO = { upstreamModel: LUNA, reasoningEffort: 'high', lowestReasoningEffort: 'none' } as const

  test.each<[limit: number, setting: Setting, effort: string | undefined]>([
    [200, {}, undefined],
    [200, { upstreamModel: LUNA, reasoningEffort: 'none' }, 'none'],
    [200, { upstreamModel: LUNA, reasoningEffort: 'high' }, 'low'],
    [200, PRO, 'none'],
    [4096, PRO, 'low'],
    [16_384, PRO, 'medium'],
    [32_768, PRO, 'high'],
    [65_536, { upstreamModel: LUNA, reasoningEffort: 'none' }, 'none'],
  ])('limits reasoning within %i output tokens with %j to %s', async (limit, setting, effort) => {
    await generated({ max_output_tokens: limit }, setting)
    expect(sent()['reasoning_effort']).toBe(effort)
  })

  const sampled = { temperature: 0.5, top_p: 0.9, presence_penalty: 0.1, frequency_penalty: -0.1, seed: 7 }

  test.each<[limit: number, setting: Setting, isSent: boolean]>([
    [200, {}, true],
    [200, { sampling: 'none' }, false],
    [200, PRO, true],
    [4096, PRO, false],
    [4096, { ...PRO, sampling: 'none' }, false],
    [4096, { reasoningEffort: 'high', sampling: 'full' }, true],
  ])('within %i output tokens with %j, sends the sampling options: %s', async (limit, setting, isSent) => {
    await generated({ ...sampled, max_output_tokens: limit }, setting)
    const { temperature, top_p, presence_penalty, frequency_penalty, seed } = sent()
    const hints = { temperature, top_p, presence_penalty, frequency_penalty }
    const nothing = Object.fromEntries(Object.keys(hints).map((name) => [name, undefined]))
    expect({ ...hints, seed }).toEqual(isSent ? sampled : { ...nothing, seed: 7 })
  })

  test('sends tools without reasoning to a model that cannot combine them', async () => {
    const changes = { tools: [WEATHER_TOOL], max_output_tokens: 16_384, messages: textMessages('the weather in Rome?') }
    const output = await generated(changes, { ...PRO, reasonsWithTools: false })
    expect(output.tool_calls).toHaveLength(1)
    expect(sent()['reasoning_effort']).toBe('none')
    expect(await generate(changes, PRO)).toMatchObject(unserviceable('HTTP 400 invalid_request_error'))
  })

  test('sends the deployment’s arguments for the chat template', async () => {
    await generated({}, { chatTemplateArguments: { enable_thinking: false } })
    expect(sent()['chat_template_kwargs']).toEqual({ enable_thinking: false })
  })

  test('leaves more stop sequences than the server accepts to another deployment without a call', async () => {
    const stop_sequences = ['a', 'b', 'c', 'd', 'e']
    expect(await generate({ stop_sequences })).toEqual(unserviceable('not sent: more than 4 stop sequences'))
    expect(await generate({ stop_sequences: ['a'] }, { carried: { maximum_stop_sequences: 0 } })).toEqual(
      unserviceable('not sent: more than 0 stop sequences'),
    )
    expect(upstream.calls).toHaveLength(0)
    await generate({ stop_sequences }, { carried: { maximum_stop_sequences: 5 } })
    expect(sent()['stop']).toEqual(stop_sequences)
  })

  test('omits a tool choice without tools and replaces an unsupported schema name', async () => {
    await generated({ tool_choice: 'auto', response_format: { type: 'json_schema', name: 'äh?', schema: written({}) } })
    expect(sent()).not.toHaveProperty('tool_choice')
    expect(sent()).toMatchObject({ response_format: { json_schema: { name: 'answer' } } })
  })

  test('sends an inline image as a data URI', async () => {
    const base64 = drawPng('a tram').toString('base64')
    const image = { type: 'image', source: { kind: 'inline', media_type: 'image/png', base64 } } as const
    const output = await generated({
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'What is this?' }, image] }],
    })
    expect(output.text).toContain('a PNG of 1024 × 1024')
    expect(sent()).toMatchObject({ messages: [{ content: [{ type: 'text' }, { type: 'image_url' }] }] })
  })

  test('puts tool results first, each as a separate message', async () => {
    const output = await generated({
      tools: [WEATHER_TOOL],
      messages: [
        ...textMessages('What is the weather in Rome?'),
        {
          role: 'assistant',
          parts: [{ type: 'tool_call', id: 'call_1', name: 'get_weather', arguments_json: '{"city":"Rome"}' }],
        },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'Here it is.' },
            { type: 'tool_result', tool_call_id: 'call_1', name: 'get_weather', text: 'Sunny' },
          ],
        },
      ],
    })
    expect(sent()['messages']).toEqual([
      { role: 'user', content: 'What is the weather in Rome?' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Rome"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'Sunny' },
      { role: 'user', content: 'Here it is.' },
    ])
    expect(output.text).not.toBe('')
  })

  test.each([
    ['an image by URL', 'user', { kind: 'url', url: 'https://example.com/CANARY.png' }],
    ['an image in an assistant message', 'assistant', { kind: 'inline', media_type: 'image/png', base64: 'CANARY' }],
  ] as const)('does not send %s and leaves it to another deployment', async (_name, role, source) => {
    const outcome = await generate({ messages: [{ role, parts: [{ type: 'image', source }] }] })
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', concerns: 'request' })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
    expect(upstream.calls).toHaveLength(0)
  })

  test.each([
    ['an invalid base URL', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { apiKey: 'sk-CANARY\nkey' }],
  ])('rejects %s at creation without quoting it', (_name, setting) => {
    expect(() => generate({}, setting)).toThrow(/^(?!.*CANARY)The .* of the OpenAI-compatible server/)
  })
})

const words = (count: number, seed: string) => `${seed} ${'tram '.repeat(count)}`
const cachedOf = async (...texts: string[]) =>
  (await generated({ messages: texts.flatMap(textMessages), max_output_tokens: 64 })).usage.cached_input_tokens ?? 0

describe('answers of the simulated server', () => {
  test('reports what its prompt cache read, from 1,024 tokens on and in whole steps', async () => {
    expect(await cachedOf(words(1000, 'short'))).toBe(0)
    expect(await cachedOf(words(1000, 'short'))).toBe(0)
    expect(await cachedOf(words(5000, 'long'))).toBe(0)
    const cached = await cachedOf(words(5000, 'long'), 'And then?')
    expect(cached % 128).toBe(0)
    expect(cached).toBeGreaterThan(5000 - 128)
    expect(cached).toBeLessThanOrEqual(5003)
    expect(await cachedOf(words(5000, 'other'), 'And then?')).toBe(0)
  })

  test('returns text, usage and the server’s request id', async () => {
    const outcome = await generate()
    expect(outcome).toMatchObject({
      outcome: 'generated',
      vendorRequestId: expect.stringMatching(/^req_/),
      output: { refusal: null, tool_calls: [], finish_reason: 'stop' },
    })
  })

  test('never exceeds the output limit, hidden thinking included', async () => {
    const output = await generated(
      { messages: textMessages('Please write 300 words.'), max_output_tokens: 50 },
      { upstreamModel: 'thinking-chat' },
    )
    expect(output).toMatchObject({ finish_reason: 'length', usage: { output_tokens: 50 } })
    expect(output.usage.thinking_tokens).toBeGreaterThan(0)
  })

  test('leaves room for text when the effort follows the limit, and none when it does not', async () => {
    const hard = { messages: textMessages('Think hard: when does the last tram leave?'), max_output_tokens: 512 }
    const setting = { upstreamModel: 'gpt-6-luna' }
    expect(await generated(hard, { ...setting, reasoningEffort: 'high' })).toMatchObject({
      text: expect.stringContaining('tram'),
      usage: { thinking_tokens: 256 },
    })
    // The vendor's default effort.
    expect(await generated(hard, setting)).toMatchObject({
      text: '',
      finish_reason: 'length',
      usage: { output_tokens: 512, thinking_tokens: 512 },
    })
  })

  test('reports an empty output when the model ends without a word, and a policy’s refusal as rejected', async () => {
    expect(await generate({ messages: textMessages('please say nothing') })).toMatchObject(EMPTY)
    expect(await generate({ messages: textMessages('please block') })).toMatchObject({
      ...rejected('HTTP 400 invalid_prompt'),
    })
  })

  test('calls a tool with an object as its arguments', async () => {
    const output = await generated({ messages: textMessages('What is the weather in Rome?'), tools: [WEATHER_TOOL] })
    expect(output).toMatchObject({ text: null, finish_reason: 'tool_calls' })
    expect(output.tool_calls).toHaveLength(1)
    expect(JSON.parse(output.tool_calls[0]?.arguments_json ?? '')).toEqual({ city: 'Rome' })
  })

  test('returns JSON that conforms to the schema', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const output = await generated({ response_format: { type: 'json_schema', schema: written(schema) } })
    expect(JSON.parse(output.text ?? '')).toHaveProperty('city')
  })

  test('returns a refusal as an answer', async () => {
    const output = await generated({ messages: textMessages('please refuse') })
    expect(output).toMatchObject({ text: null, refusal: expect.stringContaining('sorry') })
  })
})

describe('documented answers', () => {
  test('counts reasoning tokens as part of the completion tokens', async () => {
    answerWith(fixture('completion'))
    expect(await generate()).toEqual({
      outcome: 'generated',
      vendorRequestId: 'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
      output: {
        text: 'Hello! How can I assist you today?',
        refusal: null,
        tool_calls: [],
        finish_reason: 'stop',
        usage: { input_tokens: 19, output_tokens: 74, thinking_tokens: 64 },
      },
    })
  })

  test.each([
    ['both parts of the prompt', { cached_tokens: 1024, cache_write_tokens: 512 }, [1024, 512]],
    ['neither where there is none', { cached_tokens: 0, cache_write_tokens: null }, [undefined, undefined]],
    ['no more than the prompt has', { cached_tokens: 9000, cache_write_tokens: 9000 }, [2006, undefined]],
  ])('counts %s that the prompt cache had a part in', async (_, details, [cached, written]) => {
    const completion = fixture('completion') as { usage: object }
    answerWith({ ...completion, usage: { prompt_tokens: 2006, completion_tokens: 3, prompt_tokens_details: details } })
    const { usage } = await generated()
    expect([usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens]).toEqual([2006, cached, written])
  })

  test('reports a forced call with finish reason tool_calls, and missing arguments as an empty object', async () => {
    answerWith(fixture('tool-calls'))
    const id: unknown = expect.stringMatching(/^call_[0-9a-f]{24}$/)
    const output = await generated()
    expect(new Set(output.tool_calls.map((call) => call.id)).size).toBe(2)
    expect(output).toMatchObject({
      finish_reason: 'tool_calls',
      tool_calls: [
        { id, name: 'get_current_weather', arguments_json: '{\n"location": "Boston, MA"\n}' },
        { id, name: 'now', arguments_json: '{}' },
      ],
    })
  })

  test('leaves vLLM’s reasoning text out of the answer', async () => {
    answerWith(fixture('vllm-reasoning'))
    const output = await generated()
    expect(output).toMatchObject({ text: '9.8 is greater.', usage: { input_tokens: 22, output_tokens: 108 } })
    expect(JSON.stringify(output)).not.toContain('CANARY')
  })

  test('translates a documented refusal', async () => {
    answerWith(fixture('refusal'))
    expect(await generated()).toMatchObject({ text: null, refusal: "I'm sorry, I cannot assist with that request." })
  })

  test('replaces characters that PostgreSQL cannot store', async () => {
    answerWithChoice('stop', { content: 'a\0b\ud800c' })
    expect((await generated()).text).toBe('ab\ufffdc')
  })

  test.each([
    ['content_filter', { content: 'Half' }, 'content_filter'],
    ['eos', { content: 'Done' }, 'stop'],
    ['length', { content: 'Hal' }, 'length'],
  ])('translates finish reason %s', async (reason, message, expected) => {
    answerWithChoice(reason, message)
    expect((await generated()).finish_reason).toBe(expected)
  })

  test('drops a tool call that the limit has truncated', async () => {
    const cut = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":' } }
    answerWithChoice('length', { content: 'I will call.', tool_calls: [cut] })
    expect(await generated()).toMatchObject({ text: 'I will call.', tool_calls: [], finish_reason: 'length' })
  })
})

describe('complete answers without text', () => {
  test('an answer that the caller’s own stop sequence ended before its first word is complete and has usage', async () => {
    expect(await generated({ stop_sequences: ['Hello'] })).toMatchObject({
      text: '',
      refusal: null,
      tool_calls: [],
      finish_reason: 'stop',
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    })
  })

  test.each([
    ['the limit before any text', 'length', { content: null }, '', 'length'],
    ['the limit within thinking', 'length', { content: null, reasoning_content: 'CANARY' }, '', 'length'],
    [
      'the limit within a call',
      'length',
      { content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":' } }] },
      '',
      'length',
    ],
    ['the limit of the context before any text', 'model_length', { content: null }, '', 'length'],
    ['the model after blank text', 'stop', { content: ' \n' }, ' \n', 'stop'],
  ])('an answer that ended by %s is complete', async (_name, reason, message, text, expected) => {
    answerWithChoice(reason, message)
    expect(await generated()).toMatchObject({ text, refusal: null, tool_calls: [], finish_reason: expected })
  })
})

describe('withheld answers', () => {
  test.each([
    ['content_filter', { content: null, refusal: '' }],
    ['content_filter', { content: ' ' }],
  ])('%s of %j is a refusal with usage, since the vendor bills it', async (reason, message) => {
    answerWithChoice(reason, message)
    expect(await generated()).toMatchObject({
      text: null,
      refusal: 'The answer was withheld by the model’s content filter.',
      tool_calls: [],
      finish_reason: 'content_filter',
      usage: { input_tokens: 19, output_tokens: 74 },
    })
  })
})

describe('unusable answers', () => {
  test.each([
    ['null', 'stop', { content: null }],
    ['empty text', 'stop', { content: '', tool_calls: [] }],
    ['a missing call', 'tool_calls', { content: null, tool_calls: [] }],
    ['an undocumented word', 'sensitive', { content: '' }],
    ['a broken answer', 'error', { content: null }],
    ['an interrupted answer', 'insufficient_system_resource', { content: '' }],
  ])('reports an empty output for %s', async (_name, reason, message) => {
    answerWithChoice(reason, message)
    expect(await generate()).toMatchObject(EMPTY)
  })

  test('reports an empty output for the simulated empty answer', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await generate()).toMatchObject({ ...EMPTY, usage: { input_tokens: expect.any(Number) as number } })
  })

  test.each([
    ['no choices', { choices: [] }],
    ['content of a new kind', { choices: [{ finish_reason: 'stop', message: { content: [{ CANARY: 1 }] } }] }],
    ['no message', { choices: [{ finish_reason: 'stop' }] }],
  ])('reports an empty output for %s, with the usage of the vendor', async (_name, change) => {
    answerWith({ ...fixture('completion'), ...change })
    expect(await generate()).toMatchObject({ ...EMPTY, usage: { input_tokens: 19, output_tokens: 74 } })
  })

  test.each([
    ['no message', { choices: [{ finish_reason: 'stop' }] }],
    ['no known reason', { choices: [{ finish_reason: 'end', message: { content: null } }] }],
  ])('takes an answer with %s for none that a stop sequence ended', async (_name, change) => {
    answerWith({ ...fixture('completion'), ...change })
    expect(await generate({ stop_sequences: ['x'] })).toMatchObject(EMPTY)
  })

  test.each([['{}'], ['[]'], ['"CANARY"'], ['7']])('leaves the outcome unknown for %s', async (body) => {
    answerWith(body)
    expect(await generate()).toMatchObject(UNKNOWN_OUTCOME)
  })
})

describe('answers that are not as documented', () => {
  const CACHED_BESIDE = { completion_tokens: 3, prompt_tokens_details: { cached_tokens: 100 } }

  // The request has two words, the answer `So far` has two.
  test.each<[string, unknown, number, number]>([
    ['no usage', undefined, 2, 2],
    ['usage without input', { completion_tokens: 3 }, 2, 3],
    ['the total for the input', { completion_tokens: 3, total_tokens: 12 }, 9, 3],
    ['the total for the output', { prompt_tokens: 9, total_tokens: 12 }, 9, 3],
    ['fractional usage', { prompt_tokens: 1.5, completion_tokens: 3 }, 1, 3],
    ['usage in text', { prompt_tokens: '9', completion_tokens: '3' }, 9, 3],
    ['negative usage', { prompt_tokens: -9, completion_tokens: -3 }, 2, 2],
    ['usage of none', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, 2, 2],
    ['usage beyond all integers', { prompt_tokens: 9, completion_tokens: 1e300 }, 9, 2],
  ])('delivers an answer with %s, and charges what it has at least', async (_name, usage, input, output) => {
    answerWith({ choices: [{ finish_reason: 'stop', message: { content: 'So far' } }], usage })
    expect(await generated()).toMatchObject({
      text: 'So far',
      usage: { input_tokens: input, output_tokens: output },
    })
  })

  test.each([
    ['a part of the output', { completion_tokens: 74, total_tokens: 93 }, 64, 74],
    ['more than the output, without a total', { completion_tokens: 10 }, 64, 74],
    ['more than the output, of which the total has only that', { completion_tokens: 10, total_tokens: 29 }, 64, 10],
    ['counted beside the output', { completion_tokens: 70, total_tokens: 153 }, 64, 134],
  ])('thinking is %s', async (_name, counts, reasoning_tokens, output) => {
    const usage = { prompt_tokens: 19, ...counts, completion_tokens_details: { reasoning_tokens } }
    answerWith({ choices: [{ finish_reason: 'stop', message: { content: 'So far' } }], usage })
    expect((await generated()).usage).toMatchObject({ input_tokens: 19, output_tokens: output })
  })

  test.each([
    ['OpenAI', { prompt_tokens_details: { cached_tokens: 10 } }],
    ['DeepSeek', { prompt_cache_hit_tokens: 10, prompt_cache_miss_tokens: 9 }],
    ['Kimi', { cached_tokens: 10 }],
    ['both, once', { prompt_tokens_details: { cached_tokens: 10 }, prompt_cache_hit_tokens: 10, cached_tokens: 10 }],
  ])('reads the input that was cached where %s says it', async (_name, fields) => {
    const usage = { prompt_tokens: 19, completion_tokens: 2, total_tokens: 21, ...fields }
    answerWith({ choices: [{ finish_reason: 'stop', message: { content: 'So far' } }], usage })
    expect((await generated()).usage).toEqual({ input_tokens: 19, cached_input_tokens: 10, output_tokens: 2 })
  })

  test.each([
    ['beside the output, of which only the total tells', { completion_tokens: 3, total_tokens: 105 }, {}, 86, 83],
    ['all of the output, of which only the total tells', { completion_tokens: 0, total_tokens: 102 }, {}, 83, 83],
    ['none', { completion_tokens: 3, total_tokens: 22 }, {}, 3, undefined],
    ['none, as the server says', { completion_tokens: 3, total_tokens: 105 }, { reasoning_tokens: 0 }, 3, undefined],
    [
      'not known where cached input may be what the total has',
      { ...CACHED_BESIDE, total_tokens: 122 },
      {},
      3,
      undefined,
    ],
    [
      'not known either where that is less than the input',
      { completion_tokens: 3, prompt_tokens_details: { cached_tokens: 12 }, total_tokens: 34 },
      {},
      3,
      undefined,
    ],
  ])('hidden thinking is %s', async (_name, counts, details, output, thinking) => {
    const usage = { prompt_tokens: 19, ...counts, completion_tokens_details: details }
    answerWith({ choices: [{ finish_reason: 'stop', message: { content: 'So far' } }], usage })
    const { input_tokens, output_tokens, thinking_tokens } = (await generated()).usage
    expect([input_tokens, output_tokens, thinking_tokens]).toEqual([19, output, thinking])
  })

  test('never charges more than the total where the input was not counted', async () => {
    const usage = {
      completion_tokens: 5,
      total_tokens: 45,
      completion_tokens_details: { reasoning_tokens: 30 },
    }
    answerWith({ choices: [{ finish_reason: 'stop', message: { content: 'So far' } }], usage })
    expect((await generated()).usage).toMatchObject({ input_tokens: 10, output_tokens: 35 })
  })

  test.each([
    ['[CANARY', '[CANARY'],
    [[1, 'CANARY'], '[1,"CANARY"]'],
    [7, '7'],
    [{ a: 1 }, '{"a":1}'],
    [null, '{}'],
    ['', '{}'],
    [' \n', '{}'],
  ])('delivers the arguments %j as they were written', async (given, expected) => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: given } }
    answerWithChoice('tool_calls', { content: null, tool_calls: [call] })
    expect(await generated()).toMatchObject({ tool_calls: [{ name: 'f', arguments_json: expected }] })
  })

  test.each([
    [
      'parts',
      [
        { type: 'thinking', thinking: 'CANARY' },
        { type: 'text', text: 'So ' },
        { type: 'text', text: 'far' },
      ],
    ],
    ['parts of which one has no type', [{ text: 'So far' }, 7, null, { type: 'reference' }]],
  ])('joins the text of %s', async (_name, content) => {
    answerWithChoice('stop', { content })
    expect(await generate()).toMatchObject({ output: { text: 'So far' }, mended: expect.arrayContaining(['content']) })
  })

  test.each([
    ['without a name', { id: 'c', function: { arguments: '{}' } }],
    ['that is a text', 'CANARY'],
    ['that is null', null],
  ])('a call %s costs neither text nor other calls', async (_name, call) => {
    const sound = { function: { name: 'f', arguments: '{"a":1}' } }
    answerWithChoice('tool_calls', { content: 'So far', tool_calls: [call, sound] })
    expect(await generated()).toMatchObject({ text: 'So far', tool_calls: [{ name: 'f', arguments_json: '{"a":1}' }] })
  })

  test('names the fields that were not as documented, once each and without text of the server', async () => {
    answerWith({
      choices: [{ finish_reason: 'CANARY', message: { content: 'So far', tool_calls: [7, 8] } }],
      usage: { prompt_tokens: 'CANARY' },
    })
    const outcome = await generate()
    expect(outcome).toMatchObject({ mended: ['finish_reason', 'tool_calls', 'prompt_tokens'] })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })
})

describe('definite failures before any work', () => {
  test.each([
    [401, 'provider_unavailable'],
    [402, 'provider_unavailable'],
    [403, 'provider_unavailable'],
    [404, 'provider_unavailable'],
    [405, 'provider_unavailable'],
    [429, 'provider_unavailable'],
  ])('fails definitely on %i with %s', async (status, code) => {
    answerWith({ error: { message: 'CANARY', type: 'some_type', code: null } }, status)
    expect(await generate()).toEqual({ ...DEFINITE, code, reason: `HTTP ${status} some_type` })
  })

  test('keeps the code of a documented error, but not its message', async () => {
    answerWith(fixture('error-context-length'), 400, { 'x-request-id': 'req_1' })
    expect(await generate()).toEqual({
      ...unserviceable('HTTP 400 context_length_exceeded'),
      vendorRequestId: 'req_1',
    })
    answerWith(fixture('error-vllm'), 404)
    expect(await generate()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 404 NotFoundError' })
  })

  test.each([400, 415, 422])('a %i for an unknown reason is rejected by this deployment only', async (status) => {
    answerWith({ error: { message: 'CANARY', type: 'some_type', param: 'messages', code: null } }, status)
    expect(await generate()).toEqual(rejectedByDeployment(`HTTP ${status} some_type`))
  })

  test('a model that was shut down is definitely gone', async () => {
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', code: 'model_not_found' } }, 410)
    expect(await generate()).toEqual(gone('HTTP 410 model_not_found'))
  })

  test.each([
    ['integer_above_max_value', 'max_completion_tokens'],
    ['invalid_value', 'max_tokens'],
    ['array_above_max_length', 'stop'],
    ['unsupported_parameter', 'stop'],
    ['unsupported_value', 'temperature'],
    // GPT-6 with function tools.
    [null, 'reasoning_effort'],
  ])('leaves what only this model does not support to another deployment: %s of %s', async (code, param) => {
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', param, code } }, 400)
    expect(await generate()).toEqual(unserviceable(`HTTP 400 ${code ?? 'invalid_request_error'}`))
  })

  test.each([
    'content_policy_violation',
    'invalid_prompt',
    'content_filter',
    'cyber_policy',
    'bio_policy',
    'misalignment_policy_violation',
  ])('does not offer content that violates a policy to another deployment: %s', async (code) => {
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', code } }, 400)
    expect(await generate()).toEqual(rejected(`HTTP 400 ${code}`))
  })

  test.each<[string, Partial<TextRequest>, Setting]>([
    ['an output limit above the model’s', { max_output_tokens: 65_536 }, { upstreamModel: 'gpt-4.1-mini' }],
    ['a temperature while it reasons', { temperature: 0.5 }, { upstreamModel: 'gpt-6-luna' }],
    ['a stop sequence while it reasons', { stop_sequences: ['END'] }, { upstreamModel: 'gpt-6-luna' }],
    ['max_tokens', {}, { upstreamModel: 'gpt-6-luna', outputLimit: 'max_tokens' }],
    ['an effort that the model does not have', {}, { upstreamModel: 'gpt-6-astra', reasoningEffort: 'none' }],
    [
      'more than 4 stop sequences',
      { stop_sequences: ['a', 'b', 'c', 'd', 'e'] },
      { carried: { maximum_stop_sequences: 9 } },
    ],
  ])('the simulated vendor rejects %s, which another deployment may accept', async (_name, changes, setting) => {
    expect(await generate(changes, setting)).toMatchObject({ code: 'provider_unavailable', concerns: 'request' })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })

  test('does not blame the input for an account problem with status 400', async () => {
    answerWith({ error: { code: 'billing_hard_limit_reached' } }, 400)
    const outcome = await generate()
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_unavailable' })
    expect(outcome).not.toHaveProperty('concerns')
  })

  test('leaves an unsupported field to another deployment without blaming this one', async () => {
    const outcome = await generate({ top_k: 5 }, { sendTopK: true })
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', concerns: 'request' })
  })

  test('passes on the retry-after of a 429', async () => {
    answerWith({ error: { code: 'rate_limit_exceeded' } }, 429, { 'retry-after': '7' })
    expect(await generate()).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 7 })
  })

  test('fails definitely while the server loads its model', async () => {
    answerWith(fixture('error-llama-loading'), 503)
    expect(await generate()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      reason: 'HTTP 503 unavailable_error',
    })
  })

  test('the simulated server rejects a wrong key', async () => {
    const outcome = await generate({}, { apiKey: 'sk-CANARY-wrong' })
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 401 invalid_api_key' })
  })

  test('fails definitely, without a call, when aborted beforehand or without time left', async () => {
    expect(await generate({}, { signal: AbortSignal.abort() })).toMatchObject(DEFINITE)
    expect(await generate({}, { timeoutMs: 0 })).toMatchObject(DEFINITE)
    expect(upstream.calls).toHaveLength(0)
  })
})

describe('ambiguous failures after exactly one call', () => {
  test.each<[FaultRuleInput, string]>([
    [
      { fault: 'status', status: 500, body: { error: { message: 'CANARY', type: 'server_error' } } },
      'HTTP 500 server_error',
    ],
    [{ fault: 'status', status: 503, body: '<html>CANARY' }, 'HTTP 503'],
    [{ fault: 'status', status: 408, body: {} }, 'HTTP 408'],
    [{ fault: 'status', status: 307, body: {}, headers: { location: '/CANARY' } }, 'HTTP 307'],
    [{ fault: 'hang' }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
    [{ fault: 'truncatedJson' }, 'HTTP 200 with a malformed completion'],
    [{ fault: 'hugeBody' }, 'HTTP 200, response larger than 16777216 bytes'],
  ])('leaves the outcome unknown after one call: %o', async (rule, reason) => {
    upstream.setFaults([rule])
    const outcome = await generate({}, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(outcome.outcome === 'failed' && outcome.reason).toMatch(new RegExp(`^(${reason})$`))
    expect(upstream.calls).toHaveLength(1)
  })
})
