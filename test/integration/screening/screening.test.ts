import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { type ErrorCode, errorCodes } from '#shared/errors/error-codes.ts'
import { operationById } from '#shared/operations/registry.ts'
import { createElevenLabsSpeech } from '../../../workers/providers/elevenlabs/speech.ts'
import { createGeminiImage } from '../../../workers/providers/gemini/image.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import { createHttp, type SendHttp } from '../../../workers/providers/http.ts'
import { createModerationScreener } from '../../../workers/screening/moderation-endpoint.ts'
import {
  type ModerationCall,
  type ModerationServer,
  sendJson,
  startModerationServer,
  verdicts,
} from '../../support/http/moderation-server.ts'
import { bindTestKey, newTestJob } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createChainPayer } from '../../support/payer/chain-payer.ts'
import { routedTo, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

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
/** The real sender, with more time than an answer can take. */
const patientHttp: SendHttp = (request, limits) => realHttp(request, { ...limits, timeoutMs: PATIENCE_MS })

/** The real sender, whose time is over when the call has arrived and as much of the answer as will ever come. */
function hastyHttp(answer: 'none' | 'begun'): SendHttp {
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

const clean = { flagged: false, categories: {} }

/** Everything that is not a verdict on each of two texts. */
const noVerdicts: readonly (readonly [string, Answer, SendHttp?])[] = [
  ['a 500', respondWith({ error: { message: 'broken' } }, 500)],
  ['a 401', respondWith({ error: { message: 'Incorrect API key' } }, 401)],
  ['a 429', respondWith({}, 429)],
  ['a 201', respondWith({ results: [clean, clean] }, 201)],
  ['a redirect', (_, response) => response.writeHead(307, { location: '/v1/elsewhere' }).end()],
  ['no answer', () => undefined, hastyHttp('none')],
  ['a reset', (_, response) => response.socket?.resetAndDestroy()],
  [
    'half an answer',
    (_, response) => response.writeHead(200, { 'content-length': '90' }).write('{"results"'),
    hastyHttp('begun'),
  ],
  ['no JSON', (_, response) => response.end('<html>flagged: false</html>')],
  ['an empty body', (_, response) => response.end()],
  ['another shape', respondWith({ flagged: false })],
  ['a null', respondWith(null)],
  ['a verdict that is text', respondWith({ results: [{ flagged: 'false' }, clean] })],
  ['no verdicts', respondWith({ results: [] })],
  ['a verdict too few', respondWith({ results: [clean] })],
  ['a verdict too many', respondWith({ results: [clean, clean, clean] })],
  ['more than a megabyte', respondWith({ results: [clean, clean], padding: 'x'.repeat(1_100_000) })],
]
const failures = noVerdicts.map(([what, answer, http = patientHttp]) => [what, answer, http] as const)

describe('the moderation endpoint', () => {
  it('is asked about all texts at once, with key and model', async () => {
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

  it('may be without a key and be written with a slash', async () => {
    const open = screener({ apiKey: undefined, baseUrl: `${server.baseUrl}/` })
    expect(await open.screen(['one'])).toEqual({ outcome: 'passed' })
    expect(server.calls[0]).toMatchObject({ path: '/v1/moderations' })
    expect(server.calls[0]?.headers.authorization).toBeUndefined()
  })

  it('is not asked about nothing', async () => {
    expect(await screener().screen([])).toEqual({ outcome: 'passed' })
    expect(server.calls).toEqual([])
  })

  it('rejects when any text is flagged, and names the categories once each', async () => {
    server.answerWith(verdicts((text) => (text === 'fine' ? [] : ['violence', text])))
    expect(await screener().screen(['fine', 'hate', 'self-harm'])).toEqual({
      outcome: 'rejected',
      reason: 'violence, hate, self-harm',
    })
  })

  it('rejects without categories too', async () => {
    server.answerWith(respondWith({ results: [clean, { flagged: true }] }))
    expect(await screener().screen(['one', 'two'])).toEqual({ outcome: 'rejected', reason: 'flagged' })
  })

  it.each(failures)('is unavailable, and quotes nothing, when it gives %s', async (_, answer, http) => {
    server.answerWith(answer)
    const screening = await screener({ http }).screen(['canary one', 'canary two'])
    expect(screening).toEqual({ outcome: 'unavailable', reason: expect.any(String) })
    expect(JSON.stringify(screening)).not.toMatch(/canary|moderation-key|broken|Incorrect/)
    expect(server.calls).toHaveLength(1)
  })

  it('is unavailable when nobody listens', async () => {
    const gone = await startModerationServer()
    await gone.stop()
    expect(await screener({ baseUrl: gone.baseUrl }).screen(['x'])).toMatchObject({ outcome: 'unavailable' })
  })

  it('has ten seconds', async () => {
    let timeoutMs = 0
    const http: SendHttp = (request, limits) => {
      timeoutMs = limits.timeoutMs
      return realHttp(request, limits)
    }
    await screener({ http }).screen(['x'])
    expect(timeoutMs).toBe(10_000)
  })
})

describe('a paid job', () => {
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
          { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"canary argument"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'canary tool' },
      { role: 'user', content: [{ type: 'text', text: 'canary last' }] },
    ],
    tools: [
      { type: 'function', function: { name: 'look', description: 'canary tools', parameters: { type: 'object' } } },
    ],
  }
  const requests: readonly (readonly [string, Record<string, unknown>, readonly string[]])[] = [
    [
      'createChatCompletion',
      conversation,
      [
        'canary system',
        'canary question',
        'canary answer',
        '{"at":"canary argument"}',
        'canary tool',
        'canary last',
        'look canary tools {"type":"object"}',
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

  /** A paid and accepted request without an upload. */
  async function accept(operationId: string, body: Record<string, unknown>) {
    const operation = operationById(operationId)
    const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null)
    const quote = operation.quote(effective, publishedCatalog)
    const payer = await createChainPayer(worker.devnet)
    const job = {
      ...newTestJob(),
      operation: operationId,
      publicModel: operation.publicModel(effective),
      effectiveJson: Buffer.from(JSON.stringify(effective)),
      quote,
      authorization: await payer.sign({ authorizedMaximum: quote.quotedMaximum }),
      stagedUpload: null,
    }
    await bindTestKey(worker.ledger, job)
    const acceptance = await worker.ledger.admission.acceptJob(job)
    if (acceptance.outcome !== 'accepted') throw new Error(`not accepted: ${acceptance.outcome}`)
    return { jobId: acceptance.jobId, payer }
  }

  async function run(jobId: string, http: SendHttp = patientHttp): Promise<void> {
    const connection = { baseUrl: worker.upstream.url, apiKey: 'test-key', http: realHttp }
    const deployment = { priority: 0, weight: 1 }
    const deployments = [
      {
        ...deployment,
        name: 'text',
        serves: ['textmodel-2.5-flash'],
        text: createGeminiText({ ...connection, upstreamModel: 'gemini-2.5-flash' }),
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
    'of %s is screened in all its texts and goes on when they pass',
    async (operationId, body, texts) => {
      const { jobId } = await accept(operationId, body)
      await run(jobId)
      expect(server.calls.map((call) => call.body.input)).toEqual([texts])
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(worker.upstream.calls).toHaveLength(1)
    },
  )

  it.each(requests)('of %s that is flagged fails uncharged and is never sent on', async (operationId, body, texts) => {
    server.answerWith(verdicts((text) => (text === texts.at(-1) ? ['violence'] : [])))
    const { jobId, payer } = await accept(operationId, body)
    await run(jobId)
    await expectUncharged(jobId, 'content_rejected', payer)
    // Once it has failed, nobody is asked again.
    await run(jobId)
    expect(server.calls).toHaveLength(1)
  })

  it.each(failures)('fails uncharged and is never sent on when screening gives %s', async (_, answer, http) => {
    server.answerWith(answer)
    const { jobId, payer } = await accept('createMessage', {
      model: 'textmodel-2.5-flash',
      max_tokens: 20,
      system: 'canary system',
      messages: [{ role: 'user', content: 'canary question' }],
    })
    await run(jobId, http)
    await expectUncharged(jobId, 'screening_unavailable', payer)
  })

  it('with nothing but audio has no text to screen', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, { screener: screener() })
    expect(server.calls).toEqual([])
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  })

  it('writes neither texts nor the key to the log', () => {
    expect(worker.logged.join('\n')).not.toMatch(/canary|moderation-key/)
  })
})

it('is told as a 400 that no retry changes, or as a 503 that a new payment may', () => {
  expect(errorCodes.content_rejected).toMatchObject({ status: 400, retry: 'never', payment: 'none' })
  expect(errorCodes.screening_unavailable).toMatchObject({ status: 503, retry: 'new_payment', payment: 'none' })
})
