import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createAnthropicText } from '../../workers/providers/anthropic/text.ts'
import { createGeminiText } from '../../workers/providers/gemini/text.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../workers/providers/openai-compatible/text.ts'
import type { TextProvider } from '../../workers/providers/provider.ts'
import { createProviderFetch } from '../../workers/providers/provider-fetch.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'CANARY-key'
const providerFetch = createProviderFetch()

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

const VENDORS: Readonly<Record<string, (http: SendHttp) => TextProvider>> = {
  anthropic: (http) =>
    createAnthropicText({ baseUrl: upstream.url, apiKey: API_KEY, upstreamModel: 'claude-sonnet-4-5', http }),
  gemini: (http) =>
    createGeminiText({ baseUrl: upstream.url, apiKey: API_KEY, upstreamModel: 'gemini-2.5-flash-lite', http }),
  'openai-compatible': (http) =>
    createOpenAiCompatibleText({
      baseUrl: `${upstream.url}/v1`,
      apiKey: API_KEY,
      upstreamModel: 'simulated-chat',
      http,
    }),
}

const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'Please write 90 words.' }] }],
  max_output_tokens: 2000,
}
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

const midStream = (ending: 'stall' | 'reset' | 'end' | 'error', error = {}): FaultRuleInput => ({
  fault: 'midStream',
  afterEvents: 5,
  ending,
  error,
})

describe.each(Object.entries(VENDORS))('a streamed answer of the simulated %s', (name, vendor) => {
  const generate = (http = createHttp({ fetch: providerFetch }), options: { signal?: AbortSignal } = {}) =>
    vendor(http).generateText(REQUEST, { timeoutMs: PATIENCE_MS, ...options })
  const generated = async (http?: SendHttp) => {
    const outcome = await generate(http)
    if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
    return outcome.output
  }

  test('arrives whole, also in pieces with pauses between them', async () => {
    const whole = await generated()
    expect(whole.text?.split(' ').length).toBeGreaterThan(90)
    expect(whole.finish_reason).toBe('stop')
    upstream.setFaults([{ fault: 'slowBody', pieces: 5, everyMs: 1 }])
    expect(await generated()).toEqual(whole)
    expect(upstream.calls.map(({ state }) => state)).toEqual(['answered', 'answered'])
  })

  test('is counted by its words and events without the vendor’s counts, and never higher than they are', async () => {
    const whole = await generated()
    upstream.setFaults([{ fault: 'noUsage' }])
    const { usage } = await generated()
    expect(usage.input_tokens).toBe(4)
    expect(usage.output_tokens).toBeGreaterThanOrEqual(whole.text?.split(/\s+/).length ?? 0)
    expect(usage.output_tokens).toBeLessThanOrEqual(whole.usage.output_tokens)
  })

  test('is delivered as far as it has come when the time limit ends, and closes the connection to the vendor', async () => {
    const whole = await generated()
    upstream.clearCalls()
    const rule = midStream('stall')
    upstream.setFaults([rule])
    const cut = await generated(createExpiringHttp(upstream, rule, providerFetch))
    expect(cut).toMatchObject({ finish_reason: 'length', refusal: null, tool_calls: [] })
    expect(cut.text).not.toBe('')
    expect(whole.text?.startsWith(cut.text ?? 'none')).toBe(true)
    expect(cut.usage.output_tokens).toBeGreaterThanOrEqual(cut.text?.trim().split(/\s+/).length ?? 0)
    expect(cut.usage.output_tokens).toBeLessThan(whole.usage.output_tokens)
    expect(cut.usage.input_tokens).toBe(name === 'openai-compatible' ? 4 : whole.usage.input_tokens)
    await until(() => upstream.calls[0]?.state === 'aborted')
    expect(upstream.calls).toHaveLength(1)
  })

  test('is left with an unknown outcome when it stands still, and closes the connection to the vendor', async () => {
    upstream.setFaults([midStream('stall')])
    expect(await generate(createHttp({ fetch: providerFetch, stallMs: 50 }))).toMatchObject({
      ...UNKNOWN_OUTCOME,
      reason: 'HTTP 200, no event within 50 ms',
    })
    await until(() => upstream.calls[0]?.state === 'aborted')
  })

  test('is left with an unknown outcome when the caller aborts it, and closes the connection to the vendor', async () => {
    upstream.setFaults([midStream('stall')])
    const caller = new AbortController()
    const outcome = generate(undefined, { signal: caller.signal })
    await until(() => upstream.calls[0]?.state === 'started')
    caller.abort()
    expect(await outcome).toMatchObject({ ...UNKNOWN_OUTCOME, reason: expect.stringMatching(/aborted by the caller$/) })
    await until(() => upstream.calls[0]?.state === 'aborted')
  })

  test.each<[FaultRuleInput, RegExp]>([
    [midStream('reset'), /^HTTP 200, (ECONNRESET|UND_ERR_SOCKET)$/],
    [midStream('end'), /^HTTP 200 with a stream that ended early$/],
    [midStream('error', { type: 'error', error: { type: 'overloaded_error', code: 503 } }), /^HTTP 200 with /],
  ])('is left with an unknown outcome after %o', async (rule, reason) => {
    upstream.setFaults([rule])
    expect(await generate()).toMatchObject({ ...UNKNOWN_OUTCOME, reason: expect.stringMatching(reason) })
    expect(upstream.calls).toHaveLength(1)
  })
})

const provider = (streams: boolean) =>
  createOpenAiCompatibleText({
    baseUrl: `${upstream.url}/v1`,
    apiKey: API_KEY,
    upstreamModel: 'simulated-chat',
    http: createHttp({ fetch: providerFetch }),
    streams,
  })

describe('a server that cannot stream', () => {
  test('and a short answer, which is in time in any case, are asked for whole', async () => {
    for (const [index, vendor] of Object.values(VENDORS).entries()) {
      const request = { ...REQUEST, max_output_tokens: (16 * PATIENCE_MS) / 1000 }
      await vendor(createHttp({ fetch: providerFetch })).generateText(request, { timeoutMs: PATIENCE_MS })
      expect(upstream.calls[index]).toMatchObject({ status: 200, route: expect.not.stringContaining('stream') })
      expect(upstream.calls[index]?.fields).not.toHaveProperty('stream')
    }
  })

  test('gets a request for a whole answer by the deployment’s option, with the same result', async () => {
    const [streamed, whole] = [
      await provider(true).generateText(REQUEST, { timeoutMs: PATIENCE_MS }),
      await provider(false).generateText(REQUEST, { timeoutMs: PATIENCE_MS }),
    ]
    if (whole.outcome !== 'generated' || streamed.outcome !== 'generated') throw new Error('not generated')
    expect(upstream.calls.map(({ fields }) => [fields['stream'], fields['stream_options']])).toEqual([
      ['true', '{"include_usage":true}'],
      [undefined, undefined],
    ])
    expect(streamed.output).toEqual(whole.output)
  })
})
