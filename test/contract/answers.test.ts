import { createHash, randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { addBalanceRoutes } from '../../api/routes/balance.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createAnthropicText } from '../../workers/providers/anthropic/text.ts'
import { createGeminiText } from '../../workers/providers/gemini/text.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../workers/providers/openai-compatible/text.ts'
import { createProviderFetch } from '../../workers/providers/provider-fetch.ts'
import type { TextProvider } from '../../workers/providers/provider.ts'
import { composeApp, limitTo, terms } from '../integration/routes/compose-app.ts'
import { type InterfaceDescription, readDescription } from '../support/http/described-answers.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../support/payer/custom-payment.ts'
import { createPayer } from '../support/payer/payer.ts'
import { type ObservedAnswer, type ObservedSandbox, useObservedSandbox } from '../support/processes/observed-sandbox.ts'
import { until } from '../support/until.ts'
import { createExpiringHttp } from './expiring-http.ts'

const keyHeader = () => ({ 'x-idempotency-key': randomUUID() })
const TEXT_BODY = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }
const TEXT_QUOTE = { operation: 'createMessage', request: TEXT_BODY }
const DESCRIBED_AUDIO = { sha256: 'a'.repeat(64), bytes: 400_000, duration_ms: 25_000 }
const DESCRIBED_QUOTE = {
  operation: 'createTranscription',
  request: { model: 'speechvendor/scribe-v2', audio: DESCRIBED_AUDIO },
}
interface Request {
  /** Pays for a 402. */
  pays?: boolean
  /** The body of a POST, sent with a fresh key unless `headers` has one. */
  json?: unknown
  headers?: Record<string, string>
  method?: string
}
const API_KEY = 'CANARY-key'
const providerFetch = createProviderFetch()
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

/** Pages that callers keep with their `ETag`. */
const CACHED = [
  '/',
  '/llms.txt',
  '/SKILL.md',
  '/robots.txt',
  '/openapi.json',
  '/v1/models/speechvendor%2Fscribe-v2',
  ...['x402', 'did.json', 'jwks.json'].map((name) => `/.well-known/${name}`),
]

describe('answers as the interface describes them', () => {
  let sandbox: ObservedSandbox
  let description: InterfaceDescription
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
    description = await readDescription(sandbox.info.baseUrl)
  })

  afterAll(() => sandbox.stop())

  const PAID_BODIES: Record<string, () => Record<string, unknown>> = {
    '/v1/chat/completions': () => TEXT_BODY,
    '/v1/messages': () => TEXT_BODY,
    '/v1/images/generations': () => ({ model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }),
    '/v1/audio/speech': () => ({ model: 'speechvendor/flash-v2.5', input: 'Mind the step.' }),
    '/v1/audio/transcriptions': () => ({
      model: 'speechvendor/scribe-v2',
      audio_base64: sandbox.sample.toString('base64'),
    }),
  }
  const PAID_PATHS = Object.keys(PAID_BODIES)
  const bodyOf = (path: string) => PAID_BODIES[path]?.() ?? {}
  async function send(path: string, { pays = false, json, ...init }: Request = {}): Promise<Response> {
    const sender = pays ? sandbox.payingFetch : sandbox.observingFetch
    return sender(`${sandbox.info.baseUrl}${path}`, {
      ...init,
      ...(json === undefined
        ? {}
        : {
            method: 'POST',
            body: JSON.stringify(json),
            headers: { ...keyHeader(), 'content-type': 'application/json', ...init.headers },
          }),
    })
  }
  /** Sends requests, and expects these statuses and answers that match the description. */
  async function expectStatuses(expected: readonly unknown[], ...requests: (() => Promise<unknown>)[]): Promise<void> {
    const first = sandbox.answers.length
    for (const request of requests) await request()
    const seen = sandbox.answers.slice(first)
    expect(seen.flatMap(description.problemsOf)).toEqual([])
    // The bodies show the reason for an unexpected status.
    const received = seen.map(({ status, body }) => [status, status < 400 ? '' : body.toString()])
    expect(received).toEqual(expected.map((status) => [status, expect.any(String)]))
  }
  it.each(PAID_PATHS)(
    '%s answers as described with 402, 200, 400, 409 and 415 [spec S2, F1, T6, O30]',
    async (path) => {
      const headers = keyHeader()
      await expectStatuses(
        [402, 200, 400, 409, 415, 400, expect.toBeOneOf([402, 405]), 400],
        () => send(path, { pays: true, json: bodyOf(path), headers }),
        () => send(path, { json: { ...bodyOf(path), model: 'unknown' } }),
        () => send(path, { json: otherBody(path), headers }),
        () => send(path, { json: bodyOf(path), headers: { 'content-type': 'text/plain' } }),
        () => send(path, { json: bodyOf(path), headers: { 'payment-signature': 'junk' } }),
        () => send(path),
        () => send(path, { json: {}, headers: { 'x-idempotency-key': '' } }),
      )
    },
  )

  function otherBody(path: string): Record<string, unknown> {
    const { prompt, input, ...body } = bodyOf(path)
    if (prompt !== undefined) return { ...body, prompt: 'A bus' }
    if (input !== undefined) return { ...body, input: 'Mind the gap.' }
    return 'messages' in body ? { ...body, max_tokens: 200 } : { ...body, language: 'it' }
  }
  it.each(PAID_PATHS)('%s answers as described with 503 when every vendor is down [spec T7, F5]', async (path) => {
    await sandbox.setFaults([{ fault: 'status', status: 503, times: 'always' }])
    try {
      await expectStatuses([402, 503], () => send(path, { pays: true, json: bodyOf(path) }))
    } finally {
      await sandbox.setFaults([])
    }
  })

  it('a payer whose calls cost too much without a charge gets 429 with what counted and when to retry', async () => {
    const path = '/v1/chat/completions'
    await expectStatuses([402, 200], () => send(path, { pays: true, json: bodyOf(path) }))
    await sandbox.sql(
      `INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, created_at)
     SELECT job_id, id, network, payer, 'empty_output', 5000000, false, now() - interval '59 minutes'
     FROM authorizations WHERE payer = $1 LIMIT 1`,
      [sandbox.payer.address.toLowerCase()],
    )
    try {
      await expectStatuses([402, 429], () => send(path, { pays: true, json: bodyOf(path) }))
    } finally {
      await sandbox.sql('DELETE FROM uncharged_work WHERE payer = $1', [sandbox.payer.address.toLowerCase()])
    }
    const { headers, body } = sandbox.answers.at(-1) as ObservedAnswer
    const retryAfter = Number(headers.get('retry-after'))
    expect(retryAfter).toBeGreaterThan(0)
    expect(retryAfter).toBeLessThanOrEqual(60)
    expect(JSON.parse(body.toString())).toMatchObject({
      error: {
        code: 'uncharged_work_limit',
        payment: 'none',
        retry: 'new_payment',
        message: expect.stringMatching(
          /^Recent calls .* count 5\S* USDC \(calls without usable output 5\b.*Retry in \d+ seconds/,
        ),
      },
    })
  })

  it('/v1/audio/speech answers as described when it returns the MP3 itself', async () => {
    const json = bodyOf('/v1/audio/speech')
    const call = () => send('/v1/audio/speech', { pays: true, json, headers: { accept: 'audio/mpeg' } })
    await expectStatuses([402, 200], call)
  })

  it('the free and support routes answer as described [spec O20, O21, O30]', async () => {
    const image = await send('/v1/images/generations', { pays: true, json: bodyOf('/v1/images/generations') })
    const { data } = (await image.json()) as { data: [{ url: string }] }
    const media = new URL(data[0].url).pathname
    const receipt = `/v1/receipts/${image.headers.get('x-receipt-id')}`
    const token = `Bearer ${image.headers.get('x-receipt-token')}`
    const etag = (await send('/v1/models')).headers.get('etag') ?? ''
    const quoteKey = keyHeader()
    const cases: (readonly [number, () => Promise<unknown>])[] = [
      [200, () => send('/v1/models')],
      [304, () => send('/v1/models', { headers: { 'if-none-match': etag } })],
      [200, () => send('/v1/pricing')],
      [200, () => send('/v1/audio/voices')],
      [200, () => send(`/v1/balance?address=${sandbox.payer.address}`)],
      [400, () => send('/v1/balance?address=nobody')],
      [200, () => send('/v1/quotes', { json: TEXT_QUOTE })],
      [400, () => send('/v1/quotes', { json: { operation: 'createPoem', request: TEXT_BODY } })],
      [200, () => send('/v1/quotes', { json: DESCRIBED_QUOTE })],
      [402, () => send('/v1/quotes', { json: { ...DESCRIBED_QUOTE, challenge: true }, headers: quoteKey })],
      [409, () => send('/v1/quotes', { json: { ...TEXT_QUOTE, challenge: true }, headers: quoteKey })],
      [200, () => send(receipt, { headers: { authorization: token } })],
      [401, () => send(receipt)],
      [404, () => send(receipt, { headers: { authorization: 'Bearer x' } })],
      [200, () => send(media)],
      [206, () => send(media, { headers: { range: 'bytes=0-9' } })],
      [416, () => send(media, { headers: { range: 'bytes=999999999-' } })],
      [404, () => send('/media/unknown')],
      [200, () => send('/.well-known/x402')],
      [200, () => send('/.well-known/did.json')],
      [200, () => send('/.well-known/jwks.json')],
      [200, () => send('/openapi.json')],
      [200, () => send('/')],
      [200, () => send('/', { headers: { accept: 'text/markdown' } })],
      [200, () => send('/', { headers: { accept: 'text/plain' } })],
      [200, () => send('/v1/models/speechvendor%2Fscribe-v2')],
      [404, () => send('/v1/models/textmodel-0')],
      [200, () => send('/llms.txt')],
      [200, () => send('/SKILL.md')],
      [200, () => send('/robots.txt')],
      [404, () => send('/.well-known/security.txt')],
      [200, () => send('/healthz')],
      [200, () => send('/readyz')],
      [404, () => send('/v1/unknown')],
      ...CACHED.map((path) => [304, () => send(path, { headers: { 'if-none-match': '*' } })] as const),
      [405, () => send('/v1/models', { method: 'DELETE' })],
    ]
    await expectStatuses(
      cases.map(([status]) => status),
      ...cases.map(([, request]) => request),
    )
  })

  it('the paid endpoints answer as described with 412, 413 and 410 [spec O30]', async () => {
    const path = '/v1/audio/speech'
    const [headers, unapproved] = [keyHeader(), await createPayer(sandbox.info.rpcUrl)]
    const required = challengeOf(await send(path, { json: bodyOf(path), headers }))
    const payment = paymentHeader(await signCustomPayment(required, unapproved))
    const call = keyHeader()
    const paid = await send(path, { pays: true, json: bodyOf(path), headers: { ...call, accept: 'audio/mpeg' } })
    const token = (paid.headers.get('x-media-url') ?? '').split('/').at(-1) ?? ''
    await sandbox.sql('UPDATE media SET expires_at = now() WHERE token_sha256 = $1', [
      createHash('sha256').update(token).digest('hex'),
    ])
    const large = { ...bodyOf(path), input: 'x'.repeat(300_000) }
    await expectStatuses(
      [412, 413, 402, 410],
      () => send(path, { json: bodyOf(path), headers: { ...headers, ...payment } }),
      () => send(path, { json: large }),
      () => send(path, { pays: true, json: bodyOf(path), headers: { ...call, accept: 'audio/mpeg' } }),
    )
  })

  it('an endpoint answers as described with 429 [spec O30]', async () => {
    const limited = await composeApp((app) =>
      addBalanceRoutes(app, { terms, balances: { readBalance: async () => atomicAmount(0n) }, limitRate: limitTo(1) }),
    )
    const path = '/v1/balance'
    const answers = [await limited.inject(`${path}?address=${terms.payTo}`), await limited.inject(path)]
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 429])
    const problems = answers.map(({ statusCode: status, headers, rawPayload: body }) =>
      description.problemsOf({
        method: 'GET',
        path,
        status,
        headers: new Headers(headers as Record<string, string>),
        body,
        idempotencyKey: null,
        payment: null,
      }),
    )
    expect(problems).toEqual([[], []])
  })

  it('only a 200 has a receipt token [spec A5]', () => {
    const withToken = sandbox.answers.filter(({ headers }) => headers.has('x-receipt-token'))
    expect(new Set(withToken.map(({ status }) => status))).toEqual(new Set([200]))
    const refused = new Set(sandbox.answers.map(({ status }) => status).filter((status) => status >= 400))
    expect([...refused]).toEqual(expect.arrayContaining([400, 401, 402, 404, 405, 409, 410, 412, 413, 415, 503]))
  })

  it('the comparison with the description finds undescribed statuses, types and fields', async () => {
    await send('/v1/models')
    const answer = sandbox.answers.at(-1) as ObservedAnswer
    const list = JSON.parse(answer.body.toString()) as Record<string, unknown>
    const changed = (change: Partial<ObservedAnswer>) => description.problemsOf({ ...answer, ...change })
    expect(changed({})).toEqual([])
    expect(changed({ status: 418 })).toHaveLength(1)
    expect(changed({ headers: new Headers({ 'content-type': 'text/html' }) }).length).toBeGreaterThan(1)
    expect(changed({ body: Buffer.from(JSON.stringify({ ...list, object: 'array' })) })).toHaveLength(1)
    expect(changed({ body: Buffer.from(JSON.stringify({ ...list, more: 1 })) })).toHaveLength(1)
  })
})

describe('answers that vendors stream', () => {
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
      expect(await outcome).toMatchObject({
        ...UNKNOWN_OUTCOME,
        reason: expect.stringMatching(/aborted by the caller$/),
      })
      await until(() => upstream.calls[0]?.state === 'aborted')
    })

    test.each<[FaultRuleInput, RegExp]>([
      [midStream('reset'), /^HTTP 200, (ECONNRESET|UND_ERR_SOCKET)$/],
      [midStream('end'), /^HTTP 200 with a stream that ended early$/],
      [midStream('error', { type: 'error', error: { type: 'overloaded_error', code: 503 } }), /^HTTP 200 with /],
    ])('is left with an unknown outcome after %o', async (rule, reason) => {
      upstream.setFaults([rule])
      const outcome = await generate()
      expect(outcome).toMatchObject({ ...UNKNOWN_OUTCOME, reason: expect.stringMatching(reason) })
      expect(upstream.calls).toHaveLength(1)
      // What the vendor bills at least; some servers count at the end.
      expect('usage' in outcome).toBe(name !== 'openai-compatible')
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
})
