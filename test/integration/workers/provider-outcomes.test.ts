import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import type { lookup } from 'node:dns'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import { type OperationId, operationById } from '#shared/operations/registry.ts'
import { createMp3Converter } from '../../../workers/executions/convert-to-mp3.ts'
import { createImageFetcher } from '../../../workers/executions/fetch-remote-image.ts'
import { createExecutions } from '../../../workers/executions/registry.ts'
import { createRemoteImages } from '../../../workers/executions/remote-images.ts'
import { createJobMemory, type MemoryReservation } from '../../../workers/job/job-memory.ts'
import { createAnthropicText } from '../../../workers/providers/anthropic/text.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createGeminiImage } from '../../../workers/providers/gemini/image.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleTranscription } from '../../../workers/providers/openai-compatible/transcription.ts'
import { addLedgerMetrics } from '../../../workers/telemetry/ledger-metrics.ts'
import { createExpiringHttp } from '../../contract/expiring-http.ts'
import { CERTIFICATE, type ImageServer, startImageServer } from '../../support/http/image-server.ts'
import { acceptTestJob } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow, signAuthorization } from '../../support/payer/sign-authorization.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { routedTo, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'
import { pngHead } from '../../unit/operations/sample-images.ts'

const MODEL = 'textmodel-2.5-pro'

let worker: TestWorker
let images: ImageServer
beforeAll(async () => {
  ;[worker, images] = await Promise.all([startTestWorker(), startImageServer()])
})
beforeEach(() => {
  worker.upstream.setFaults([])
  worker.upstream.clearCalls()
  images.clear()
})
afterAll(() => Promise.all([worker.stop(), images.stop()]))

const gemini = (): Deployment => ({
  name: 'gemini',
  serves: [MODEL],
  vendor: 'vendor',
  upstreamModel: 'model',
  priority: 0,
  weight: 1,
  text: createGeminiText({
    baseUrl: worker.upstream.url,
    apiKey: 'test-key',
    upstreamModel: 'gemini-2.5-pro',
    http: createHttp({ fetch }),
  }),
})

const whisper = (): Deployment => ({
  name: 'whisper',
  serves: ['speechvendor/scribe-v2'],
  vendor: 'vendor',
  upstreamModel: 'model',
  priority: 1,
  weight: 1,
  transcription: createOpenAiCompatibleTranscription(
    { baseUrl: `${worker.upstream.url}/v1`, upstreamModel: 'simulated-whisper', http: createHttp({ fetch }) },
    { path: '/audio/transcriptions', transcript_detail: 'words' },
  ),
})

const noBucket = () => Promise.reject(new Error('S3_BUCKET: there is no bucket'))

interface ChatOptions {
  readonly payer?: Payer
  readonly deadline?: bigint
}

/** Returns a payer who can pay for several calls at a time. */
const approvedPayer = () => createPayer(worker.devnet.rpcUrl, { approved: true })

/** Accepts a chat completion at its quoted maximum. Returns its id. */
const acceptChat = (body: object, options: ChatOptions = {}) =>
  accept(
    'createChatCompletion',
    { model: MODEL, messages: [{ role: 'user', content: 'Is this a tram?' }], ...body },
    options,
  )

async function accept(id: OperationId, body: object, { payer, deadline }: ChatOptions = {}): Promise<string> {
  const operation = operationById(id)
  const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null, publishedCatalog)
  const quote = operation.quote(effective, publishedCatalog)
  const signed = {
    authorizedMaximum: quote.quotedMaximum,
    gasSponsored: payer === undefined,
    ...(deadline === undefined ? {} : { deadline }),
  }
  const authorization = await signAuthorization(
    worker.devnet,
    payer ?? (await createPayer(worker.devnet.rpcUrl)),
    signed,
  )
  const { stagedUpload: _, ...request } = newTestJob({ authorization, idempotencyKey: randomUUID() })
  const effectiveJson = Buffer.from(canonicalJson(effective))
  return acceptTestJob(worker.ledger, {
    ...request,
    operation: id,
    publicModel: operation.publicModel(effective),
    requestDigest: sha256Hex(effectiveJson),
    effectiveJson,
    quote,
    stagedUpload: null,
  })
}

/** Fetches remote images from the test's server, under any name. */
const fetchingImages = (limits: Partial<Parameters<typeof createRemoteImages>[1]> = {}) => {
  const resolveName = ((_name: string, _options: unknown, callback: (error: null, addresses: unknown) => void) =>
    callback(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof lookup
  const fetcher = createImageFetcher({
    isAllowed: () => true,
    resolveName,
    ca: CERTIFICATE,
    timeoutMs: PATIENCE_MS,
  })
  return {
    executionOf: createExecutions(
      createRemoteImages(fetcher, { slots: 8, slotsPerPayer: 2, timeoutMs: PATIENCE_MS, ...limits }),
      createMp3Converter(undefined),
    ),
  }
}

const withImages = (count: number) => ({
  messages: [
    {
      role: 'user',
      content: Array.from({ length: count }, (_, index) => ({
        type: 'image_url',
        image_url: { url: `https://images.test:${images.port}/${index}.png` },
      })),
    },
  ],
})

const resultOf = async (jobId: string) => JSON.parse((await worker.view(jobId)).result_body ?? 'null')

describe('a call for media', () => {
  const body = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night' }
  const painter = (): Deployment => ({
    name: 'painter',
    serves: [body.model],
    vendor: 'vendor',
    upstreamModel: 'model',
    priority: 0,
    weight: 1,
    image: createGeminiImage({
      baseUrl: worker.upstream.url,
      apiKey: 'test-key',
      upstreamModel: 'gemini-3.1-flash-lite-image',
      http: createHttp({ fetch }),
    }),
  })

  it('is not made while the media could not be stored, and is made once they can', async () => {
    const jobId = await accept('createImageGeneration', body)
    const routed = routedTo([painter()], PATIENCE_MS)
    await worker.run(jobId, { ...routed, checkObjects: noBucket })
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', deferred: true, attempts: [] })
    expect(worker.upstream.calls).toEqual([])
    await worker.runDeferredFor(jobId, 10, routed)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
    expect(worker.upstream.calls).toHaveLength(1)
  })
})

describe('an answer without text', () => {
  it('delivers and charges an answer without text that the caller’s own stop sequence ended', async () => {
    const jobId = await acceptChat({ stop: ['Hello'] })
    await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'completed',
      attempts: ['succeeded'],
      settlements: ['confirmed'],
    })
    expect(Number((await worker.view(jobId)).charge_amount)).toBeGreaterThanOrEqual(2000)
    expect(await resultOf(jobId)).toMatchObject({
      choices: [{ message: { role: 'assistant', content: '', refusal: null }, finish_reason: 'stop' }],
      usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) },
    })
  })

  it('delivers and charges an answer without text when thinking used up the caller’s limit', async () => {
    const jobId = await acceptChat({ max_tokens: 2000 })
    const body = {
      candidates: [{ content: { role: 'model' }, finishReason: 'MAX_TOKENS' }],
      usageMetadata: { promptTokenCount: 9, thoughtsTokenCount: 2000 },
    }
    worker.upstream.setFaults([{ fault: 'status', status: 200, body }])
    await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    // 9 input tokens at 1.25 and 2,000 output tokens at 10 dollars per million.
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', charge_amount: '20012' })
    expect(await resultOf(jobId)).toMatchObject({ choices: [{ message: { content: '' }, finish_reason: 'length' }] })
  })

  it('fails an answer without text uncharged as empty, without a second call, when the vendor ended it', async () => {
    const jobId = await acceptChat({})
    const body = {
      candidates: [{ content: { role: 'model' }, finishReason: 'MALFORMED_FUNCTION_CALL' }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 20 },
    }
    worker.upstream.setFaults([{ fault: 'status', status: 200, body }])
    const deployments = [gemini(), { ...gemini(), name: 'second', priority: 1 }]
    await worker.run(jobId, routedTo(deployments, PATIENCE_MS))
    await worker.run(jobId, routedTo(deployments, PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'provider_empty_output',
      attempts: ['failed_empty'],
      charge_amount: null,
    })
    expect(worker.upstream.calls).toHaveLength(1)
  })
})

/** A deployment of the Anthropic API, which the worker tries after Gemini's. */
const claude = (changes: Partial<Deployment> = {}): Deployment => ({
  ...gemini(),
  name: 'claude',
  priority: 1,
  text: createAnthropicText({
    baseUrl: worker.upstream.url,
    apiKey: 'test-key',
    upstreamModel: 'claude-opus-5',
    http: createHttp({ fetch }),
  }),
  ...changes,
})

const googleError = (status: number, message: string) =>
  ({ fault: 'status', status, body: { error: { code: status, message, status: 'INVALID_ARGUMENT' } } }) as const
const routesCalled = () => worker.upstream.calls.map(({ route }) => route)
const [GEMINI_ROUTE, CLAUDE_ROUTE] = ['/v1beta/models/{model}:generateContent', '/v1/messages']

describe('a request that the first deployment rejects', () => {
  it.each([
    ['for an unknown reason', googleError(400, 'Invalid value.')],
    ['as too large', googleError(413, 'Request payload size exceeds the limit.')],
    ['for a limit of its model', googleError(400, 'Penalty is not enabled for this model')],
    ['because its model was shut down', { fault: 'status', status: 410 } as const],
  ])('%s is served and charged by the next one', async (_name, rule) => {
    worker.upstream.setFaults([rule])
    const jobId = await acceptChat({})
    await worker.run(jobId, routedTo([gemini(), claude()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'completed',
      attempts: ['failed_definite', 'succeeded'],
      settlements: ['confirmed'],
    })
    expect(routesCalled()).toEqual([GEMINI_ROUTE, CLAUDE_ROUTE])
  })

  it('ends as rejected by the second deployment, without a third call, and counts against the payer', async () => {
    worker.upstream.setFaults([googleError(400, 'Invalid value.'), { fault: 'status', status: 400, body: {} }])
    const jobId = await acceptChat({})
    const third = claude({ name: 'third', priority: 2 })
    await worker.run(jobId, routedTo([gemini(), claude(), third], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'provider_rejected',
      attempts: ['failed_definite', 'failed_definite'],
      charge_amount: null,
    })
    expect(routesCalled()).toEqual([GEMINI_ROUTE, CLAUDE_ROUTE])
  })

  it('offers a retry when another deployment that may accept it is unavailable', async () => {
    worker.upstream.setFaults([googleError(400, 'Invalid value.'), { fault: 'status', status: 429 }])
    const jobId = await acceptChat({})
    await worker.run(jobId, routedTo([gemini(), claude()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({ failure_code: 'provider_unavailable' })
  })

  const prefilled = {
    messages: [
      { role: 'user', content: 'Name a tram.' },
      { role: 'assistant', content: 'It is' },
    ],
  }
  it('is sent to the next one without a call when the first is known not to support it', async () => {
    const jobId = await acceptChat(prefilled)
    await worker.run(jobId, routedTo([claude({ priority: 0 }), { ...gemini(), priority: 1 }], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['failed_definite', 'succeeded'] })
    expect(routesCalled()).toEqual([GEMINI_ROUTE])
  })

  it('fails with advice against a retry when no deployment supports it, and counts against its payer', async () => {
    const jobId = await acceptChat(prefilled)
    await worker.run(jobId, routedTo([claude()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({ failure_code: 'request_unsupported', charge_amount: null })
    expect(worker.upstream.calls).toEqual([])
    expect(await worker.ledger.sql('SELECT kind, amount FROM uncharged_work WHERE job_id = $1', [jobId])).toEqual([
      { kind: 'rejected_request', amount: '2000' },
    ])
  })

  it('skips a model that was shut down from its first answer on', async () => {
    worker.upstream.setFaults([{ fault: 'status', status: 410 }])
    const routed = routedTo([gemini(), claude()], PATIENCE_MS)
    for (let call = 0; call < 2; call += 1) {
      const jobId = await acceptChat({})
      await worker.run(jobId, routed)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    }
    expect(routesCalled()).toEqual([GEMINI_ROUTE, CLAUDE_ROUTE, CLAUDE_ROUTE])
  })
})

/** Returns the metric of absorbed cost as a worker reports it, by reason. */
async function absorbedCost(): Promise<ReadonlyMap<string, number>> {
  const registry = new Registry()
  addLedgerMetrics(registry, worker.ledger.reports)
  const { values } = (await registry.getSingleMetric('farebox_absorbed_usdc_atomic')?.get()) ?? { values: [] }
  return new Map(values.map(({ labels, value }) => [String(labels['reason']), value]))
}

/** Asserts that the shipped rule fires for a rise from one report to the next, and not before. */
async function expectAlert(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): Promise<void> {
  const firing = 'count(ALERTS{alertname="FareboxCostAbsorbed", alertstate="firing"})'
  const rules = fileURLToPath(new URL('../../../infra/prometheus/alerts.yml', import.meta.url))
  const test = {
    rule_files: [rules],
    tests: [
      {
        interval: '1m',
        input_series: [...after].map(([reason, value]) => ({
          series: `farebox_absorbed_usdc_atomic{job="farebox-worker", reason="${reason}"}`,
          values: `${before.get(reason) ?? 0}x69 ${value}x20`,
        })),
        promql_expr_test: [
          { expr: firing, eval_time: '69m', exp_samples: [] },
          { expr: firing, eval_time: '75m', exp_samples: [{ labels: '{}', value: 1 }] },
        ],
      },
    ],
  }
  const folder = await mkdtemp(join(tmpdir(), 'farebox-alert-'))
  try {
    await writeFile(join(folder, 'test.yml'), JSON.stringify(test))
    await promisify(execFile)('promtool', ['test', 'rules', join(folder, 'test.yml')])
  } finally {
    await rm(folder, { recursive: true })
  }
}

describe.skipIf(!havePrograms('promtool'))('the alert on absorbed cost', () => {
  it.each([
    ['end without a word', 'STOP'],
    ['are malformed calls', 'MALFORMED_FUNCTION_CALL'],
  ])('fires for long paid calls whose answers %s, at what the vendor counted', async (_name, finishReason) => {
    const before = await absorbedCost()
    const body = {
      candidates: [{ content: { role: 'model', parts: [] }, finishReason }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 65_536 },
    }
    for (let count = 0; count < 2; count += 1) {
      const jobId = await acceptChat({ max_tokens: 65_536, messages: [{ role: 'user', content: 'Go on.' }] })
      worker.upstream.setFaults([{ fault: 'status', status: 200, body }])
      await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
      expect(await worker.view(jobId)).toMatchObject({ failure_code: 'provider_empty_output', charge_amount: null })
    }
    const after = await absorbedCost()
    expect((after.get('empty') ?? 0) - (before.get('empty') ?? 0)).toBeGreaterThan(1_000_000)
    await expectAlert(before, after)
  })

  it.each([
    ['the caller’s limit', { max_tokens: 20 }, 'length'],
    ['the caller’s stop sequence', { stop: ['Hello'] }, 'stop'],
  ])('does not count an answer that %s left empty: it is charged', async (_name, body, reason) => {
    const before = await absorbedCost()
    const jobId = await acceptChat({ messages: [{ role: 'user', content: 'Think hard: a tram?' }], ...body })
    await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    expect(await resultOf(jobId)).toMatchObject({ choices: [{ message: { content: '' }, finish_reason: reason }] })
    expect(Number((await worker.view(jobId)).charge_amount)).toBeGreaterThanOrEqual(2000)
    expect(await absorbedCost()).toEqual(before)
  })
})

describe('a model that thinks', () => {
  it('charges hidden thinking as output, and never more than was authorized', async () => {
    const jobId = await acceptChat({ messages: [{ role: 'user', content: 'Think hard: which tram?' }] })
    await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    const { usage, choices } = await resultOf(jobId)
    const { reasoning_tokens: thinking } = usage.completion_tokens_details
    expect(choices).toMatchObject([{ message: { content: expect.stringContaining('tram') }, finish_reason: 'stop' }])
    // A quarter of the default limit of 512.
    expect(thinking).toBe(128)
    const { charge_amount } = await worker.view(jobId)
    const exact = Math.ceil(usage.prompt_tokens * 1.25 + usage.completion_tokens * 10)
    expect(Number(charge_amount)).toBe(Math.max(exact, 2000))
    expect(usage.completion_tokens).toBeGreaterThan(thinking)
  })

  it('charges at most the authorized maximum when a vendor thinks beyond the limit', async () => {
    const body = {
      candidates: [{ content: { role: 'model', parts: [{ text: 'So.' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2, thoughtsTokenCount: 50_000 },
    }
    worker.upstream.setFaults([{ fault: 'status', status: 200, body }])
    const jobId = await acceptChat({ max_tokens: 1000 })
    await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    // 9 input tokens at 1.25 and 1,000 output tokens at 10 dollars per million.
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', charge_amount: '10012' })
  })
})

describe('a transcription', () => {
  it('delivers the transcription of a recording without speech with an empty text, charged by duration', async () => {
    const { jobId } = await worker.accept({ audio: recordingOf('(rain)') })
    await worker.run(jobId)
    expect(await worker.view(jobId)).toMatchObject({
      state: 'completed',
      charge_amount: '5034',
      attempts: ['succeeded'],
      has_key: false,
    })
    expect(await resultOf(jobId)).toMatchObject({ text: '' })
    expect(await resultOf(jobId)).not.toHaveProperty('words')
  })

  it.each([
    ['speakers', { diarize: true }],
    ['audio events', { tag_audio_events: true }],
    ['character times', { timestamps: 'character' as const }],
  ])('with %s fails over only to a deployment that delivers them', async (_name, effective) => {
    const { jobId } = await worker.accept({ effective })
    const failing = { ...whisper(), name: 'first', priority: 0 }
    await worker.run(jobId, routedTo([failing, { ...worker.deployment, priority: 1 }], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['failed_definite', 'succeeded'] })
    expect(worker.upstream.calls.map(({ route }) => route)).toEqual(['/v1/speech-to-text'])
  })

  it('fails a transcription that no deployment supports uncharged, with a code that advises against a retry', async () => {
    const { jobId } = await worker.accept({ effective: { diarize: true } })
    await worker.run(jobId, routedTo([whisper()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'request_unsupported',
      attempts: ['failed_definite'],
      has_key: false,
    })
    expect(worker.upstream.calls).toEqual([])
  })

  it('offers a retry of a transcription when the deployment that supports it is unavailable', async () => {
    worker.upstream.setFaults([{ fault: 'status', status: 429 }])
    const { jobId } = await worker.accept({ effective: { diarize: true } })
    await worker.run(jobId, routedTo([worker.deployment, whisper()], PATIENCE_MS))
    expect(await worker.view(jobId)).toMatchObject({ failure_code: 'provider_unavailable' })
  })
})

/** Runs a job and returns the time limit that its provider call was given. */
async function limitOf(jobId: string): Promise<number> {
  const limits: number[] = []
  const text: Deployment['text'] = {
    generateText: async (_, { timeoutMs }) => {
      limits.push(timeoutMs)
      return { outcome: 'failed', certainty: 'definite', code: 'provider_rejected', reason: 'test' }
    },
  }
  await worker.run(jobId, routedTo([{ ...gemini(), text }], PATIENCE_MS))
  return limits[0] ?? Number.NaN
}

/** Fails all calls as one does that has timed out. */
const timingOut = () => {
  const hanging: Deployment['text'] = {
    generateText: async () => ({
      outcome: 'failed',
      certainty: 'ambiguous',
      code: 'provider_outcome_unknown',
      reason: 'no complete response within 1 ms',
      timedOut: true,
    }),
  }
  return routedTo([{ ...gemini(), text: hanging }], PATIENCE_MS)
}
/** Creates three payers, each with a call that they have paid for. */
async function paidPayers(): Promise<Payer[]> {
  const payers = await Promise.all([approvedPayer(), approvedPayer(), approvedPayer()])
  for (const payer of payers) await worker.run(await acceptChat({}, { payer }), routes())
  return payers
}

/** Long enough for a call of ordinary length and its settlement, by two minutes. */
const deadline = () => secondsFromNow(PATIENCE_MS / 1000 + 120)

describe('the time of a call', () => {
  it('extends the time of a call by the output that the request may have', async () => {
    expect(await limitOf(await acceptChat({ max_tokens: 16_384 }))).toBe(PATIENCE_MS)
    expect(await limitOf(await acceptChat({ max_tokens: 65_536 }))).toBe(PATIENCE_MS + 384_000)
  })

  it('requires a longer authorization for a long answer than for a short one', async () => {
    const short = await acceptChat({ max_tokens: 16_384 }, { deadline: deadline() })
    const long = await acceptChat({ max_tokens: 65_536 }, { deadline: deadline() })
    for (const jobId of [short, long]) await worker.run(jobId, routedTo([gemini()], PATIENCE_MS))
    expect(await worker.view(short)).toMatchObject({ state: 'completed' })
    expect(await worker.view(long)).toMatchObject({ failure_code: 'authorization_too_short', attempts: [] })
  })

  it('opens no circuit for time limits that are too short for long answers, whichever payers ask', async () => {
    const routed = timingOut()
    const payers = await paidPayers()
    for (const payer of payers) await worker.run(await acceptChat({ max_tokens: 65_536 }, { payer }), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'closed' }])
    for (const payer of payers) await worker.run(await acceptChat({}, { payer }), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'open' }])
  })

  it('opens no circuit for wallets that have never paid, however many there are', async () => {
    const routed = timingOut()
    for (let count = 0; count < 4; count += 1) await worker.run(await acceptChat({}), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'closed' }])
    const [first, second] = await paidPayers()
    for (const payer of [first, second]) if (payer) await worker.run(await acceptChat({}, { payer }), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'open' }])
  })
})

const cutAfter = (afterEvents: number, ending: 'stall' | 'reset') =>
  ({ fault: 'midStream', afterEvents, ending }) as const

/** A deployment whose calls reach their time limit when the events before the stall have arrived. */
const expiring = (rule: ReturnType<typeof cutAfter>): Deployment => ({
  ...gemini(),
  text: createGeminiText({
    baseUrl: worker.upstream.url,
    apiKey: 'test-key',
    upstreamModel: 'gemini-2.5-flash-lite',
    http: createExpiringHttp(worker.upstream, rule),
  }),
})

describe('an answer that is still being written', () => {
  const LONG = { max_tokens: 65_536, messages: [{ role: 'user', content: 'Please write 2000 words.' }] }

  it('is delivered at the time limit with `length`, and charged once by the counts of the vendor until then', async () => {
    const rule = cutAfter(40, 'stall')
    worker.upstream.setFaults([rule])
    const jobId = await acceptChat(LONG)
    const routed = routedTo([expiring(rule), { ...gemini(), name: 'second', priority: 1 }], PATIENCE_MS)
    await worker.run(jobId, routed)
    await worker.run(jobId, routed)
    // 8 input tokens at 1.25 and 40 × 16 output tokens at 10 dollars per million.
    expect(await worker.view(jobId)).toMatchObject({
      state: 'completed',
      attempts: ['succeeded'],
      settlements: ['confirmed'],
      charge_amount: '6410',
    })
    expect(await resultOf(jobId)).toMatchObject({
      choices: [{ message: { content: expect.stringMatching(/^Hello! You wrote/) }, finish_reason: 'length' }],
      usage: { prompt_tokens: 8, completion_tokens: 640 },
    })
    await until(() => worker.upstream.calls[0]?.state === 'aborted')
    expect(worker.upstream.calls).toHaveLength(1)
    expect(routed.router.states()[0]).toMatchObject({ circuit: 'closed', activeCalls: 0 })
  })

  it('fails uncharged when the vendor breaks it off, with what it has billed at least, and is not sent again', async () => {
    worker.upstream.setFaults([cutAfter(3, 'reset')])
    const jobId = await acceptChat(LONG)
    const prices = {
      input_per_million_tokens: '1',
      output_per_million_tokens: '2',
      as_of: '2026-11-26',
      source: 'test',
    }
    await worker.run(
      jobId,
      routedTo(
        [
          { ...gemini(), vendor: 'vendor.example', upstreamModel: 'gemini-2.5-pro', prices },
          { ...gemini(), name: 'second', priority: 1 },
        ],
        PATIENCE_MS,
      ),
    )
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'provider_outcome_unknown',
      attempts: ['failed_ambiguous'],
      charge_amount: null,
    })
    expect(worker.upstream.calls).toHaveLength(1)
    // 8 input and 63 output tokens as reported until then, while the caller answers for the maximum.
    expect(
      await worker.ledger.sql(
        `SELECT vendor, upstream_model, vendor_cost, amount = quoted_maximum AS is_whole FROM upstream_attempts
           JOIN uncharged_work USING (job_id) JOIN jobs ON jobs.id = job_id WHERE job_id = $1`,
        [jobId],
      ),
    ).toEqual([{ vendor: 'vendor.example', upstream_model: 'gemini-2.5-pro', vendor_cost: '134', is_whole: true }])
  })
})

const routes = () => routedTo([gemini()], PATIENCE_MS)

describe('remote images', () => {
  it('fetches the remote images of one call a few at a time', async () => {
    const open = new Set<ServerResponse>()
    let most = 0
    let answersAtOnce = false
    const end = (response: ServerResponse) => {
      open.delete(response)
      response.end(pngHead(64, 64))
    }
    images.answerWith((_, response) => {
      open.add(response)
      most = Math.max(most, open.size)
      if (answersAtOnce) end(response)
    })
    const jobId = await acceptChat(withImages(9))
    const running = worker.run(jobId, { ...routes(), ...fetchingImages() })
    await until(() => open.size === 4)
    answersAtOnce = true
    for (const response of open) end(response)
    await running
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(most).toBe(4)
    expect(images.requests).toHaveLength(9)
  })

  it('gives the remote images of one call one time limit, which no number of slow servers extends', async () => {
    images.answerWith(() => undefined)
    const jobId = await acceptChat(withImages(16))
    await worker.run(jobId, { ...routes(), ...fetchingImages({ timeoutMs: 300 }) })
    expect(await worker.view(jobId)).toMatchObject({ failure_code: 'image_unavailable', attempts: [] })
    // One after the other, or in turns, each would have had its own.
    expect(images.requests.length).toBeLessThanOrEqual(4)
  })

  it('aborts the other fetches of a call as soon as one remote image fails', async () => {
    images.answerWith((request, response) => {
      if (request.url === '/3.png') response.writeHead(404).end()
    })
    const jobId = await acceptChat(withImages(16))
    await worker.run(jobId, { ...routes(), ...fetchingImages() })
    expect(await worker.view(jobId)).toMatchObject({ failure_code: 'image_unavailable', attempts: [] })
    expect(worker.upstream.calls).toEqual([])
  })

  it('limits the places for remote images of one payer; other payers’ jobs and jobs without images continue', async () => {
    const fetching = fetchingImages({ slotsPerPayer: 1 })
    const release = Promise.withResolvers<void>()
    images.answerWith((_, response) => void release.promise.then(() => response.end(pngHead(64, 64))))
    const [payer, other] = await Promise.all([approvedPayer(), approvedPayer()])
    const slow = await acceptChat(withImages(1), { payer })
    const running = worker.run(slow, { ...routes(), ...fetching })
    await until(() => images.requests.length === 1)

    const second = await acceptChat(withImages(2), { payer })
    await worker.run(second, { ...routes(), ...fetching })
    expect(await worker.view(second)).toMatchObject({ state: 'accepted', leased: false, deferred: true, attempts: [] })
    const plain = await acceptChat({}, { payer })
    await worker.run(plain, { ...routes(), ...fetching })
    expect(await worker.view(plain)).toMatchObject({ state: 'completed' })
    images.answerWith((_, response) => response.end(pngHead(64, 64)))
    const others = await acceptChat(withImages(1), { payer: other })
    await worker.run(others, { ...routes(), ...fetching })
    expect(await worker.view(others)).toMatchObject({ state: 'completed' })

    release.resolve()
    await running
    await worker.runNow(second, { ...routes(), ...fetching })
    expect(await worker.view(slow)).toMatchObject({ state: 'completed' })
    expect(await worker.view(second)).toMatchObject({ state: 'completed' })
  })

  it('wakes the deferred jobs of a payer one by one, as places for their remote images become free', async () => {
    const fetching = fetchingImages({ slotsPerPayer: 1 })
    const woken: string[] = []
    const queue = { enqueue: async (jobId: string) => void woken.push(jobId) }
    const run = (jobId: string) => worker.run(jobId, { ...routes(), ...fetching, queue })
    const release = Promise.withResolvers<void>()
    images.answerWith((_, response) => void release.promise.then(() => response.end(pngHead(64, 64))))
    const payer = await approvedPayer()
    const slow = await acceptChat(withImages(1), { payer })
    const running = run(slow)
    await until(() => images.requests.length === 1)
    const waiting = [await acceptChat(withImages(1), { payer }), await acceptChat(withImages(1), { payer })]
    for (const jobId of waiting) await run(jobId)
    // Deferred for more than a minute by this worker; nobody makes them due but a free place.
    for (const jobId of waiting) expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', deferred: true })
    expect(woken).toEqual([])
    release.resolve()
    await running
    for (const [index, jobId] of waiting.entries()) {
      await until(() => woken.length === index + 1)
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', leased: false, deferred: false })
      await run(jobId)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    }
    expect(woken).toEqual(waiting)
  })

  it('passes a free place on when the deferred job that it is for has run at another worker', async () => {
    const fetching = fetchingImages({ slotsPerPayer: 1 })
    const woken: string[] = []
    const queue = { enqueue: async (jobId: string) => void woken.push(jobId) }
    const run = (jobId: string) => worker.run(jobId, { ...routes(), ...fetching, queue })
    const release = Promise.withResolvers<void>()
    images.answerWith((_, response) => void release.promise.then(() => response.end(pngHead(64, 64))))
    const payer = await approvedPayer()
    const running = run(await acceptChat(withImages(1), { payer }))
    await until(() => images.requests.length === 1)
    const [elsewhere, next] = [await acceptChat(withImages(1), { payer }), await acceptChat(withImages(1), { payer })]
    await run(elsewhere)
    await run(next)
    images.answerWith((_, response) => response.end(pngHead(64, 64)))
    await worker.runNow(elsewhere, { ...routes(), ...fetchingImages() })
    release.resolve()
    await running
    await until(() => woken.length > 0)
    expect(woken).toEqual([next])
  })

  it('limits the places for remote images of all payers together', async () => {
    const fetching = fetchingImages({ slots: 1 })
    const release = Promise.withResolvers<void>()
    images.answerWith((_, response) => void release.promise.then(() => response.end(pngHead(64, 64))))
    const running = worker.run(await acceptChat(withImages(1)), { ...routes(), ...fetching })
    await until(() => images.requests.length === 1)
    const next = await acceptChat(withImages(1))
    await worker.run(next, { ...routes(), ...fetching })
    expect(await worker.view(next)).toMatchObject({ state: 'accepted', deferred: true })
    expect(images.requests).toHaveLength(1)
    release.resolve()
    await running
  })

  it('counts a remote image as often as the request contains it, since it goes upstream as often', async () => {
    images.answerWith((_, response) => response.end(Buffer.concat([pngHead(64, 64), Buffer.alloc(1_500_000)])))
    const once = await acceptChat(withImages(1))
    await worker.run(once, { ...routes(), ...fetchingImages() })
    expect(await worker.view(once)).toMatchObject({ state: 'completed' })
    const [message] = withImages(1).messages
    const repeated = await acceptChat({ messages: Array.from({ length: 14 }, () => message) })
    await worker.run(repeated, { ...routes(), ...fetchingImages() })
    expect(await worker.view(repeated)).toMatchObject({ failure_code: 'image_unavailable', attempts: [] })
    expect(images.requests).toHaveLength(2)
  })

  it('fetches remote images that find no memory again once there is enough for the largest ones', async () => {
    const memory = createJobMemory(400 * MEBIBYTE)
    const others = await reserved(memory, 345 * MEBIBYTE)
    images.answerWith((_, response) => response.end(Buffer.concat([pngHead(64, 64), Buffer.alloc(1_500_000)])))
    const jobId = await acceptChat(withImages(2))
    const running = worker.run(jobId, { ...routes(), ...fetchingImages(), memory })
    await until(() => memory.current().waitingJobs === 1)
    // It gave back all that it had: two such jobs could otherwise wait for each other.
    expect(memory.current().reservedBytes).toBe(345 * MEBIBYTE)
    others.release()
    await running
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(images.requests.length).toBeGreaterThan(2)
    expect(memory.current().reservedBytes).toBe(0)
  })
})

const MEBIBYTE = 1024 * 1024
const NEVER = new AbortController().signal

async function reserved(memory: ReturnType<typeof createJobMemory>, bytes: number): Promise<MemoryReservation> {
  const reservation = await memory.reserve(bytes, NEVER)
  if (!reservation) throw new Error('nothing was reserved')
  return reservation
}

describe('a job without memory', () => {
  it('waits under its lease, before its upload is opened, and runs when another job ends', async () => {
    const memory = createJobMemory(MEBIBYTE)
    const others = await reserved(memory, MEBIBYTE)
    const opened: string[] = []
    const uploads = { ...worker.uploads, open: (key: string) => (opened.push(key), worker.uploads.open(key)) }
    const { jobId } = await worker.accept()
    const running = worker.run(jobId, { memory, uploads })
    await until(() => memory.current().waitingJobs === 1)
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', leased: true, attempts: [] })
    expect(opened).toEqual([])
    others.release()
    await running
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(memory.current().reservedBytes).toBe(0)
  })

  it('is deferred when none becomes free, and its payer is not blamed when that lasts too long', async () => {
    const memory = createJobMemory(MEBIBYTE, { longestWaitMs: 1 })
    await reserved(memory, MEBIBYTE)
    const { jobId, payer } = await worker.accept()
    await worker.run(jobId, { memory })
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', leased: false, deferred: true, attempts: [] })
    await worker.runDeferredFor(jobId, 300, { memory })
    expect(await worker.view(jobId)).toMatchObject({ state: 'failed', failure_code: 'work_not_started', attempts: [] })
    const work = await worker.ledger.sql('SELECT kind FROM uncharged_work WHERE payer = $1', [payer.address])
    expect(work).toEqual([])
  })

  it('returns its memory however it ends', async () => {
    const memory = createJobMemory(MEBIBYTE)
    for (const code of [200, 401, 500]) {
      worker.upstream.setFaults(code === 200 ? [] : [{ fault: 'status', status: code }])
      const { jobId } = await worker.accept()
      await worker.run(jobId, { memory })
      expect((await worker.view(jobId)).state).toBe(code === 200 ? 'completed' : 'failed')
      expect(memory.current().reservedBytes).toBe(0)
    }
  })

  it('is claimed without its long request, which is read once there is memory for it', async () => {
    const text = 'tram '.repeat(10_000)
    const jobId = await acceptChat({ messages: [{ role: 'user', content: text }] })
    const memory = createJobMemory(MEBIBYTE)
    const others = await reserved(memory, MEBIBYTE)
    const reads: string[] = []
    const executionStore = {
      ...worker.dependencies.executionStore,
      readEffectiveRequest: (id: string) => (reads.push(id), worker.ledger.execution.readEffectiveRequest(id)),
    }
    const running = worker.run(jobId, { ...routes(), memory, executionStore })
    await until(() => memory.current().waitingJobs === 1)
    expect(reads).toEqual([])
    others.release()
    await running
    expect(reads).toEqual([jobId])
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  })
})
