import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Effort } from '#shared/operations/text/effort.ts'
import { type TextRequest, textOutputSchema } from '#shared/operations/text/text-request.ts'
import { drawPng } from '../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { tokenPieces } from '../../infra/sandbox/upstream/writing/count-tokens.ts'
import { sampleJson } from '../../infra/sandbox/upstream/writing/sample-json.ts'
import { gone, rejectedByDeployment, unserviceable } from '../../workers/providers/failures.ts'
import type { GeminiThinking } from '../../workers/providers/gemini/model-traits.ts'
import { createGeminiText } from '../../workers/providers/gemini/text.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { written } from '../support/vendors/written.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'AIza_CANARY_key_0f2c'
const ROUTE = '/v1beta/models/{model}:generateContent'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/gemini/${name}.json`, import.meta.url), 'utf8'))

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
  thinking?: GeminiThinking
  lowestLevel?: Effort
  samples?: boolean
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
  const provider = createGeminiText({
    baseUrl: setting.baseUrl ?? upstream.url,
    apiKey: setting.key ?? API_KEY,
    upstreamModel: setting.model ?? 'gemini-2.5-flash',
    http: setting.http ?? createHttp({ fetch }),
    thinking: setting.thinking,
    lowestLevel: setting.lowestLevel,
    samples: setting.samples,
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
  upstream.setFaults([{ route: ROUTE, fault: 'status', status, body, headers }])
}

/** Sends a request and returns the top-level fields that the simulated vendor received. */
async function sent(changes: Partial<TextRequest>, setting: Setting = {}): Promise<Record<string, unknown>> {
  await generate(changes, setting)
  const { model: _, ...fields } = upstream.calls[0]?.fields ?? {}
  return Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, JSON.parse(text)]))
}

type JsonObject = { [keyword: string]: ReturnType<typeof JSON.parse> }

const isEqualTo = (expected: object) => (actual: unknown) => {
  expect(actual).toEqual(expected)
  return true
}

const withReason = (finishReason: string | undefined, text = 'So far') => ({
  candidates: [{ content: { parts: [{ text }] }, finishReason }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2 },
})
const named = (status: number, name: string) => ({ error: { code: status, message: 'CANARY', status: name } })

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('request', () => {
  test('sends only the messages and the limit for a plain request', async () => {
    expect(await sent({ system: 'Be brief.' })).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [{ role: 'user', parts: [{ text: 'When does the CANARY tram leave?' }] }],
      generationConfig: { maxOutputTokens: 512, thinkingConfig: { thinkingBudget: 128 } },
    })
    expect(upstream.calls).toHaveLength(1)
    expect(upstream.calls[0]?.fields['model']).toBe('gemini-2.5-flash')
  })

  const options: Partial<TextRequest> = {
    temperature: 0.5,
    top_p: 0.9,
    top_k: 39.6,
    stop_sequences: ['END'],
    seed: 2 ** 32 + 7,
    presence_penalty: 0.1,
    frequency_penalty: -0.1,
    response_format: { type: 'json_object' },
  }

  test('sends every supported option, folds a long seed into 32 bits, and drops penalties', async () => {
    expect((await sent(options))['generationConfig']).toEqual({
      maxOutputTokens: 512,
      temperature: 0.5,
      topP: 0.9,
      topK: 40,
      stopSequences: ['END'],
      seed: 7,
      responseMimeType: 'application/json',
      thinkingConfig: { thinkingBudget: 128 },
    })
    expect(upstream.calls[0]?.status).toBe(200)
  })

  test.each([
    ['gemini-3.6-flash', undefined, false],
    ['gemini-3.5-flash-lite', undefined, false],
    ['gemini-3.5-flash', undefined, true],
    ['gemini-flash-latest', undefined, false],
    ['gemini-3.6-flash', true, true],
    ['gemini-2.5-flash', false, false],
  ])('sends temperature, topP and topK to %s, unless set by the option %s: %s', async (model, samples, isSent) => {
    const { generationConfig } = await sent(options, { model, ...(samples === undefined ? {} : { samples }) })
    const { temperature, topP, topK } = generationConfig as Record<string, unknown>
    const nothing = { temperature: undefined, topP: undefined, topK: undefined }
    expect({ temperature, topP, topK }).toEqual(isSent ? { temperature: 0.5, topP: 0.9, topK: 40 } : nothing)
    expect(upstream.calls[0]?.status).toBe(200)
  })

  const medium = { thinking: { level: 'medium' } } as const
  test.each<[limit: number, model: string, setting: Setting, thinkingConfig: object | undefined]>([
    [512, 'gemini-2.5-flash', {}, { thinkingBudget: 128 }],
    [512, 'gemini-2.5-flash', { thinking: { budgetTokens: 1024 } }, { thinkingBudget: 128 }],
    [512, 'gemini-2.5-flash', { thinking: { budgetTokens: 0 } }, { thinkingBudget: 0 }],
    [8192, 'gemini-2.5-flash', { thinking: { budgetTokens: 1024 } }, { thinkingBudget: 1024 }],
    [64, 'gemini-2.5-pro', {}, { thinkingBudget: 128 }],
    [65_536, 'gemini-2.5-pro', {}, { thinkingBudget: 16_384 }],
    [512, 'gemini-2.5-flash-lite', {}, undefined],
    [512, 'gemini-2.5-flash-lite', { thinking: { budgetTokens: 1024 } }, { thinkingBudget: 0 }],
    [8192, 'gemini-2.5-flash-lite', { thinking: { budgetTokens: 1024 } }, { thinkingBudget: 1024 }],
    [512, 'gemini-2.0-flash', {}, undefined],
    [512, 'gemini-3.1-flash-lite', {}, { thinkingLevel: 'minimal' }],
    [512, 'gemini-3.6-flash', {}, { thinkingLevel: 'low' }],
    [512, 'gemini-3.6-flash', medium, { thinkingLevel: 'low' }],
    [512, 'gemini-3.1-flash-lite', { ...medium, lowestLevel: 'low' }, { thinkingLevel: 'low' }],
    [16_384, 'gemini-3.6-flash', {}, { thinkingLevel: 'medium' }],
    [32_768, 'gemini-3.6-flash', {}, undefined],
    [65_536, 'gemini-3.6-flash', { thinking: { level: 'high' } }, { thinkingLevel: 'high' }],
    [65_536, 'gemini-3.6-flash', { thinking: { level: 'low' } }, { thinkingLevel: 'low' }],
    [512, 'gemini-flash-latest', {}, { thinkingLevel: 'low' }],
  ])('limits thinking within %i output tokens of %s with %j to %j', async (limit, model, setting, thinkingConfig) => {
    const { generationConfig } = await sent({ max_output_tokens: limit }, { model, ...setting })
    const { thinkingConfig: limited } = generationConfig as { thinkingConfig?: object }
    expect(limited).toEqual(thinkingConfig)
    expect(upstream.calls[0]?.status).toBe(200)
  })

  const prefilled = [textMessage('Name a tram.'), textMessage('It is', 'assistant')]
  test.each<[string, Partial<TextRequest>, string, RegExp]>([
    ['more than 5 stop sequences', { stop_sequences: ['a', 'b', 'c', 'd', 'e', 'f'] }, 'gemini-3.6-flash', /stop/],
    ['tools with JSON', { tools: [WEATHER_TOOL], response_format: { type: 'json_object' } }, 'gemini-2.5-pro', /JSON/],
    ['a model turn at the end', { messages: prefilled }, 'gemini-3.6-flash', /turn/],
    ['a model turn at the end', { messages: prefilled }, 'gemini-3.5-flash-lite', /turn/],
  ])('leaves %s to another deployment without a call: %#', async (_name, changes, model, reason) => {
    const outcome = await generate(changes, { model })
    expect(outcome).toEqual(unserviceable(expect.stringMatching(reason)))
    expect(upstream.calls).toHaveLength(0)
  })

  test.each<[string, Partial<TextRequest>, string]>([
    ['5 stop sequences', { stop_sequences: ['v', 'w', 'x', 'y', 'z'] }, 'gemini-3.6-flash'],
    ['tools with JSON', { tools: [WEATHER_TOOL], response_format: { type: 'json_object' } }, 'gemini-3.6-flash'],
    ['a model turn at the end', { messages: prefilled }, 'gemini-3.5-flash'],
  ])('sends %s to a model that supports it', async (_name, changes, model) => {
    expect(await generate(changes, { model })).toMatchObject({ outcome: 'generated' })
  })

  test('merges adjacent messages of the same role and drops empty texts', async () => {
    const { contents } = await sent({
      messages: [
        textMessage('one'),
        textMessage(''),
        textMessage('two'),
        textMessage('ok', 'assistant'),
        textMessage('three'),
      ],
    })
    expect(contents).toEqual([
      { role: 'user', parts: [{ text: 'one' }, { text: 'two' }] },
      { role: 'model', parts: [{ text: 'ok' }] },
      { role: 'user', parts: [{ text: 'three' }] },
    ])
  })

  const called: TextRequest['messages'] = [
    textMessage('Weather?'),
    {
      role: 'assistant',
      parts: [
        { type: 'tool_call', id: 'call_1', name: 'get_weather', arguments_json: '{"city":"Paris"}' },
        { type: 'tool_call', id: 'call_2', name: 'get_weather', arguments_json: '' },
        { type: 'tool_call', id: 'call_3', name: 'get_weather', arguments_json: '[1' },
      ],
    },
    { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call_1', text: 'sunny' }] },
    { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call_2', text: 'no city', is_error: true }] },
    { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call_3', name: 'other', text: '' }] },
  ]

  test('sends tool calls and their results with matching ids and names, and results as objects', async () => {
    const { contents } = await sent({ messages: called, tools: [WEATHER_TOOL] })
    expect(contents).toEqual([
      { role: 'user', parts: [{ text: 'Weather?' }] },
      {
        role: 'model',
        parts: [
          { functionCall: { id: 'call_1', name: 'get_weather', args: { city: 'Paris' } } },
          { functionCall: { id: 'call_2', name: 'get_weather', args: {} } },
          { functionCall: { id: 'call_3', name: 'get_weather', args: { arguments: '[1' } } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'call_1', name: 'get_weather', response: { output: 'sunny' } } },
          { functionResponse: { id: 'call_2', name: 'get_weather', response: { error: 'no city' } } },
          { functionResponse: { id: 'call_3', name: 'other', response: { output: '' } } },
        ],
      },
    ])
  })

  test('sends the documented thought signature with the first of parallel calls to models that require one', async () => {
    const outcome = await generate({ messages: called, tools: [WEATHER_TOOL] }, { model: 'gemini-3.6-flash' })
    expect(outcome.outcome).toBe('generated')
    const signatures = JSON.stringify(upstream.calls[0]?.fields).match(/skip_thought_signature_validator/g)
    expect(signatures).toHaveLength(1)
  })

  test.each([
    [undefined, { mode: 'AUTO' }],
    ['auto' as const, { mode: 'AUTO' }],
    ['none' as const, { mode: 'NONE' }],
    ['required' as const, { mode: 'ANY' }],
    [{ name: 'get_weather' }, { mode: 'ANY', allowedFunctionNames: ['get_weather'] }],
  ])('sends tool choice %o', async (choice, functionCallingConfig) => {
    const { toolConfig } = await sent({
      tools: [WEATHER_TOOL],
      ...(choice === undefined ? {} : { tool_choice: choice }),
    })
    expect(toolConfig).toEqual({ functionCallingConfig })
  })

  test.each<[string, JsonObject, JsonObject]>([
    ['an empty string', { type: 'string', enum: ['', 'a'] }, { type: 'string', description: '{enum: ["","a"]}' }],
    ['an empty string alone', { const: '' }, { description: '{const: ""}' }],
    [
      'null beside strings',
      { enum: ['a', 'b', null], title: 'T' },
      { title: 'T', anyOf: [{ type: 'string', enum: ['a', 'b'] }, { type: 'null' }] },
    ],
    [
      'null of a nullable type',
      { type: ['string', 'null'], enum: ['a', null], description: 'D' },
      { anyOf: [{ type: 'string', enum: ['a'] }, { type: 'null' }], description: 'D' },
    ],
    ['null that the type forbids', { type: 'string', enum: ['a', null] }, { type: 'string', enum: ['a'] }],
    ['null alone', { enum: [null] }, { type: 'null' }],
    ['null as the only value', { const: null }, { type: 'null' }],
    ['numbers', { type: 'integer', enum: [1, 2] }, { type: 'integer', enum: [1, 2] }],
    [
      'numbers, strings and null',
      { enum: [1, 'a', null] },
      { anyOf: [{ type: ['string', 'number'], enum: [1, 'a'] }, { type: 'null' }] },
    ],
    ['a boolean among strings', { enum: ['a', true] }, { description: '{enum: ["a",true]}' }],
    [
      'an empty string and null',
      { enum: ['', 'a', null] },
      { anyOf: [{ type: 'string', description: '{enum: ["","a"]}' }, { type: 'null' }] },
    ],
    [
      'null beside other alternatives',
      { enum: ['a', null], anyOf: [{ minLength: 1 }] },
      { anyOf: [{ description: '{minLength: 1}' }], description: '{enum: ["a",null]}' },
    ],
    ['a list', { enum: [['a']] }, { description: '{enum: [["a"]]}' }],
  ])('drops no member of an enum: %s', async (_name, given, reduced) => {
    const schema = written({ type: 'object', properties: { a: given } })
    expect(await sent({ response_format: { type: 'json_schema', schema } })).toMatchObject({
      generationConfig: { responseJsonSchema: { properties: { a: expect.toSatisfy(isEqualTo(reduced)) } } },
    })
  })

  test('keeps strict tools to their declarations', async () => {
    const { toolConfig } = await sent({ tools: [{ ...WEATHER_TOOL, strict: true }] })
    expect(toolConfig).toEqual({ functionCallingConfig: { mode: 'VALIDATED' } })
  })

  test('adds what a format is for to its schema', async () => {
    const schema = written({ type: 'object', description: 'A trip' })
    expect(await sent({ response_format: { type: 'json_schema', schema, description: 'Where to go' } })).toMatchObject({
      generationConfig: { responseJsonSchema: { description: 'Where to go\n\nA trip' } },
    })
  })

  test('reduces the schemas of tools and answer to the supported keywords', async () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      title: 'Trip',
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Where to', minLength: 2, pattern: '^[A-Z]' },
        mode: { const: 'tram' },
        via: { type: ['array', 'null'], items: { $ref: '#/definitions/stop', description: 'x' }, maxItems: 3 },
        when: { allOf: [{ type: 'object', properties: { day: { enum: ['mon', null] } } }, { required: ['day'] }] },
        pair: { type: 'array', items: [{ type: 'string' }, true] },
        rest: { type: 'object', additionalProperties: { type: 'integer', multipleOf: 2 } },
      },
      required: ['city'],
      additionalProperties: false,
      definitions: { stop: { type: 'object', properties: {} } },
      examples: ['CANARY'],
    }
    const reduced = {
      title: 'Trip',
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Where to\n\n{minLength: 2, pattern: "^[A-Z]"}' },
        mode: { enum: ['tram'] },
        via: { type: ['array', 'null'], items: { $ref: '#/$defs/stop' }, maxItems: 3 },
        when: {
          type: 'object',
          properties: { day: { anyOf: [{ type: 'string', enum: ['mon'] }, { type: 'null' }] } },
          required: ['day'],
        },
        pair: { type: 'array', prefixItems: [{ type: 'string' }, {}] },
        rest: { type: 'object', additionalProperties: { type: 'integer', description: '{multipleOf: 2}' } },
      },
      required: ['city'],
      additionalProperties: false,
      $defs: { stop: { type: 'object', properties: {} } },
    }
    const both: Partial<TextRequest> = {
      tools: [
        { name: 'plan', parameters: written(schema) },
        { name: 'bare', parameters: written({}) },
      ],
      response_format: { type: 'json_schema', schema: written(schema) },
    }
    const fields = await sent(both, { model: 'gemini-3.6-flash' })
    expect(fields).toMatchObject({
      tools: [{ functionDeclarations: [{ name: 'plan', parametersJsonSchema: reduced }, { name: 'bare' }] }],
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema: reduced },
    })
    expect(upstream.calls[0]?.status).toBe(200)
  })

  test('rejects a remote image without a call', async () => {
    const source = { kind: 'url' as const, url: 'https://CANARY.example/a.png' }
    const outcome = await generate({ messages: [{ role: 'user', parts: [{ type: 'image', source }] }] })
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_rejected', reason: 'not sent: an image is not inline' })
    expect(upstream.calls).toHaveLength(0)
  })

  test.each([
    ['an invalid base URL', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { key: 'AIza_CANARY\nkey' }],
    ['a model with a path', { model: '../CANARY' }],
  ])('rejects %s at creation without quoting it', (_name, setting) => {
    expect(() => generate({}, setting)).toThrow(/^(?!.*CANARY)The Gemini /)
  })
})

const words = (count: number, seed: string) => `${seed} ${'tram '.repeat(count)}`
const cachedOf = async (...texts: string[]) =>
  (await generated({ messages: texts.map((text) => textMessage(text)), max_output_tokens: 64 })).usage
    .cached_input_tokens ?? 0

describe('answers of the simulated vendor', () => {
  test('reports what its prompt cache read, from 2,048 tokens on and in whole steps', async () => {
    expect(await cachedOf(words(1900, 'short'))).toBe(0)
    expect(await cachedOf(words(1900, 'short'))).toBe(0)
    expect(await cachedOf(words(5000, 'long'))).toBe(0)
    const cached = await cachedOf(words(5000, 'long'), 'And then?')
    expect(cached % 256).toBe(0)
    expect(cached).toBeGreaterThan(5000 - 256)
    expect(cached).toBeLessThanOrEqual(5003)
    expect(await cachedOf(words(5000, 'other'), 'And then?')).toBe(0)
  })

  test('returns text that depends on the prompt, and usage', async () => {
    const output = await generated()
    expect(output).toMatchObject({ finish_reason: 'stop', refusal: null, tool_calls: [] })
    expect(output.text).toContain('You wrote 6 words: “When does the CANARY tram leave?”')
    expect(output.usage.thinking_tokens).toBeGreaterThan(0)
    expect(output.usage.output_tokens).toBeGreaterThan(output.usage.thinking_tokens ?? 0)
    expect(output.usage.input_tokens).toBeLessThanOrEqual('When does the CANARY tram leave?'.length + 4)
    expect(output.thought_signatures).toHaveLength(1)
    expect(await generated()).toEqual(output)
  })

  test('never exceeds the output limit, thinking included', async () => {
    for (const limit of [1, 2, 3, 10, 57]) {
      const output = await generated({ messages: [textMessage('write 300 words')], max_output_tokens: limit })
      expect(output.finish_reason).toBe('length')
      expect(output.usage.output_tokens).toBe(limit)
    }
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

  test('calls a tool with valid arguments and answers its result with text', async () => {
    const question = textMessage('What is the weather in Paris?')
    const output = await generated({ messages: [question], tools: [WEATHER_TOOL] })
    expect(output).toMatchObject({ text: null, finish_reason: 'tool_calls' })
    const [call = { id: '', name: '', arguments_json: '' }] = output.tool_calls
    expect(call).toMatchObject({ id: expect.stringMatching(/^call_[0-9a-f]{24}$/), arguments_json: '{"city":"Paris"}' })
    const result = { type: 'tool_result' as const, tool_call_id: call.id, text: 'sunny, 21 degrees' }
    const turns = [question, { role: 'assistant' as const, parts: [{ type: 'tool_call' as const, ...call }] }]
    const final = await generated({ messages: [...turns, { role: 'user', parts: [result] }], tools: [WEATHER_TOOL] })
    expect(final).toMatchObject({ finish_reason: 'stop', text: expect.stringContaining('sunny, 21 degrees') })
  })

  test('returns JSON that conforms to the schema', async () => {
    const schema = {
      type: 'object',
      properties: {
        city: { type: 'string' },
        days: { type: 'integer', minimum: 3 },
        tags: { type: 'array', items: { enum: ['a', 'b'] } },
      },
      required: ['city', 'days'],
    }
    const { text } = await generated({ response_format: { type: 'json_schema', schema: written(schema) } })
    expect(JSON.parse(text ?? '')).toMatchObject({ city: expect.any(String), days: 3, tags: expect.any(Array) })
  })

  const trip = { type: 'object', properties: { to: { $ref: '#/$defs/city' } }, $defs: { city: { type: 'string' } } }
  test.each<object>([
    trip,
    { type: 'object', properties: { n: { type: 'integer', minimum: 5, maximum: 6 } }, required: ['n'] },
    { type: 'array', items: { type: 'number', exclusiveMaximum: 0 }, minItems: 4 },
    { type: 'object', properties: { a: { anyOf: [{ type: 'null' }, { enum: ['x', 'y'] }] }, b: { const: 7 } } },
    {
      type: 'object',
      properties: { when: { type: 'string', format: 'date-time' }, id: { type: 'string', format: 'uuid' } },
    },
    {
      type: 'object',
      properties: { long: { type: 'string', minLength: 90 } },
    },
    { allOf: [{ type: 'object', properties: { a: { type: 'boolean' } } }, { required: ['a'] }] },
  ])('the simulated model generates valid JSON for %o', (schema) => {
    const value = sampleJson(schema, 'Weather in Paris')
    expect(z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value)).toMatchObject({
      success: true,
    })
    expect(sampleJson(schema, 'Weather in Paris')).toEqual(value)
  })

  test('the simulated model never counts more tokens than bytes', () => {
    // Creating fast-check's own unit of this kind takes most of a second and would block the simulated vendor.
    const codePoint = fc.integer({ min: 0, max: 0x10_ff_ff }).map((value) => String.fromCodePoint(value))
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), (text) => {
        expect(tokenPieces(text).join('')).toBe(text)
        expect(tokenPieces(text).length).toBeLessThanOrEqual(Buffer.byteLength(text))
      }),
    )
  })

  test('reports a withheld answer as a refusal and a blocked prompt as rejected', async () => {
    expect(await generated({ messages: [textMessage('please refuse')] })).toMatchObject({
      text: null,
      refusal: expect.stringContaining('content filter'),
      finish_reason: 'content_filter',
    })
    expect(await generate({ messages: [textMessage('please block')] })).toEqual({
      ...DEFINITE,
      code: 'provider_rejected',
      reason: 'HTTP 200 with a blocked prompt, PROHIBITED_CONTENT',
    })
  })

  const HARD = textMessage('Think hard: when does the last tram leave?')

  test('leaves room for text, however hard the question and low the limit', async () => {
    for (const [model, limit] of [
      ['gemini-2.5-flash', 64],
      ['gemini-2.5-pro', 512],
      ['gemini-3.1-flash-lite', 64],
      ['gemini-3.6-flash', 512],
      ['gemini-3.6-flash', 1500],
      ['gemini-3.6-flash', 16_384],
    ] as const) {
      const output = await generated({ messages: [HARD], max_output_tokens: limit }, { model })
      expect(output).toMatchObject({ text: expect.stringContaining('tram'), finish_reason: 'stop' })
      expect(output.usage.thinking_tokens).toBeLessThan(limit)
    }
  })

  test('an answer that was thought away is empty, ends with length, and has all tokens of the limit', async () => {
    expect(await generated({ messages: [HARD], max_output_tokens: 200 }, { model: 'gemini-3.6-flash' })).toEqual({
      text: '',
      refusal: null,
      tool_calls: [],
      finish_reason: 'length',
      usage: { input_tokens: expect.any(Number), output_tokens: 200, thinking_tokens: 200 },
    })
  })

  test('reports an empty output when the model ends without a word, or with a malformed call', async () => {
    expect(await generate({ messages: [textMessage('please say nothing')] })).toMatchObject(EMPTY)
    const malformed = { messages: [textMessage('A call of get_weather that goes wrong')], tools: [WEATHER_TOOL] }
    expect(await generate(malformed)).toMatchObject({
      ...EMPTY,
      reason: 'HTTP 200 without text or call, MALFORMED_FUNCTION_CALL',
    })
  })

  test.each([
    ['a wrong key', { key: 'AIza_CANARY_wrong' }, 'provider_unavailable', 'HTTP 400 INVALID_ARGUMENT API_KEY_INVALID'],
    ['an unknown model', { model: 'unknown' }, 'provider_unavailable', 'HTTP 404 NOT_FOUND'],
    ['an image model', { model: 'gemini-3.1-flash-lite-image' }, 'provider_unavailable', 'HTTP 400 INVALID_ARGUMENT'],
  ])('fails definitely before any work with %s', async (_name, setting, code, reason) => {
    expect(await generate({}, setting)).toMatchObject({ ...DEFINITE, code, reason })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })
})

describe('documented answers', () => {
  test('translates a documented plain answer', async () => {
    answerWith(fixture('text'))
    expect(await generate()).toEqual({
      outcome: 'generated',
      vendorRequestId: 'mAitaLmkHPPlz7IPvtfUqQ4',
      output: {
        text: 'The tram leaves at nine.',
        refusal: null,
        tool_calls: [],
        finish_reason: 'stop',
        usage: { input_tokens: 11, output_tokens: 7 },
      },
    })
  })

  test('counts cached tokens and hidden thinking, replaces tool call ids and keeps signatures', async () => {
    answerWith(fixture('thinking-and-calls'))
    const output = await generated()
    expect(output).toMatchObject({
      text: 'Let me look.',
      finish_reason: 'tool_calls',
      usage: { input_tokens: 128, cached_input_tokens: 64, output_tokens: 250, thinking_tokens: 210 },
      thought_signatures: ['CmQBjz1rX4f+zGVub3VnaA=='],
    })
    expect(output.tool_calls.map(({ name, arguments_json: args }) => [name, args])).toEqual([
      ['get_weather', '{"city":"Paris"}'],
      ['get_weather', '{"city":"London"}'],
      ['list_cities', '{}'],
    ])
    expect(new Set(output.tool_calls.map(({ id }) => id)).size).toBe(3)
    expect(JSON.stringify(output)).not.toMatch(/CANARY|8f2b1a3/)
  })

  test('keeps the usage of a withheld answer', async () => {
    answerWith(fixture('withheld'))
    expect(await generated()).toMatchObject({
      text: null,
      finish_reason: 'content_filter',
      usage: { input_tokens: 9, output_tokens: 21, thinking_tokens: 21 },
    })
  })

  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['CONTINUATION', 'length'],
    ['RECITATION', 'content_filter'],
    ['OTHER', 'content_filter'],
    ['MALFORMED_FUNCTION_CALL', 'content_filter'],
    ['A_NEW_REASON', 'stop'],
    ['OUTPUT_LIMIT', 'length'],
    ['NEW_SAFETY', 'content_filter'],
    [undefined, 'stop'],
  ])('translates finish reason %s with text to %s', async (reason, expected) => {
    answerWith(withReason(reason))
    expect(await generated()).toMatchObject({ text: 'So far', refusal: null, finish_reason: expected })
  })

  test('replaces characters that PostgreSQL cannot store', async () => {
    answerWith(JSON.stringify(withReason('STOP', 'TEXT')).replace('TEXT', 'a\\u0000b\\ud800c'))
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

  test('an answer whose whole limit went into thinking is complete, empty, and has usage', async () => {
    answerWith(fixture('all-tokens-thought'))
    expect(await generated()).toMatchObject({
      text: '',
      refusal: null,
      finish_reason: 'length',
      usage: { input_tokens: 9, output_tokens: 512, thinking_tokens: 512 },
    })
  })

  test('so is one whose limit of a request went into thinking', async () => {
    const { candidates, ...answer } = fixture('all-tokens-thought') as { candidates: object[] }
    answerWith({ ...answer, candidates: candidates.map((each) => ({ ...each, finishReason: 'CONTINUATION' })) })
    expect(await generated()).toMatchObject({ text: '', finish_reason: 'length', usage: { output_tokens: 512 } })
  })

  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
  ])('delivers blank text that ends with %s as it is', async (reason, expected) => {
    answerWith(withReason(reason, ' \n'))
    expect(await generated()).toMatchObject({ text: ' \n', refusal: null, finish_reason: expected })
  })

  test('omits blank text next to a call', async () => {
    answerWith({
      ...withReason('STOP'),
      candidates: [{ content: { parts: [{ text: '\n' }, { functionCall: { name: 'f' } }] }, finishReason: 'STOP' }],
    })
    expect(await generated({ stop_sequences: ['x'] })).toMatchObject({ text: null, tool_calls: [{ name: 'f' }] })
  })

  test.each<[string, unknown]>([
    ['no text', withReason('STOP', '')],
    ['no candidate', { candidates: [], usageMetadata: { promptTokenCount: 3 } }],
    ['a malformed call', withReason('MALFORMED_FUNCTION_CALL', '')],
    ['a new reason without text', withReason('A_NEW_REASON', '')],
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
    ['no prompt tokens', { candidatesTokenCount: 5 }, 6, 5],
    ['no tokens for text', { promptTokenCount: 3, thoughtsTokenCount: 70 }, 3, 72],
    ['the total for the text', { promptTokenCount: 3, thoughtsTokenCount: 70, totalTokenCount: 83 }, 3, 80],
    ['the total for the prompt', { candidatesTokenCount: 5, thoughtsTokenCount: 70, totalTokenCount: 83 }, 8, 75],
    ['the total only', { totalTokenCount: 83 }, 6, 2],
    ['a negative count', { promptTokenCount: -2, candidatesTokenCount: 5 }, 6, 5],
    ['counts in text', { promptTokenCount: '3', candidatesTokenCount: '5' }, 3, 5],
    ['a list of counts', [3, 5], 6, 2],
  ])('delivers an answer with %s, and charges what it has at least', async (_name, usageMetadata, input, output) => {
    answerWith({ ...withReason('STOP'), usageMetadata })
    expect(await generated()).toMatchObject({
      text: 'So far',
      usage: { input_tokens: input, output_tokens: output },
    })
  })

  test.each<[string, unknown, string]>([
    ['without arguments', {}, '{}'],
    ['with null', { args: null }, '{}'],
    ['with a text', { args: 'ls -l' }, 'ls -l'],
    ['with a number', { args: 7 }, '7'],
  ])('delivers a call %s as it was written', async (_name, args, expected) => {
    const parts = [{ functionCall: { name: 'f', ...(args as object) } }]
    answerWith({ ...withReason('STOP'), candidates: [{ content: { parts }, finishReason: 'STOP' }] })
    expect(await generated()).toMatchObject({ tool_calls: [{ name: 'f', arguments_json: expected }] })
  })

  test.each([
    [{ functionCall: { args: {} } }],
    [{ text: ['CANARY'] }],
    [{ thought: 'yes', text: 'CANARY' }],
    [7],
    [null],
  ])('a part like %j costs no other, and shows no thinking', async (part) => {
    const parts = [part, { text: 'So far', thought: 'false' }, { functionCall: { name: 'f' } }]
    answerWith({ ...withReason('STOP'), candidates: [{ content: { parts }, finishReason: 'STOP' }] })
    expect(await generated()).toMatchObject({ text: 'So far', tool_calls: [{ name: 'f' }] })
  })

  test('names the fields that were not as documented, and no text of the vendor', async () => {
    answerWith({ ...withReason('CANARY_REASON'), usageMetadata: { promptTokenCount: 'CANARY' } })
    const outcome = await generate()
    expect(outcome).toMatchObject({ mended: ['finishReason', 'promptTokenCount'] })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  test.each<[string, unknown]>([
    ['nothing', {}],
    ['a text in place of the candidates', { candidates: 'CANARY' }],
  ])('leaves the outcome unknown for an answer with %s', async (_name, body) => {
    answerWith(body)
    expect(await generate()).toMatchObject(UNKNOWN_OUTCOME)
  })
})

describe('definite failures before any work', () => {
  test.each([
    [400, 'FAILED_PRECONDITION', 'provider_unavailable'],
    [401, 'UNAUTHENTICATED', 'provider_unavailable'],
    [403, 'PERMISSION_DENIED', 'provider_unavailable'],
    [404, 'NOT_FOUND', 'provider_unavailable'],
    [429, 'RESOURCE_EXHAUSTED', 'provider_unavailable'],
    [500, 'INTERNAL', 'provider_unavailable'],
    [503, 'UNAVAILABLE', 'provider_unavailable'],
  ])('fails definitely on %i %s with %s', async (status, name, code) => {
    answerWith({ error: { code: status, message: 'CANARY', status: name } }, status)
    expect(await generate()).toEqual({ ...DEFINITE, code, reason: `HTTP ${status} ${name}` })
    expect(upstream.calls).toHaveLength(1)
  })

  test('a request that is too large for this vendor is left to another deployment', async () => {
    answerWith(named(413, 'INVALID_ARGUMENT'), 413)
    expect(await generate()).toEqual(unserviceable('HTTP 413 INVALID_ARGUMENT'))
  })

  test.each([400, 422])('a %i for an unknown reason is rejected by this deployment only', async (status) => {
    answerWith(named(status, 'INVALID_ARGUMENT'), status)
    expect(await generate()).toEqual(rejectedByDeployment(`HTTP ${status} INVALID_ARGUMENT`))
  })

  test('a model that was shut down is definitely gone', async () => {
    answerWith(named(410, 'GONE'), 410)
    expect(await generate()).toEqual(gone('HTTP 410 GONE'))
  })

  test.each([
    'Penalty is not enabled for models/gemini-2.5-flash',
    "Function calling with a response mime type: 'application/json' is unsupported",
    "Tool use with a response mime type: 'application/json' is unsupported",
    'Requests ending with a model turn are not supported unless the last part is a function response.',
    'Function call is missing a thought_signature in functionCall parts.',
    'Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.',
    'The thinking budget 128 is invalid. Please choose a value between 512 and 24576.',
    'Budget 0 is invalid. This model only works in thinking mode.',
    'thinking_config is not supported by this model.',
    'Unable to submit request because it has a maxOutputTokens value of 65537 but the supported range is from 1 (inclusive) to 65537 (exclusive).',
    'The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).',
  ])('leaves what only this model does not support to another deployment: %s', async (message) => {
    answerWith({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }, 400)
    expect(await generate()).toEqual(unserviceable('HTTP 400 INVALID_ARGUMENT'))
  })

  test.each([
    '* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[aspectRatio].type: must be specified',
    '* GenerateContentRequest.generation_config.response_schema.properties[image size].items: missing field.',
  ])('names that the caller chose never count as a fault of the deployment: %s', async (message) => {
    answerWith({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }, 400)
    expect(await generate()).toEqual(rejectedByDeployment('HTTP 400 INVALID_ARGUMENT'))
  })

  test('keeps the vendor’s error names, but not its messages', async () => {
    answerWith(fixture('error-invalid-argument'), 400)
    expect(await generate()).toEqual(rejectedByDeployment('HTTP 400 INVALID_ARGUMENT'))
    answerWith(fixture('error-invalid-key'), 400)
    expect(await generate()).toMatchObject({
      code: 'provider_unavailable',
      reason: expect.stringMatching(/API_KEY_INVALID$/),
    })
  })

  test('reads retry-after from the header, or else from the error’s details', async () => {
    answerWith(fixture('error-resource-exhausted'), 429)
    expect(await generate()).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 35 })
    answerWith(fixture('error-resource-exhausted'), 429, { 'retry-after': '7' })
    expect(await generate()).toMatchObject({ retryAfterSeconds: 7 })
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

describe('ambiguous failures after exactly one call', () => {
  test.each<[FaultRuleInput, string]>([
    [{ fault: 'status', status: 500, body: {} }, 'HTTP 500'],
    [{ fault: 'status', status: 503, body: '<html>CANARY</html>' }, 'HTTP 503'],
    [{ fault: 'status', status: 500, body: named(500, 'UNKNOWN') }, 'HTTP 500 UNKNOWN'],
    [{ fault: 'status', status: 502, body: {} }, 'HTTP 502'],
    [{ fault: 'status', status: 504, body: named(504, 'DEADLINE_EXCEEDED') }, 'HTTP 504 DEADLINE_EXCEEDED'],
    [{ fault: 'status', status: 408, body: {} }, 'HTTP 408'],
    [{ fault: 'status', status: 202, body: {} }, 'HTTP 202'],
    [{ fault: 'status', status: 307, body: {}, headers: { location: 'http://127.0.0.1:1/' } }, 'HTTP 307'],
    [{ fault: 'hang' }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'slowBody', everyMs: 100 }, `HTTP 200, no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
    [{ fault: 'truncatedJson' }, 'HTTP 200 with a body that is not JSON'],
    [{ fault: 'hugeBody', bytes: 17 * 1024 * 1024 }, 'HTTP 200, response larger than 16777216 bytes'],
    [{ fault: 'status', status: 200, body: '[]' }, 'HTTP 200 with a malformed answer'],
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
    { fault: 'status', status: 400, body: fixture('error-invalid-argument') },
    { fault: 'status', status: 400, body: fixture('error-invalid-key') },
    { fault: 'status', status: 429, body: fixture('error-resource-exhausted') },
    {
      fault: 'status',
      status: 403,
      body: { error: { status: API_KEY, details: [{ reason: `x ${API_KEY}` }] } },
    },
    { fault: 'status', status: 500, body: `CANARY ${API_KEY}` },
    {
      fault: 'status',
      status: 200,
      body: { promptFeedback: { blockReason: 'OTHER' }, candidates: [{ finishReason: 'CANARY STOP' }] },
    },
    { fault: 'truncatedJson' },
    { fault: 'resetMidBody' },
    { fault: 'emptyText' },
  ]
  for (const rule of rules) {
    upstream.setFaults([rule])
    const outcome = await generate()
    expect(outcome.outcome).toBe('failed')
    expect(JSON.stringify(outcome)).not.toMatch(/CANARY|AIza|tram/)
  }
})
