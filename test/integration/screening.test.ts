import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import { operationById } from '#shared/operations/registry.ts'
import { createElevenLabsSpeech } from '../../workers/providers/elevenlabs/speech.ts'
import { createGeminiImage } from '../../workers/providers/gemini/image.ts'
import { createGeminiText } from '../../workers/providers/gemini/text.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createModerationScreener } from '../../workers/screening/screener.ts'
import {
  type ModerationCall,
  type ModerationServer,
  sendJson,
  startModerationServer,
  verdicts,
} from '../support/http/moderation-server.ts'
import { bindTestKey } from '../support/ledger/job-in-state.ts'
import { newTestJob } from '../support/ledger/new-test-job.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { createPayer } from '../support/payer/payer.ts'
import { signAuthorization } from '../support/payer/sign-authorization.ts'
import { routedTo, startTestWorker, type TestWorker } from '../support/processes/test-worker.ts'
import { until } from '../support/until.ts'

let server: ModerationServer
beforeAll(async () => {
  server = await startModerationServer()
})
beforeEach(() => {
  server.calls.length = 0
  server.answerWith(verdicts())
})
afterAll(() => server.stop())
const KEY = 'moderation-key'
const realHttp = createHttp({ fetch })
/** Sends for real, with a generous timeout. */
const patientHttp: SendHttp = (request, limits) => realHttp(request, { ...limits, timeoutMs: PATIENCE_MS })
/** Sends for real, and times out once the call has arrived, together with all of the response that will arrive. */
function timingOutHttp(answer: 'none' | 'begun'): SendHttp {
  return async (request, limits) => {
    let hasBegun = false
    const send = createHttp({
      fetch: async (...parameters) => {
        const response = await fetch(...parameters)
        hasBegun = true
        return response
      },
    })
    const limit = new AbortController()
    const sent = send(request, { ...limits, timeoutMs: PATIENCE_MS, signal: limit.signal })
    await until(() => server.calls.length > 0 && (answer === 'none' || hasBegun))
    limit.abort()
    return await sent
  }
}
function screener(changes: { apiKey?: undefined; baseUrl?: string; http?: SendHttp } = {}) {
  return createModerationScreener({
    baseUrl: server.baseUrl,
    apiKey: KEY,
    model: 'omni-moderation',
    http: patientHttp,
    ...changes,
  })
}
type Answer = (call: ModerationCall, response: ServerResponse) => void
const respondWith =
  (body: unknown, status = 200): Answer =>
  (_, response) =>
    sendJson(response, body, status)
const CLEAN_VERDICT = { flagged: false, categories: {} }
const verdictWithNull = (flagged: boolean) => ({ flagged, categories: { violence: flagged, illicit: null } })
/** Responses that are not a verdict on each of two texts. */
const NO_VERDICTS: readonly (readonly [string, Answer, SendHttp?])[] = [
  ['a 500', respondWith({ error: { message: 'broken' } }, 500)],
  ['a 401', respondWith({ error: { message: 'Incorrect API key' } }, 401)],
  ['a 429', respondWith({}, 429)],
  ['a 201', respondWith({ results: [CLEAN_VERDICT, CLEAN_VERDICT] }, 201)],
  ['a redirect', (_, response) => response.writeHead(307, { location: '/v1/elsewhere' }).end()],
  ['no response', () => undefined, timingOutHttp('none')],
  ['a reset', (_, response) => response.socket?.resetAndDestroy()],
  [
    'half a response',
    (_, response) => response.writeHead(200, { 'content-length': '90' }).write('{"results"'),
    timingOutHttp('begun'),
  ],
  ['no JSON', (_, response) => response.end('<html>flagged: false</html>')],
  ['an empty body', (_, response) => response.end()],
  ['another shape', respondWith({ flagged: false })],
  ['a null', respondWith(null)],
  ['a verdict that is a string', respondWith({ results: [{ flagged: 'false' }, CLEAN_VERDICT] })],
  ['no verdicts', respondWith({ results: [] })],
  ['a verdict too few', respondWith({ results: [CLEAN_VERDICT] })],
  ['a verdict too many', respondWith({ results: [CLEAN_VERDICT, CLEAN_VERDICT, CLEAN_VERDICT] })],
  ['more than a megabyte', respondWith({ results: [CLEAN_VERDICT, CLEAN_VERDICT], padding: 'x'.repeat(1_100_000) })],
]
const SCREENING_FAILURES = NO_VERDICTS.map(([name, answer, http = patientHttp]) => [name, answer, http] as const)
it('rejected content is a final 400, unavailable screening a 503 that a new payment may retry', () => {
  expect(ERROR_CODES.content_rejected).toMatchObject({ status: 400, retry: 'never', payment: 'none' })
  expect(ERROR_CODES.screening_unavailable).toMatchObject({ status: 503, retry: 'new_payment', payment: 'none' })
})

describe('the moderation endpoint', () => {
  it('the screener sends all texts in one request, with key and model', async () => {
    expect(await screener().screen(['one', 'two'])).toEqual({ outcome: 'passed' })
    expect(server.calls).toMatchObject([
      {
        method: 'POST',
        path: '/v1/moderations',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        body: { input: ['one', 'two'], model: 'omni-moderation' },
      },
    ])
  })

  it('the screener accepts an endpoint without a key and a base URL with a trailing slash', async () => {
    const open = screener({ apiKey: undefined, baseUrl: `${server.baseUrl}/` })
    expect(await open.screen(['one'])).toEqual({ outcome: 'passed' })
    expect(server.calls[0]).toMatchObject({ path: '/v1/moderations' })
    expect(server.calls[0]?.headers.authorization).toBeUndefined()
  })

  it('the screener passes without a request when there are no texts', async () => {
    expect(await screener().screen([])).toEqual({ outcome: 'passed' })
    expect(server.calls).toEqual([])
  })

  it('the screener rejects when any text is flagged, and names each category once', async () => {
    server.answerWith(verdicts((text) => (text === 'fine' ? [] : ['violence', text])))
    expect(await screener().screen(['fine', 'hate', 'self-harm'])).toEqual({
      outcome: 'rejected',
      reason: 'violence, hate, self-harm',
    })
  })

  it('the screener reads a category that the model does not have, which OpenAI’s SDK types as null', async () => {
    server.answerWith(respondWith({ results: [verdictWithNull(false)] }))
    expect(await screener().screen(['one'])).toEqual({ outcome: 'passed' })
    server.answerWith(respondWith({ results: [verdictWithNull(true)] }))
    expect(await screener().screen(['one'])).toEqual({ outcome: 'rejected', reason: 'violence' })
  })

  it('the screener rejects a flagged text without categories', async () => {
    server.answerWith(respondWith({ results: [CLEAN_VERDICT, { flagged: true }] }))
    expect(await screener().screen(['one', 'two'])).toEqual({ outcome: 'rejected', reason: 'flagged' })
  })

  it.each(SCREENING_FAILURES)(
    'the screener is unavailable, and quotes no text, when the endpoint returns %s',
    async (_, answer, http) => {
      server.answerWith(answer)
      const screening = await screener({ http }).screen(['canary one', 'canary two'])
      expect(screening).toEqual({ outcome: 'unavailable', reason: expect.any(String) })
      expect(JSON.stringify(screening)).not.toMatch(/canary|moderation-key|broken|Incorrect/)
      expect(server.calls).toHaveLength(1)
    },
  )

  it('the screener is unavailable when nothing listens at the endpoint', async () => {
    const gone = await startModerationServer()
    await gone.stop()
    expect(await screener({ baseUrl: gone.baseUrl }).screen(['x'])).toMatchObject({ outcome: 'unavailable' })
  })

  it('a moderation call times out after ten seconds', async () => {
    let timeoutMs = 0
    const http: SendHttp = (request, limits) => {
      timeoutMs = limits.timeoutMs
      return realHttp(request, limits)
    }
    await screener({ http }).screen(['x'])
    expect(timeoutMs).toBe(10_000)
  })
})

describe('screening of a paid job', () => {
  let worker: TestWorker
  beforeAll(async () => {
    worker = await startTestWorker()
  })
  beforeEach(() => worker.upstream.clearCalls())
  afterAll(() => worker.stop())

  const conversation = {
    model: 'textmodel-2.5-flash',
    max_tokens: 20,
    messages: [
      { role: 'system', content: 'canary system' },
      { role: 'user', content: 'canary question' },
      {
        role: 'assistant',
        content: 'canary answer',
        tool_calls: [
          {
            id: 'canary id',
            type: 'function',
            function: { name: 'canary_call', arguments: '{"at":"canary argument"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'canary id', content: 'canary tool' },
      { role: 'user', content: [{ type: 'text', text: 'canary last' }] },
    ],
    tools: [
      { type: 'function', function: { name: 'look', description: 'canary tools', parameters: { type: 'object' } } },
    ],
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'canary_format', schema: { type: 'object', title: 'canary schema' } },
    },
    stop: ['canary stop'],
  }
  const requests: readonly (readonly [string, Record<string, unknown>, readonly string[]])[] = [
    [
      'createChatCompletion',
      conversation,
      [
        'canary system',
        'canary question',
        'canary answer',
        'canary id',
        'canary_call',
        '{"at":"canary argument"}',
        'canary tool',
        'canary last',
        'look canary tools {"type":"object"}',
        'canary_format',
        '{"type":"object","title":"canary schema"}',
        'canary stop',
      ],
    ],
    [
      'createMessage',
      {
        model: 'textmodel-2.5-flash',
        max_tokens: 20,
        system: 'canary system',
        messages: [{ role: 'user', content: 'canary question' }],
      },
      ['canary system', 'canary question'],
    ],
    [
      'createImageGeneration',
      { model: 'textmodel-3.1-flash-lite-image', prompt: 'canary picture' },
      ['canary picture'],
    ],
    ['createSpeech', { model: 'speechvendor/flash-v2.5', input: 'canary speech' }, ['canary speech']],
  ]

  /** Accepts a paid request without an upload. */
  async function accept(operationId: string, body: Record<string, unknown>) {
    const operation = operationById(operationId)
    const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null, publishedCatalog)
    const quote = operation.quote(effective, publishedCatalog)
    const payer = await createPayer(worker.devnet.rpcUrl)
    const job = {
      ...newTestJob(),
      operation: operationId,
      publicModel: operation.publicModel(effective),
      effectiveJson: Buffer.from(JSON.stringify(effective)),
      quote,
      authorization: await signAuthorization(worker.devnet, payer, { authorizedMaximum: quote.quotedMaximum }),
      stagedUpload: null,
    }
    await bindTestKey(worker.ledger, job)
    const acceptance = await worker.ledger.acceptance.acceptPayment(job)
    if (acceptance.outcome !== 'accepted') throw new Error(`not accepted: ${acceptance.outcome}`)
    return { jobId: acceptance.jobId, payer }
  }

  async function run(jobId: string, http: SendHttp = patientHttp): Promise<void> {
    const connection = { baseUrl: worker.upstream.url, apiKey: 'test-key', http: realHttp }
    const deployment = { vendor: 'vendor', upstreamModel: 'model', priority: 0, weight: 1 }
    const deployments = [
      {
        ...deployment,
        name: 'text',
        serves: ['textmodel-2.5-flash'],
        text: createGeminiText({ ...connection, upstreamModel: 'gemini-3.5-flash' }),
      },
      {
        ...deployment,
        name: 'image',
        serves: ['textmodel-3.1-flash-lite-image'],
        image: createGeminiImage({ ...connection, upstreamModel: 'gemini-3.1-flash-lite-image' }),
      },
      {
        ...deployment,
        name: 'speech',
        serves: ['speechvendor/flash-v2.5'],
        speech: createElevenLabsSpeech({ ...connection, upstreamModel: 'eleven_flash_v2_5' }),
      },
    ]
    await worker.run(jobId, { screener: screener({ http }), ...routedTo(deployments, PATIENCE_MS) })
  }

  async function expectUncharged(jobId: string, code: ErrorCode, payer: { address: `0x${string}` }): Promise<void> {
    const view = await worker.view(jobId)
    expect(view).toMatchObject({
      state: 'failed',
      failure_code: code,
      charge_amount: null,
      result_body: null,
      attempts: [],
      settlements: [],
      leased: false,
    })
    expect(view.failure_reason).not.toContain('canary')
    expect(worker.upstream.calls).toEqual([])
    expect(await worker.devnet.usdcBalance(payer.address)).toBe(1_000_000n)
  }

  it.each(requests)(
    'a job of %s is screened in all its texts and continues when they pass',
    async (operationId, body, texts) => {
      const { jobId } = await accept(operationId, body)
      await run(jobId)
      expect(server.calls.map((call) => call.body.input)).toEqual([texts])
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(worker.upstream.calls).toHaveLength(1)
    },
  )

  it.each(requests)(
    'a flagged job of %s fails uncharged and is never sent to a provider [spec O35]',
    async (operationId, body, texts) => {
      server.answerWith(verdicts((text) => (text === texts.at(-1) ? ['violence'] : [])))
      const { jobId, payer } = await accept(operationId, body)
      await run(jobId)
      await expectUncharged(jobId, 'content_rejected', payer)
      // A failed job is not screened again.
      await run(jobId)
      expect(server.calls).toHaveLength(1)
    },
  )

  it.each(SCREENING_FAILURES)(
    'a job fails uncharged and is never sent to a provider when screening returns %s',
    async (_, answer, http) => {
      server.answerWith(answer)
      const { jobId, payer } = await accept('createMessage', {
        model: 'textmodel-2.5-flash',
        max_tokens: 20,
        system: 'canary system',
        messages: [{ role: 'user', content: 'canary question' }],
      })
      await run(jobId, http)
      await expectUncharged(jobId, 'screening_unavailable', payer)
    },
  )

  it('a job with audio only has no text to screen', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, { screener: screener() })
    expect(server.calls).toEqual([])
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  })

  it('screening writes neither texts nor its key to the log', () => {
    expect(worker.logged.join('\n')).not.toMatch(/canary|moderation-key/)
  })
})
