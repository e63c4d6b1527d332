import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Effort } from '#shared/operations/text/effort.ts'
import { type TextRequest, textOutputSchema } from '#shared/operations/text/text-request.ts'
import { drawPng } from '../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createAnthropicText } from '../../workers/providers/anthropic/text.ts'
import {
  gone,
  rejectedByDeployment,
  unavailable,
  unserviceable,
  withheldOutput,
} from '../../workers/providers/failures.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { written } from '../support/vendors/written.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'sk-ant-CANARY_key_0f2c'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/anthropic/${name}.json`, import.meta.url), 'utf8'))

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

interface Setting {
  baseUrl?: string
  key?: string
  model?: string
  acceptsSampling?: boolean
  effort?: Effort
  thinking?: 'adaptive' | 'disabled'
  http?: SendHttp
  timeoutMs?: number
  signal?: AbortSignal
}

const textMessage = (text: string, role: 'user' | 'assistant' = 'user') => ({
  role,
  parts: [{ type: 'text' as const, text }],
})
const REQUEST: TextRequest = { messages: [textMessage('When does the CANARY tram leave?')], max_output_tokens: 512 }
const WEATHER_TOOL = {
  name: 'get_weather',
  description: 'Returns the weather of a city',
  parameters: written({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }),
}

function generate(changes: Partial<TextRequest> = {}, setting: Setting = {}) {
  const provider = createAnthropicText({
    baseUrl: setting.baseUrl ?? upstream.url,
    apiKey: setting.key ?? API_KEY,
    upstreamModel: setting.model ?? 'claude-sonnet-4-5',
    http: setting.http ?? createHttp({ fetch }),
    acceptsSampling: setting.acceptsSampling,
    effort: setting.effort,
    thinking: setting.thinking,
  })
  const { timeoutMs = PATIENCE_MS, signal } = setting
  return provider.generateText({ ...REQUEST, ...changes }, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
}

async function generated(changes: Partial<TextRequest> = {}, setting: Setting = {}) {
  const outcome = await generate(changes, setting)
  if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
  return textOutputSchema.parse(outcome.output)
}

function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

/** Sends a request and returns the top-level fields that the simulated vendor received. */
async function sent(changes: Partial<TextRequest>, setting: Setting = {}): Promise<Record<string, unknown>> {
  await generate(changes, setting)
  expect(upstream.calls[0]?.status).toBe(200)
  const fields = upstream.calls[0]?.fields ?? {}
  return Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, JSON.parse(text)]))
}

const withReason = (stopReason: string | null, text = 'So far') => ({
  content: [{ type: 'text', text }],
  stop_reason: stopReason,
  usage: { input_tokens: 3, output_tokens: 2 },
})

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('request', () => {
  test('sends only model, limit, system and messages for a plain request', async () => {
    expect(await sent({ system: 'Be brief.' })).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 512,
      system: 'Be brief.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'When does the CANARY tram leave?' }] }],
    })
    expect(upstream.calls).toHaveLength(1)
  })

  test.each<[limit: number, model: string, setting: Setting, fields: object]>([
    [512, 'claude-sonnet-4-5', {}, {}],
    [512, 'claude-sonnet-4-5-20250929', {}, {}],
    [512, 'claude-opus-4-8', {}, {}],
    [512, 'claude-opus-4-8', { effort: 'high' }, { output_config: { effort: 'low' } }],
    [512, 'claude-sonnet-5-5', {}, { output_config: { effort: 'low' } }],
    [16_384, 'claude-sonnet-5-5', { effort: 'high' }, { output_config: { effort: 'medium' } }],
    [32_768, 'claude-sonnet-5-5', {}, {}],
    [32_768, 'claude-sonnet-5-5', { effort: 'high' }, { output_config: { effort: 'high' } }],
    [65_536, 'claude-opus-5', { effort: 'low' }, { output_config: { effort: 'low' } }],
    [512, 'claude-opus-4-8', { thinking: 'adaptive' }, {}],
    [4096, 'claude-opus-4-8', { thinking: 'adaptive' }, { thinking: { type: 'adaptive' } }],
    [
      512,
      'claude-haiku-5-5',
      { thinking: 'disabled' },
      { thinking: { type: 'disabled' }, output_config: { effort: 'low' } },
    ],
    [
      512,
      'claude-sonnet-5-5',
      { thinking: 'disabled' },
      { thinking: { type: 'between_tools' }, output_config: { effort: 'low' } },
    ],
    [
      65_536,
      'claude-sonnet-5-5',
      { thinking: 'disabled', effort: 'max' },
      { thinking: { type: 'between_tools' }, output_config: { effort: 'high' } },
    ],
    [
      65_536,
      'claude-opus-5',
      { thinking: 'disabled', effort: 'xhigh' },
      { thinking: { type: 'disabled' }, output_config: { effort: 'high' } },
    ],
    [
      65_536,
      'claude-opus-4-8',
      { thinking: 'disabled', effort: 'xhigh' },
      { thinking: { type: 'disabled' }, output_config: { effort: 'xhigh' } },
    ],
  ])('limits thinking within %i output tokens of %s with %j to %j', async (limit, model, setting, fields) => {
    const { output_config, thinking } = await sent({ max_output_tokens: limit }, { model, ...setting })
    expect({
      ...(output_config === undefined ? {} : { output_config }),
      ...(thinking === undefined ? {} : { thinking }),
    }).toEqual(fields)
  })

  test('sends an effort together with the answer’s schema', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } } }
    const changes = { response_format: { type: 'json_schema', schema: written(schema) } } as const
    expect((await sent(changes, { model: 'claude-opus-5' }))['output_config']).toMatchObject({
      effort: 'low',
      format: { type: 'json_schema' },
    })
  })

  const prefilled = [textMessage('Name a tram.'), textMessage('It is', 'assistant')]

  test.each(['claude-opus-4-6', 'claude-sonnet-5-5'])(
    'leaves an answer to be continued, which %s rejects, to another deployment without a call',
    async (model) => {
      expect(await generate({ messages: prefilled }, { model })).toEqual(
        unserviceable('not sent: a conversation that ends with the assistant’s turn'),
      )
      expect(upstream.calls).toHaveLength(0)
    },
  )

  const forced = ['required', { name: 'get_weather' }] as const

  test.each(['claude-sonnet-5-5', 'claude-opus-5-5', 'claude-fable-5-1', 'claude-mythos-5-1'])(
    'leaves a call that the caller forces, which %s rejects, to another deployment without a call',
    async (model) => {
      for (const choice of forced)
        expect(await generate({ tools: [WEATHER_TOOL], tool_choice: choice }, { model })).toEqual(
          unserviceable('not sent: a forced call of a tool'),
        )
      expect(upstream.calls).toHaveLength(0)
    },
  )

  test.each(['claude-sonnet-5', 'claude-opus-5', 'claude-fable-5', 'claude-haiku-5-5', 'claude-haiku-4-5'])(
    'sends a call that the caller forces to %s',
    async (model) => {
      for (const choice of forced) {
        upstream.clearCalls()
        const fields = await sent({ tools: [WEATHER_TOOL], tool_choice: choice }, { model })
        expect(fields).toMatchObject({ tool_choice: { type: typeof choice === 'string' ? 'any' : 'tool' } })
      }
    },
  )

  test('asks a model to think only where the caller forces no call, with which it refuses to', async () => {
    const setting = { model: 'claude-opus-4-8', thinking: 'adaptive' } as const
    for (const choice of forced) {
      upstream.clearCalls()
      const fields = await sent({ tools: [WEATHER_TOOL], tool_choice: choice, max_output_tokens: 16_384 }, setting)
      expect(fields).not.toHaveProperty('thinking')
    }
    upstream.clearCalls()
    expect(await sent({ tools: [WEATHER_TOOL], max_output_tokens: 16_384 }, setting)).toHaveProperty('thinking')
  })

  test('calls claude-sonnet-5-5 with tools that the model may leave', async () => {
    const fields = await sent({ tools: [WEATHER_TOOL], tool_choice: 'none' }, { model: 'claude-sonnet-5-5' })
    expect(fields).toMatchObject({ tool_choice: { type: 'none' } })
  })

  test('sends an answer to be continued to models before 4.6', async () => {
    expect((await sent({ messages: prefilled }, { model: 'claude-haiku-4-5' }))['messages']).toHaveLength(2)
  })

  const sampled = { temperature: 1.7, top_p: 0.9, top_k: 39.6, seed: 1, presence_penalty: 1, frequency_penalty: 1 }

  test('sends stop sequences always, and sampling only to models that accept it', async () => {
    expect(await sent({ ...sampled, stop_sequences: ['END'] })).toMatchObject({ stop_sequences: ['END'] })
    expect(Object.keys(upstream.calls[0]?.fields ?? {})).toHaveLength(4)
  })

  test('caps temperature at 1, prefers it to top_p, and drops seed and penalties', async () => {
    const fields = await sent(sampled, { acceptsSampling: true })
    expect(fields).toMatchObject({ temperature: 1, top_k: 40 })
    expect(Object.keys(fields)).toHaveLength(5)
    upstream.clearCalls()
    expect(await sent({ top_p: 0.9 }, { acceptsSampling: true })).toMatchObject({ top_p: 0.9 })
  })

  test('merges adjacent messages, drops blank ones, and trims a final assistant message', async () => {
    const { messages } = await sent({
      messages: [textMessage('one'), textMessage(' '), textMessage('two'), textMessage('First, ', 'assistant')],
    })
    expect(messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      { role: 'assistant', content: [{ type: 'text', text: 'First,' }] },
    ])
  })

  test('puts tool results first, and replaces unsupported ids in the call and its result', async () => {
    const { messages } = await sent({
      messages: [
        textMessage('Weather?'),
        {
          role: 'assistant',
          parts: [
            { type: 'text', text: 'Hm. ' },
            { type: 'tool_call', id: 'call_1', name: 'get_weather', arguments_json: '{"city":"Paris"}' },
            { type: 'tool_call', id: 'call:2', name: 'get_weather', arguments_json: '[1' },
          ],
        },
        { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call_1', text: 'sunny' }] },
        { role: 'user', parts: [{ type: 'text', text: 'And?' }] },
        { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call:2', text: 'no city', is_error: true }] },
      ],
      tools: [WEATHER_TOOL],
    })
    const id = expect.stringMatching(/^call_[0-9a-f]{24}$/) as string
    expect(messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Hm. ' },
          { type: 'tool_use', id: 'call_1', name: 'get_weather', input: { city: 'Paris' } },
          { type: 'tool_use', id, name: 'get_weather', input: { arguments: '[1' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: 'sunny' },
          { type: 'tool_result', tool_use_id: id, content: 'no city', is_error: true },
          { type: 'text', text: 'And?' },
        ],
      },
    ])
  })

  test.each([
    [undefined, { type: 'auto' }],
    ['auto' as const, { type: 'auto' }],
    ['none' as const, { type: 'none' }],
    ['required' as const, { type: 'any' }],
    [{ name: 'get_weather' }, { type: 'tool', name: 'get_weather' }],
  ])('sends tool choice %o', async (choice, expected) => {
    const fields = await sent({ tools: [WEATHER_TOOL], ...(choice === undefined ? {} : { tool_choice: choice }) })
    expect(fields['tool_choice']).toEqual(expected)
    expect(fields['tools']).toEqual([
      { name: 'get_weather', description: WEATHER_TOOL.description, input_schema: WEATHER_TOOL.parameters.toJSON() },
    ])
  })

  test('sends strict tools with the schema of an output format, and one call at a time', async () => {
    const parameters = written({ type: 'object', properties: { n: { type: 'integer', minimum: 1 } } })
    const fields = await sent({ tools: [{ name: 'f', parameters, strict: true }], parallel_tool_calls: false })
    expect(fields).toMatchObject({ tool_choice: { type: 'auto', disable_parallel_tool_use: true } })
    expect(fields['tools']).toEqual([
      {
        name: 'f',
        strict: true,
        input_schema: {
          type: 'object',
          properties: { n: { type: 'integer', description: '{minimum: 1}' } },
          additionalProperties: false,
        },
      },
    ])
  })

  test('says nothing of parallel calls where none is allowed', async () => {
    const fields = await sent({ tools: [WEATHER_TOOL], parallel_tool_calls: false, tool_choice: 'none' })
    expect(fields['tool_choice']).toEqual({ type: 'none' })
  })

  test('moves an enum of objects into the description, and keeps one of plain values', async () => {
    const properties = { a: { enum: [{ b: 1 }] }, c: { enum: ['', 'x', null, true] }, d: { const: [1] } }
    const fields = await sent({
      response_format: { type: 'json_schema', schema: written({ type: 'object', properties }) },
    })
    expect(fields['output_config']).toMatchObject({
      format: {
        schema: {
          properties: {
            a: { description: '{enum: [{"b":1}]}' },
            c: { enum: ['', 'x', null, true] },
            d: { description: '{const: [1]}' },
          },
        },
      },
    })
  })

  test.each<[asked: Effort, limit: number, model: string, setting: Setting, fields: object]>([
    ['high', 512, 'claude-sonnet-5-5', {}, { output_config: { effort: 'high' } }],
    ['max', 512, 'claude-sonnet-5-5', {}, { output_config: { effort: 'high' } }],
    ['max', 512, 'claude-sonnet-5-5', { effort: 'medium' }, { output_config: { effort: 'medium' } }],
    ['none', 65_536, 'claude-sonnet-5-5', {}, { output_config: { effort: 'low' } }],
    ['high', 512, 'claude-sonnet-4-5', {}, { output_config: undefined, thinking: undefined }],
    ['low', 512, 'claude-sonnet-4-6', { thinking: 'adaptive' }, { thinking: { type: 'adaptive' } }],
    ['none', 65_536, 'claude-sonnet-4-6', { thinking: 'adaptive' }, { thinking: undefined }],
  ])(
    'thinks as hard as is asked for, %s within %i tokens, as %s with %o may',
    async (reasoning_effort, limit, model, setting, fields) => {
      const { output_config, thinking } = await sent(
        { max_output_tokens: limit, reasoning_effort },
        { ...setting, model },
      )
      expect({ output_config, thinking }).toMatchObject(fields)
    },
  )

  test('sends an object schema for a tool without one', async () => {
    const { tools } = await sent({
      tools: [
        { name: 'a', parameters: written({}) },
        { name: 'b', parameters: written({ properties: { x: {} } }) },
      ],
    })
    expect(tools).toEqual([
      { name: 'a', input_schema: { type: 'object' } },
      { name: 'b', input_schema: { type: 'object', properties: { x: {} } } },
    ])
  })

  test('closes the answer’s schema and moves unsupported keywords into descriptions', async () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Where to', minLength: 2, format: 'iri' },
        when: { type: 'string', format: 'date' },
        days: { oneOf: [{ type: 'integer', minimum: 3 }, { type: 'null' }] },
        via: { type: 'array', items: { $ref: '#/$defs/stop', title: 'x' }, minItems: 1, maxItems: 3 },
      },
      required: ['city'],
      additionalProperties: true,
      $defs: { stop: { properties: { name: { const: 'x' } } } },
    }
    const { output_config: config } = await sent({
      response_format: { type: 'json_schema', name: 'trip', schema: written(schema) },
    })
    expect(config).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: {
            city: { type: 'string', description: 'Where to\n\n{minLength: 2, format: "iri"}' },
            when: { type: 'string', format: 'date' },
            days: { anyOf: [{ type: 'integer', description: '{minimum: 3}' }, { type: 'null' }] },
            via: { type: 'array', items: { $ref: '#/$defs/stop' }, minItems: 1, description: '{maxItems: 3}' },
          },
          required: ['city'],
          additionalProperties: false,
          $defs: {
            stop: { type: 'object', properties: { name: { const: 'x' } }, additionalProperties: false },
          },
        },
      },
    })
  })

  test('asks for JSON without a schema by an instruction', async () => {
    const { system } = await sent({ system: 'Be brief.', response_format: { type: 'json_object' } })
    expect(system).toBe('Be brief.\n\nAnswer with one JSON object and nothing else.')
  })

  test('rejects a remote image without a call', async () => {
    const source = { kind: 'url' as const, url: 'https://CANARY.example/a.png' }
    const outcome = await generate({ messages: [{ role: 'user', parts: [{ type: 'image', source }] }] })
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_rejected', reason: 'not sent: an image is not inline' })
    expect(upstream.calls).toHaveLength(0)
  })

  test.each([
    ['an invalid base URL', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { key: 'sk-ant-CANARY\nkey' }],
  ])('rejects %s at creation without quoting it', (_name, setting) => {
    expect(() => generate({}, setting)).toThrow(/^(?!.*CANARY)The Anthropic /)
  })
})

const words = (count: number, seed: string) => `${seed} ${'tram '.repeat(count)}`
const marked = (text: string) => ({ type: 'text' as const, text, cache_breakpoint: true as const })
const said = (...texts: string[]) => texts.map((text) => ({ role: 'user' as const, parts: [marked(text)] }))
const countsOf = async (changes: Partial<TextRequest>, model = 'claude-sonnet-4-5') => {
  const { usage } = await generated({ max_output_tokens: 64, ...changes }, { model })
  return [usage.cached_input_tokens ?? 0, usage.cache_write_tokens ?? 0]
}

describe('answers of the simulated vendor', () => {
  test('returns text that depends on the prompt, usage and the request id', async () => {
    const outcome = await generate()
    expect(outcome).toMatchObject({ outcome: 'generated', vendorRequestId: expect.stringMatching(/^req_/) })
    const output = await generated()
    expect(output).toMatchObject({ finish_reason: 'stop', refusal: null, tool_calls: [] })
    expect(output.text).toContain('You wrote 6 words: “When does the CANARY tram leave?”')
    expect(output.usage.output_tokens).toBeGreaterThan(0)
  })

  describe('the prompt cache', () => {
    test('is written up to a breakpoint, read from there on, and written for what was added', async () => {
      const long = words(2000, 'one')
      const [none, written = 0] = await countsOf({ messages: said(long) })
      expect([none, written > 2000]).toEqual([0, true])
      const [read, added = 0] = await countsOf({ messages: said(long, words(50, 'more')) })
      expect(read).toBe(written)
      expect(added).toBeGreaterThan(50)
      expect(added).toBeLessThan(60)
    })

    test('is not used without a breakpoint, nor by another model, nor below the model’s minimum', async () => {
      const messages = [textMessage(words(2000, 'two'))]
      expect([await countsOf({ messages }), await countsOf({ messages })]).toEqual([
        [0, 0],
        [0, 0],
      ])
      await countsOf({ messages: said(words(3000, 'three')) })
      expect((await countsOf({ messages: said(words(3000, 'three')) }, 'claude-opus-4-8'))[0]).toBe(0)
      expect(await countsOf({ messages: said(words(3000, 'four')) }, 'claude-haiku-4-5')).toEqual([0, 0])
      expect((await countsOf({ messages: said(words(5000, 'four')) }, 'claude-haiku-4-5'))[1]).toBeGreaterThan(5000)
    })

    test('has tools first, then the system text up to each of its breakpoints', async () => {
      const tools = [{ ...WEATHER_TOOL, description: words(1500, 'five'), cache_breakpoint: true as const }]
      const [part, rest] = [words(300, 'rules'), words(300, 'today')]
      const request = { tools, system: `${part}\n\n${rest}`, system_breakpoints: [part.length] }
      const written = (await countsOf({ ...request, messages: [textMessage('Hello')] }))[1] ?? 0
      expect(written).toBeGreaterThan(1800)
      expect(written).toBeLessThan(1900)
      const other = { ...request, system: `${part}\n\n${words(300, 'tomorrow')}`, messages: [textMessage('Hello')] }
      expect(await countsOf(other)).toEqual([written, 0])
    })

    test('gets the latest four breakpoints of a request with more, which the vendor refuses', async () => {
      const { messages } = (await sent({ messages: said(...'abcdef'.split('')) })) as {
        messages: [{ content: object[] }]
      }
      expect(messages[0].content.map((block) => 'cache_control' in block)).toEqual([
        false,
        false,
        true,
        true,
        true,
        true,
      ])
    })
  })

  test('never exceeds the output limit', async () => {
    for (const limit of [1, 10, 57]) {
      const output = await generated({ messages: [textMessage('write 300 words')], max_output_tokens: limit })
      expect(output).toMatchObject({ finish_reason: 'length', usage: { output_tokens: limit } })
    }
  })

  const HARD = textMessage('Think hard: when does the last tram leave?')

  test('leaves room for text, however hard the question and low the limit', async () => {
    for (const limit of [512, 1500, 16_384]) {
      const output = await generated({ messages: [HARD], max_output_tokens: limit }, { model: 'claude-opus-5' })
      expect(output).toMatchObject({ text: expect.stringContaining('tram'), finish_reason: 'stop' })
      expect(output.usage.thinking_tokens).toBeGreaterThan(0)
    }
  })

  test('an answer that was thought away is empty, ends with length, and has all tokens of the limit', async () => {
    expect(await generated({ messages: [HARD], max_output_tokens: 200 }, { model: 'claude-opus-5' })).toMatchObject({
      text: '',
      finish_reason: 'length',
      usage: { output_tokens: 200, thinking_tokens: 200 },
    })
  })

  test('reports an empty output when the model ends without a word, and an unbilled refusal as rejected', async () => {
    expect(await generate({ messages: [textMessage('please say nothing')] })).toMatchObject(EMPTY)
    expect(await generate({ messages: [textMessage('please block')] })).toMatchObject({
      ...DEFINITE,
      code: 'provider_rejected',
      reason: 'HTTP 200 with refusal',
    })
  })

  test('ends the text at a stop sequence', async () => {
    const output = await generated({ messages: [textMessage('write 90 words')], stop_sequences: ['market'] })
    expect(output).toMatchObject({ finish_reason: 'stop', text: expect.not.stringContaining('market') })
  })

  test('reads an inline image', async () => {
    const base64 = drawPng('a tram').toString('base64')
    const image = { type: 'image' as const, source: { kind: 'inline' as const, media_type: 'image/png', base64 } }
    const output = await generated({
      messages: [{ role: 'user', parts: [image, ...textMessage('What is this?').parts] }],
    })
    expect(output.text).toContain('a PNG of 1024 × 1024 pixels')
    const broken = { ...image, source: { ...image.source, base64: 'AAAA' } }
    expect(await generate({ messages: [{ role: 'user', parts: [broken] }] })).toMatchObject({
      ...DEFINITE,
      code: 'provider_rejected',
    })
  })

  test('calls all tools and answers their results with text', async () => {
    const question = textMessage('Use all tools for the weather in Paris')
    const tools = [WEATHER_TOOL, { name: 'list_cities', parameters: written({}) }]
    const output = await generated({ messages: [question], tools })
    expect(output).toMatchObject({ text: null, finish_reason: 'tool_calls' })
    expect(output.tool_calls.map(({ name, arguments_json: args }) => [name, args])).toEqual([
      ['get_weather', '{"city":"Paris"}'],
      ['list_cities', '{}'],
    ])
    expect(JSON.stringify(output)).not.toContain('toolu_')
    const final = await generated({
      messages: [
        question,
        { role: 'assistant', parts: output.tool_calls.map((call) => ({ type: 'tool_call', ...call })) },
        {
          role: 'user',
          parts: output.tool_calls.map(({ id }) => ({ type: 'tool_result', tool_call_id: id, text: 'sunny' })),
        },
      ],
      tools,
    })
    expect(final).toMatchObject({ finish_reason: 'stop', text: expect.stringContaining('sunny') })
  })

  test('returns JSON that conforms to the schema', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' }, open: { type: 'boolean' } } }
    const { text } = await generated({ response_format: { type: 'json_schema', schema: written(schema) } })
    expect(JSON.parse(text ?? '')).toEqual({ city: expect.any(String), open: expect.any(Boolean) })
  })

  test('keeps the text of a refusal in mid-answer', async () => {
    expect(await generated({ messages: [textMessage('please refuse')] })).toMatchObject({
      text: expect.any(String),
      refusal: null,
      finish_reason: 'content_filter',
    })
  })

  test.each([
    ['a wrong key', { key: 'sk-ant-CANARY_wrong' }, 'provider_unavailable', 'HTTP 401 authentication_error'],
    ['an unknown model', { model: 'unknown' }, 'provider_unavailable', 'HTTP 404 not_found_error'],
  ])('fails definitely before any work with %s', async (_name, setting, code, reason) => {
    expect(await generate({}, setting)).toMatchObject({ ...DEFINITE, code, reason })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })
})

describe('documented answers', () => {
  test('translates a documented plain answer', async () => {
    answerWith(fixture('text'), 200, { 'request-id': 'req_1' })
    expect(await generate()).toEqual({
      outcome: 'generated',
      vendorRequestId: 'req_1',
      output: {
        text: 'The tram leaves at nine.',
        refusal: null,
        tool_calls: [],
        finish_reason: 'stop',
        usage: { input_tokens: 11, output_tokens: 9 },
      },
    })
  })

  test('counts cached tokens and hidden thinking, replaces tool call ids and keeps signatures', async () => {
    answerWith(fixture('thinking-and-calls'))
    const output = await generated()
    expect(output).toMatchObject({
      text: 'Let me look.',
      finish_reason: 'tool_calls',
      usage: {
        input_tokens: 4320,
        cached_input_tokens: 4000,
        cache_write_tokens: 300,
        output_tokens: 150,
        thinking_tokens: 90,
      },
      thought_signatures: ['EqoBCkgIBRABGAIiQL2UoU0b'],
    })
    expect(output.tool_calls.map(({ name, arguments_json: args }) => [name, args])).toEqual([
      ['get_weather', '{"city":"Paris"}'],
      ['list_cities', '{}'],
    ])
    expect(JSON.stringify(output)).not.toMatch(/CANARY|toolu_/)
  })

  test('rejects for an unbilled refusal, and keeps the text of a billed one', async () => {
    answerWith(fixture('refused-at-once'))
    expect(await generate()).toMatchObject({ ...DEFINITE, code: 'provider_rejected', reason: 'HTTP 200 with refusal' })
    answerWith(fixture('refused-midway'))
    expect(await generated()).toMatchObject({ text: 'First, you need', finish_reason: 'content_filter' })
  })

  test('reports a billed refusal without text as a refusal', async () => {
    answerWith({ content: [], stop_reason: 'refusal', usage: { input_tokens: 3, output_tokens: 5 } })
    expect(await generated()).toMatchObject({ text: null, refusal: expect.stringContaining('content filter') })
  })

  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['tool_use', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['pause_turn', 'length'],
    ['a_new_reason', 'stop'],
    ['token_limit', 'length'],
    ['blocked', 'content_filter'],
    ['', 'stop'],
    [null, 'stop'],
  ])('translates stop reason %s with text to %s', async (reason, expected) => {
    answerWith(withReason(reason))
    expect(await generated()).toMatchObject({ text: 'So far', refusal: null, finish_reason: expected })
  })

  test('replaces characters that PostgreSQL cannot store', async () => {
    answerWith(JSON.stringify(withReason('end_turn', 'TEXT')).replace('TEXT', 'a\\u0000b\\ud800c'))
    expect((await generated()).text).toBe('ab\ufffdc')
  })

  test('an answer that the caller’s own stop sequence ended before its first word is complete and has usage', async () => {
    expect(await generated({ stop_sequences: ['Hello'] })).toMatchObject({
      text: '',
      refusal: null,
      tool_calls: [],
      finish_reason: 'stop',
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    })
  })

  test.each<[string, unknown, string]>([
    ['a stop sequence', { ...withReason('stop_sequence'), content: [] }, 'stop'],
    ['the limit', { ...withReason('max_tokens'), content: [] }, 'length'],
    ['the context window', { ...withReason('model_context_window_exceeded'), content: [] }, 'length'],
    [
      'the limit while thinking',
      { ...withReason('max_tokens'), content: [{ type: 'thinking', thinking: 'CANARY', signature: 'x' }] },
      'length',
    ],
  ])('an answer without text that %s ended is complete', async (_name, body, expected) => {
    answerWith(body)
    expect(await generated()).toMatchObject({
      text: '',
      refusal: null,
      finish_reason: expected,
      usage: { input_tokens: 3, output_tokens: 2 },
    })
  })

  test('delivers blank text as it is', async () => {
    answerWith(withReason('end_turn', ' \n'))
    expect(await generated()).toMatchObject({ text: ' \n', refusal: null, finish_reason: 'stop' })
  })

  test.each<[string, unknown]>([
    ['no content', { ...withReason('end_turn'), content: [] }],
    ['an empty text', withReason('end_turn', '')],
    ['a pause', { ...withReason('pause_turn'), content: [] }],
    ['a tool call that is missing', { ...withReason('tool_use'), content: [] }],
  ])('reports an empty output for %s', async (_name, body) => {
    answerWith(body)
    expect(await generate()).toMatchObject(EMPTY)
  })

  test('reports an empty output for the simulated empty answer', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await generate()).toMatchObject({ ...EMPTY, usage: { input_tokens: expect.any(Number) as number } })
  })

  // The request has six words, the answer `So far` has two.
  test.each<[string, unknown, number, number]>([
    ['no usage', undefined, 6, 2],
    ['no output tokens', { input_tokens: 3 }, 3, 2],
    ['a negative count', { input_tokens: -3, output_tokens: 5 }, 6, 5],
    ['counts in text', { input_tokens: '3', output_tokens: '5' }, 3, 5],
    ['a text in place of a count', { input_tokens: 'CANARY', output_tokens: 5 }, 6, 5],
    ['a fraction', { input_tokens: 3.9, output_tokens: 5 }, 3, 5],
    ['a count beyond all integers', { input_tokens: 1e300, output_tokens: 5 }, 6, 5],
    ['a part of the input only', { cache_read_input_tokens: 40, output_tokens: 5 }, 40, 5],
    ['thinking only', { input_tokens: 3, output_tokens_details: { thinking_tokens: 70 } }, 3, 70],
  ])('delivers an answer with %s, and charges what it has at least', async (_name, usage, input, output) => {
    answerWith({ ...withReason('end_turn'), usage })
    expect(await generated()).toMatchObject({
      text: 'So far',
      usage: { input_tokens: input, output_tokens: output },
    })
  })

  test.each<[string, unknown, string]>([
    ['without input', {}, '{}'],
    ['with null', { input: null }, '{}'],
    ['with a text', { input: 'ls -l' }, 'ls -l'],
    ['with a list', { input: ['ls', 1] }, '["ls",1]'],
  ])('delivers a call %s as it was written', async (_name, input, expected) => {
    answerWith({ ...withReason('tool_use'), content: [{ type: 'tool_use', name: 'x', ...(input as object) }] })
    expect(await generated()).toMatchObject({
      text: null,
      tool_calls: [{ name: 'x', arguments_json: expected }],
      finish_reason: 'tool_calls',
    })
  })

  test.each<[string, unknown]>([
    ['has no text', { type: 'text', text: null }],
    ['is a call without a name', { type: 'tool_use', id: 'x', input: {} }],
    ['is of a new type', { type: 'hologram', text: 'CANARY' }],
    ['is a number', 7],
    ['is null', null],
  ])('a block that %s costs no other', async (_name, block) => {
    const { content, ...rest } = withReason('end_turn')
    answerWith({ ...rest, content: [block, ...content] })
    expect(await generated()).toMatchObject({ text: 'So far', tool_calls: [], finish_reason: 'stop' })
    answerWith({ ...rest, content: [block] })
    expect(await generate()).toMatchObject(EMPTY)
  })

  test('reads blocks without a type by what they hold', async () => {
    answerWith({
      ...withReason('end_turn'),
      content: [{ thinking: 'CANARY', signature: 'sig==' }, { text: 'So far' }, { name: 'f', input: { a: 1 } }],
    })
    expect(await generated()).toMatchObject({
      text: 'So far',
      tool_calls: [{ name: 'f', arguments_json: '{"a":1}' }],
      thought_signatures: ['sig=='],
    })
  })

  test('names the fields that were not as documented, and no text of the vendor', async () => {
    answerWith({ ...withReason('CANARY_reason'), usage: { input_tokens: 'CANARY', output_tokens: 2 } })
    const outcome = await generate()
    expect(outcome).toMatchObject({ mended: ['stop_reason', 'input_tokens'] })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
    answerWith(withReason('end_turn'))
    expect(await generate()).not.toHaveProperty('mended')
  })

  test.each<[string, unknown]>([
    ['nothing', {}],
    ['a text in place of the content', { content: 'CANARY' }],
  ])('leaves the outcome unknown for an answer with %s', async (_name, body) => {
    answerWith(body)
    expect(await generate()).toMatchObject(UNKNOWN_OUTCOME)
  })
})

describe('definite failures before any work', () => {
  test.each([
    [401, 'authentication_error', 'provider_unavailable'],
    [402, 'billing_error', 'provider_unavailable'],
    [403, 'permission_error', 'provider_unavailable'],
    [404, 'not_found_error', 'provider_unavailable'],
    [429, 'rate_limit_error', 'provider_unavailable'],
  ])('fails definitely on %i %s with %s', async (status, type, code) => {
    answerWith({ type: 'error', error: { type, message: 'CANARY' } }, status)
    expect(await generate()).toEqual({ ...DEFINITE, code, reason: `HTTP ${status} ${type}` })
    expect(upstream.calls).toHaveLength(1)
  })

  test('keeps the vendor’s error type and request id, but not its message', async () => {
    answerWith(fixture('error-invalid-request'), 400)
    expect(await generate()).toEqual({
      ...rejectedByDeployment('HTTP 400 invalid_request_error'),
      vendorRequestId: 'req_011CSHoEeqs5C35K2UUqR7Fy',
    })
  })

  test('a request that is too large for this vendor is left to another deployment', async () => {
    answerWith({ type: 'error', error: { type: 'request_too_large', message: 'CANARY' } }, 413)
    expect(await generate()).toEqual(unserviceable('HTTP 413 request_too_large'))
  })

  test.each([
    [400, 'invalid_request_error'],
    [422, 'invalid_request_error'],
  ])('a %i for an unknown reason is rejected by this deployment only', async (status, type) => {
    answerWith({ type: 'error', error: { type, message: 'messages.0: CANARY' } }, status)
    expect(await generate()).toEqual(rejectedByDeployment(`HTTP ${status} ${type}`))
  })

  test('a model that was shut down is definitely gone', async () => {
    answerWith({ type: 'error', error: { type: 'not_found_error', message: 'CANARY' } }, 410)
    expect(await generate()).toEqual(gone('HTTP 410 not_found_error'))
  })

  test.each([
    'This model does not support assistant message prefill. The conversation must end with a user message.',
    'This model does not support the effort parameter.',
    'max_tokens: 65536 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5-20250929',
    'prompt is too long: 208310 tokens > 200000 maximum',
    'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again',
    '`temperature` is deprecated for this model.',
    '`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.',
    'adaptive thinking is not supported on this model',
    'tool_choice: type "tool" and "any" are not supported for this model.',
    'Thinking may not be enabled when tool_choice forces tool use.',
    '"thinking.type.disabled" is not supported for this model.',
    'thinking.enabled.budget_tokens: Input should be greater than or equal to 1024',
  ])('leaves what only this model does not support to another deployment: %s', async (message) => {
    answerWith({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)
    expect(await generate()).toEqual(unserviceable('HTTP 400 invalid_request_error'))
  })

  test('an output limit above the model’s is left to another deployment', async () => {
    expect(await generate({ max_output_tokens: 65_536 })).toMatchObject(unserviceable('HTTP 400 invalid_request_error'))
    expect(await generate({ max_output_tokens: 65_536 }, { model: 'claude-opus-4-8' })).toMatchObject({
      outcome: 'generated',
    })
  })

  test('does not blame the input for an account problem with status 400', async () => {
    answerWith(fixture('error-credit-balance'), 400)
    expect(await generate()).toMatchObject({ ...DEFINITE, code: 'provider_unavailable' })
  })

  test.each([
    'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
    'This organization has been disabled.',
  ])('blames the account, not the input: %s', async (message) => {
    answerWith({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)
    expect(await generate()).toEqual(unavailable('HTTP 400 invalid_request_error'))
  })

  test.each([
    'tools.0.custom.input_schema: JSON schema is invalid at properties.credit balance',
    'Property "usage limits" of the schema is not supported',
    'The schema is invalid: property usage limits',
  ])('names that the caller chose never count as an account problem: %s', async (message) => {
    answerWith({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)
    expect(await generate()).toEqual(rejectedByDeployment('HTTP 400 invalid_request_error'))
  })

  test('passes on the retry-after of a 429', async () => {
    answerWith({}, 429, { 'retry-after': '7', 'request-id': 'req_2' })
    expect(await generate()).toMatchObject({
      code: 'provider_unavailable',
      retryAfterSeconds: 7,
      vendorRequestId: 'req_2',
    })
  })

  test('fails definitely on a refusal without a readable body', async () => {
    answerWith('<html>CANARY</html>', 403)
    expect(await generate()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 403' })
  })

  test('fails definitely when the request was not sent', async () => {
    const cause = Object.assign(new Error('CANARY'), { code: 'ENOTFOUND', syscall: 'getaddrinfo' })
    const http = createHttp({ fetch: () => Promise.reject(new TypeError('fetch failed', { cause })) })
    expect(await generate({}, { http })).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      reason: 'not sent: ENOTFOUND',
    })
    expect(await generate({}, { signal: AbortSignal.abort() })).toMatchObject(DEFINITE)
    expect(upstream.calls).toHaveLength(0)
  })
})

test.each(['Output blocked by content filtering policy', 'Invalid request data'])(
  'a 400 about an answer that was begun may be billed, so no other deployment is called: %s',
  async (message) => {
    answerWith({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)
    expect(await generate()).toEqual(withheldOutput('HTTP 400 invalid_request_error'))
  },
)

describe('ambiguous failures after exactly one call', () => {
  test.each<[FaultRuleInput, string]>([
    [{ fault: 'status', status: 529, body: fixture('error-overloaded') }, 'HTTP 529 overloaded_error'],
    [{ fault: 'status', status: 500, body: { error: { type: 'api_error' } } }, 'HTTP 500 api_error'],
    [{ fault: 'status', status: 504, body: { error: { type: 'timeout_error' } } }, 'HTTP 504 timeout_error'],
    [{ fault: 'status', status: 502, body: '<html>CANARY</html>' }, 'HTTP 502'],
    [{ fault: 'status', status: 409, body: {} }, 'HTTP 409'],
    [{ fault: 'status', status: 202, body: {} }, 'HTTP 202'],
    [{ fault: 'status', status: 307, body: {}, headers: { location: 'http://127.0.0.1:1/' } }, 'HTTP 307'],
    [{ fault: 'hang' }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'slowBody', everyMs: 100 }, `HTTP 200, no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
    [{ fault: 'truncatedJson' }, 'HTTP 200 with a body that is not JSON'],
    [{ fault: 'hugeBody', bytes: 17 * 1024 * 1024 }, 'HTTP 200, response larger than 16777216 bytes'],
    [{ fault: 'status', status: 200, body: '[]' }, 'HTTP 200 with a malformed message'],
  ])('leaves the outcome unknown after one call: %o', async (rule, reason) => {
    upstream.setFaults([rule])
    const outcome = await generate({}, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(outcome.outcome === 'failed' && outcome.reason).toMatch(new RegExp(`^(${reason})$`))
    expect(upstream.calls).toHaveLength(1)
  })

  test('leaves the outcome unknown when the caller aborts while waiting', async () => {
    upstream.setFaults([{ fault: 'hang' }])
    const caller = new AbortController()
    const outcome = generate({}, { signal: caller.signal })
    await until(() => upstream.calls[0]?.state === 'started')
    caller.abort()
    expect(await outcome).toMatchObject({ ...UNKNOWN_OUTCOME, reason: 'aborted by the caller' })
  })
})

test('no failure reveals the key, the prompt, the answer or the vendor’s message', async () => {
  const rules: FaultRuleInput[] = [
    { fault: 'status', status: 400, body: fixture('error-invalid-request') },
    { fault: 'status', status: 400, body: fixture('error-credit-balance') },
    { fault: 'status', status: 401, body: { error: { type: `bad key ${API_KEY}` }, request_id: `id ${API_KEY}` } },
    { fault: 'status', status: 429, body: {}, headers: { 'request-id': `for ${API_KEY}` } },
    { fault: 'status', status: 500, body: `CANARY ${API_KEY}` },
    { fault: 'status', status: 200, body: fixture('refused-at-once') },
    { fault: 'status', status: 200, body: { content: [], stop_reason: 'CANARY stop' } },
    { fault: 'truncatedJson' },
    { fault: 'resetMidBody' },
    { fault: 'emptyText' },
  ]
  for (const rule of rules) {
    upstream.setFaults([rule])
    const outcome = await generate()
    expect(outcome.outcome).toBe('failed')
    expect(JSON.stringify(outcome)).not.toMatch(/CANARY|sk-ant|tram/)
  }
})
