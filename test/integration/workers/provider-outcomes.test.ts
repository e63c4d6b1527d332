import { randomUUID } from 'node:crypto'
import type { lookup } from 'node:dns'
import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { createImageFetcher } from '../../../workers/executions/fetch-remote-image.ts'
import { createExecutions } from '../../../workers/executions/registry.ts'
import { createRemoteImages } from '../../../workers/executions/remote-images.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleTranscription } from '../../../workers/providers/openai-compatible/transcription.ts'
import { CERTIFICATE, type ImageServer, startImageServer } from '../../support/http/image-server.ts'
import { acceptTestJob } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow, signAuthorization } from '../../support/payer/sign-authorization.ts'
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
  priority: 1,
  weight: 1,
  transcription: createOpenAiCompatibleTranscription({
    baseUrl: `${worker.upstream.url}/v1`,
    upstreamModel: 'simulated-whisper',
    http: createHttp({ fetch }),
  }),
})

interface ChatOptions {
  readonly payer?: Payer
  readonly deadline?: bigint
}

/** Returns a payer who can pay for several calls at a time. */
const approvedPayer = () => createPayer(worker.devnet.rpcUrl, { approved: true })

/** Accepts a chat completion at its quoted maximum. Returns its id. */
async function acceptChat(body: object, { payer, deadline }: ChatOptions = {}): Promise<string> {
  const parsed = chatCompletions.bodySchema.parse({
    model: MODEL,
    messages: [{ role: 'user', content: 'Is this a tram?' }],
    ...body,
  })
  const effective = chatCompletions.effectiveRequest(parsed, null, publishedCatalog)
  const quote = chatCompletions.quote(effective, publishedCatalog)
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
    operation: 'createChatCompletion',
    publicModel: MODEL,
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
      createRemoteImages(fetcher, { places: 8, placesPerPayer: 2, timeoutMs: PATIENCE_MS, ...limits }),
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
    const hanging: Deployment['text'] = {
      generateText: async () => ({
        outcome: 'failed',
        certainty: 'ambiguous',
        code: 'provider_outcome_unknown',
        reason: 'no complete response within 1 ms',
        timedOut: true,
      }),
    }
    const routed = routedTo([{ ...gemini(), text: hanging }], PATIENCE_MS)
    for (let count = 0; count < 3; count += 1) await worker.run(await acceptChat({ max_tokens: 65_536 }), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'closed' }])
    for (let count = 0; count < 3; count += 1) await worker.run(await acceptChat({}), routed)
    expect(routed.router.states()).toMatchObject([{ circuit: 'open' }])
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
    const fetching = fetchingImages({ placesPerPayer: 1 })
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

  it('limits the places for remote images of all payers together', async () => {
    const fetching = fetchingImages({ places: 1 })
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
})
