import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { InjectOptions } from 'fastify'
import { afterAll, describe, expect, it, onTestFinished, test, vi } from 'vitest'
import { createCatalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import { createOfferWriter } from '#shared/payment/offer-receipt.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { type Admission, createAdmission } from '../../../api/limits/admission.ts'
import { createLoadGate } from '../../../api/limits/load-gate.ts'
import { createQuotes } from '../../../api/paid-request/quotes.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { createMp3Inspector } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { UNSHARED_VERDICTS } from '../../../api/request/audio/shared-verdicts.ts'
import { createRequests } from '../../../api/request/effective-request.ts'
import { createRequestPreparer } from '../../../api/request/worker-threads/request-preparer.ts'
import { addQuoteRoutes } from '../../../api/routes/quotes.ts'
import { quoteSchema } from '../../../api/schemas/quotes.ts'
import { fixedCatalogs } from '../../support/http/fixed-catalogs.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'
import { admission, composeApp, limitRate, listings, signer, terms } from './compose-app.ts'

const SAMPLE = fileURLToPath(new URL('../../../infra/sandbox/samples/last-tram.mp3', import.meta.url))
const ffmpegPath = (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''
const mp3Inspector = createMp3Inspector({
  decode: createFfmpegDecoder({ ffmpegPath, timeLimitMs: PATIENCE_MS }),
  cache: createInspectionCache({ maximumEntries: 10, timeToLiveMs: 60_000 }),
  verdicts: UNSHARED_VERDICTS,
  limitDecoding: () => undefined,
  concurrency: 1,
  maximumWaiting: 10,
})
const preparer = createRequestPreparer(() => publishedCatalog, 1)
afterAll(() => preparer.close())
const composeQuotes = (admitting: Admission, readChargeGas: (() => Promise<AtomicAmount>) | null = null) =>
  composeApp((composed) =>
    addQuoteRoutes(composed, {
      catalogs: fixedCatalogs(),
      terms,
      limitRate,
      admission: admitting,
      requests: createRequests({ catalogs: fixedCatalogs(), preparer, mp3Inspector }),
      quotes: createQuotes({
        catalogs: fixedCatalogs(),
        readChargeGas,
        terms,
        listings,
        writeOffer: createOfferWriter(signer),
        challengeSecrets: ['a secret of challenges'],
        tracer: { stage: (_: string, work: () => unknown) => work() } as never,
        store: {
          bindKey: async ({ quote }: object & { quote: unknown }) => ({
            outcome: 'bound',
            quote,
            expiresAt: new Date(),
          }),
        } as never,
      }),
    }),
  )
const app = await composeQuotes(admission)
const CHAT_REQUEST = { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1000 }
const MESSAGE_REQUEST = { ...CHAT_REQUEST, max_tokens: 1000 }
const IMAGE_REQUEST = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
const SPEECH_REQUEST = { model: 'speechvendor/flash-v2.5', input: 'a'.repeat(2000) }
const ask = (payload: unknown) => app.inject({ method: 'POST', url: '/v1/quotes', payload: payload as object })
const MODEL = 'speechvendor/scribe-v2'
const DESCRIBED = { sha256: 'a1'.repeat(32), bytes: 10_800_000, duration_ms: 1_800_000 }
const describing = (changes: Record<string, unknown> = {}, options: Record<string, unknown> = {}) => ({
  operation: 'createTranscription',
  request: { model: MODEL, audio: { ...DESCRIBED, ...changes }, ...options },
})
const FORM = [
  { name: 'operation', value: 'createTranscription' },
  { name: 'model', value: MODEL },
]
const FILE = { name: 'file', value: 'not an MP3', fileName: 'a.mp3' }
const askForm = (parts: readonly FormPart[]) =>
  app.inject({
    method: 'POST',
    url: '/v1/quotes',
    payload: multipartBody(parts),
    headers: { 'content-type': MULTIPART_CONTENT_TYPE },
  })

describe('POST /v1/quotes', () => {
  it('POST /v1/quotes prices a request with every term of a challenge', async () => {
    const answer = await ask({ operation: 'createImageGeneration', request: IMAGE_REQUEST })
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(quoteSchema.parse(answer.json())).toEqual({
      object: 'quote',
      operation: 'createImageGeneration',
      path: '/v1/images/generations',
      model: 'textmodel-3.1-flash-lite-image',
      catalog_version: publishedCatalog.version,
      request_digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      price: { amount: '0.035', currency: 'USDC', type: 'maximum' },
      quoted_maximum_atomic: '35000',
      terms: expect.objectContaining({ price_per_image_usd: '0.035' }),
      payment: {
        x402_version: 2,
        scheme: 'upto',
        network: terms.network,
        asset: terms.asset,
        pay_to: terms.payTo,
        max_timeout_seconds: 900,
      },
    })
  })

  it.each([
    ['createChatCompletion', CHAT_REQUEST, 10_000n],
    ['createMessage', MESSAGE_REQUEST, 10_000n],
    ['createSpeech', SPEECH_REQUEST, 441_000n],
  ])('POST /v1/quotes quotes %s at no less than its largest possible charge', async (operation, request, atLeast) => {
    const answer = await ask({ operation, request })
    expect({ status: answer.statusCode, operation: answer.json().operation }).toEqual({ status: 200, operation })
    expect(BigInt(answer.json().quoted_maximum_atomic)).toBeGreaterThanOrEqual(atLeast)
  })

  it('POST /v1/quotes prices a transcription by its audio duration', async () => {
    const audio = (await readFile(SAMPLE)).toString('base64')
    const request = { model: 'speechvendor/scribe-v2', audio_base64: audio }
    const answer = await ask({ operation: 'createTranscription', request })
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toMatchObject({ price: { amount: '0.005034' }, terms: { price_per_audio_hour_usd: '0.122' } })
  })

  it('POST /v1/quotes returns the same quote for the same request, with or without explicit defaults', async () => {
    const [first, again, spelledOut] = await Promise.all([
      ask({ operation: 'createImageGeneration', request: IMAGE_REQUEST }),
      ask({ operation: 'createImageGeneration', request: IMAGE_REQUEST }),
      ask({ operation: 'createImageGeneration', request: { ...IMAGE_REQUEST, n: 1, response_format: 'url' } }),
    ])
    expect([again.body, spelledOut.body]).toEqual([first.body, first.body])
  })
})

const askWith = async (readChargeGas: () => Promise<AtomicAmount>) => {
  const raised = await composeQuotes(admission, readChargeGas)
  return await raised.inject({
    method: 'POST',
    url: '/v1/quotes',
    payload: { operation: 'createSpeech', request: { ...SPEECH_REQUEST, input: 'Hi' } },
  })
}

describe('a minimum charge that follows the gas', () => {
  it('POST /v1/quotes shows it as a line of its own, and a maximum of at least as much', async () => {
    const {
      price,
      quoted_maximum_atomic: maximum,
      terms: shown,
    } = quoteSchema.parse((await askWith(() => Promise.resolve(atomicAmount(3492n)))).json())
    expect([price.amount, maximum]).toEqual(['0.003492', '3492'])
    expect(shown).toMatchObject({ minimum_charge_usd: '0.002', gas_minimum_charge_usd: '0.003492' })
  })

  it('POST /v1/quotes answers 503 and says that no money moved while the gas cannot be read', async () => {
    const answer = await askWith(() => Promise.reject(new AppError('payment_network_unavailable')))
    expect(answer.statusCode).toBe(503)
    expect(answer.json()).toMatchObject({ error: { code: 'payment_network_unavailable', payment: 'none' } })
  })
})

describe('a transcription that describes its recording', () => {
  it('POST /v1/quotes prices a described recording that was never sent, and says that it was not inspected', async () => {
    const answer = await ask(describing())
    expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
      status: 200,
      body: { price: { amount: '0.061' }, audio: { ...DESCRIBED, is_inspected: false } },
    })
  })

  it('POST /v1/quotes gives a described and a sent recording the same digest and price, in JSON and in a form', async () => {
    const file = await readFile(SAMPLE)
    const options = { model: MODEL, language: 'en', diarize: true, num_speakers: 2 }
    const request = { ...options, audio_base64: file.toString('base64') }
    const sent = (await ask({ operation: 'createTranscription', request })).json()
    const { is_inspected: isInspected, ...facts } = sent.audio
    expect(facts).toEqual({ sha256: sha256Hex(file), bytes: file.length, duration_ms: 24_529 })
    expect(isInspected).toBe(true)
    const described = (await ask(describing(facts, options))).json()
    expect(described).toEqual({ ...sent, audio: { ...facts, is_inspected: false } })
    const fields = Object.entries({ operation: 'createTranscription', ...options })
    const form = await askForm([
      { name: 'file', value: file, fileName: 'a.mp3' },
      ...fields.map(([name, value]) => ({ name, value: String(value) })),
    ])
    expect(form.json()).toEqual(sent)
  })

  it('POST /v1/quotes reads a description in a body that is large enough for a thread', async () => {
    const headers = { 'content-type': 'application/json' }
    const payload = `${JSON.stringify(describing())}${' '.repeat(300 * 1024)}`
    const answer = await app.inject({ method: 'POST', url: '/v1/quotes', payload, headers })
    expect(answer.json()).toEqual((await ask(describing())).json())
  })

  it.each([
    ['an upper-case hash', describing({ sha256: 'A1'.repeat(32) }), 'invalid_field', 'audio.sha256'],
    ['a hash without its last digit', describing({ sha256: 'a'.repeat(63) }), 'invalid_field', 'audio.sha256'],
    ['a hash with one digit more', describing({ sha256: 'a'.repeat(65) }), 'invalid_field', 'audio.sha256'],
    ['a hash and a line break', describing({ sha256: `${'a'.repeat(64)}\n` }), 'invalid_field', 'audio.sha256'],
    ['a hash that is a number', describing({ sha256: 7 }), 'invalid_field', 'audio.sha256'],
    ['no hash', describing({ sha256: undefined }), 'missing_field', 'audio.sha256'],
    ['no bytes', describing({ bytes: 0 }), 'invalid_field', 'audio.bytes'],
    ['half a byte', describing({ bytes: 1.5 }), 'invalid_field', 'audio.bytes'],
    ['bytes as text', describing({ bytes: '100' }), 'invalid_field', 'audio.bytes'],
    ['one byte too many', describing({ bytes: 26_214_401 }), 'audio_too_large', 'audio.bytes'],
    ['10^30 bytes', describing({ bytes: 1e30 }), 'audio_too_large', 'audio.bytes'],
    ['0 ms', describing({ duration_ms: 0 }), 'invalid_field', 'audio.duration_ms'],
    ['-1 ms', describing({ duration_ms: -1 }), 'invalid_field', 'audio.duration_ms'],
    ['a fraction of a millisecond', describing({ duration_ms: 0.5 }), 'invalid_field', 'audio.duration_ms'],
    ['one millisecond', describing({ duration_ms: 1 }), 'audio_too_short', 'audio.duration_ms'],
    ['one millisecond too few', describing({ duration_ms: 99 }), 'audio_too_short', 'audio.duration_ms'],
    ['one millisecond too many', describing({ duration_ms: 3_600_001 }), 'audio_too_long', 'audio.duration_ms'],
    ['10^30 ms', describing({ duration_ms: 1e30 }), 'audio_too_long', 'audio.duration_ms'],
    ['no duration', describing({ duration_ms: undefined }), 'missing_field', 'audio.duration_ms'],
    ['another fact', describing({ bitrate: 128 }), 'unknown_field', 'bitrate'],
    ['an unknown option', describing({}, { prompt: 'x' }), 'unknown_field', 'prompt'],
    ['a wrong option', describing({}, { num_speakers: 33 }), 'invalid_field', 'num_speakers'],
    ['the audio itself as well', describing({}, { audio_base64: 'SUQzBA==' }), 'invalid_field', 'audio'],
    ['null', { operation: 'createTranscription', request: { model: MODEL, audio: null } }, 'invalid_field', 'audio'],
    [
      'another operation',
      { operation: 'createSpeech', request: { ...SPEECH_REQUEST, audio: DESCRIBED } },
      'unknown_field',
      'audio',
    ],
    ['challenge as text', { ...describing(), challenge: 'true' }, 'invalid_field', 'challenge'],
  ])(
    'POST /v1/quotes answers a description with %s with a 400 that names the field',
    async (_, payload, code, param) => {
      const answer = await ask(payload)
      expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
        status: 400,
        body: { error: { code, param, payment: 'none', retry: 'never' } },
      })
    },
  )

  it('POST /v1/quotes accepts a description at the published limits', async () => {
    const answer = await ask(describing({ bytes: 26_214_400, duration_ms: 3_600_000 }))
    expect([answer.statusCode, answer.json().price?.amount]).toEqual([200, '0.122'])
    const short = await ask(describing({ duration_ms: 100 }))
    expect([short.statusCode, short.json().price?.amount]).toEqual([200, '0.005034'])
  })
})

/** Reads a described recording of 24 ms. */
function readShort(options: object) {
  return createRequests({ catalogs: fixedCatalogs(), preparer, mp3Inspector }).readQuotedRequest(
    { body: describing({ duration_ms: 24 }), headers: {} } as never,
    { client: ['192.0.2.1'], hasPriority: true, ...options },
  )
}

test('a recording that the catalog of its quote takes is taken, although the least length is greater now', async () => {
  const models = publishedCatalog.models.map((model) => {
    if (model.category !== 'speech_to_text') return model
    const { minimumAudioDurationMs: _, ...older } = model
    return older
  })
  const quotedCatalog = createCatalog({ ...publishedCatalog, models })
  expect((await readShort({ quotedCatalog })).effectiveRequest.recording?.audio.durationMs).toBe(24)
  await expect(readShort({})).rejects.toMatchObject({ code: 'audio_too_short' })
})

describe('a form', () => {
  it.each([
    ['no operation', [{ name: 'model', value: MODEL }, FILE], 'missing_field', 'operation'],
    ['another operation', [{ name: 'operation', value: 'createSpeech' }, FILE], 'invalid_field', 'operation'],
    ['no model', [FORM[0], FILE], 'missing_field', 'model'],
    ['no file', FORM, 'missing_field', 'file'],
    ['a file that is no MP3', [...FORM, FILE], 'unsupported_audio', 'file'],
    ['an unknown field', [...FORM, FILE, { name: 'prompt', value: 'x' }], 'unknown_field', 'prompt'],
    ['a field twice', [...FORM, FILE, { name: 'model', value: MODEL }], 'duplicate_field', 'model'],
    ['an option of the wrong type', [...FORM, FILE, { name: 'diarize', value: '1' }], 'invalid_field', 'diarize'],
    [
      'a challenge that is no boolean',
      [...FORM, FILE, { name: 'challenge', value: '1' }],
      'invalid_field',
      'challenge',
    ],
    ['a description', [...FORM, FILE, { name: 'audio', value: JSON.stringify(DESCRIBED) }], 'unknown_field', 'audio'],
  ])('POST /v1/quotes answers a form with %s with a 400 that names the field', async (_, parts, code, param) => {
    const answer = await askForm(parts as FormPart[])
    expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
      status: 400,
      body: { error: { code, param, payment: 'none', retry: 'never' } },
    })
  })

  it.each(['text/plain', 'application/x-www-form-urlencoded'])('POST /v1/quotes answers 415 to %s', async (type) => {
    const answer = await app.inject({
      method: 'POST',
      url: '/v1/quotes',
      payload: 'a',
      headers: { 'content-type': type },
    })
    expect([answer.statusCode, answer.json().error.code]).toEqual([415, 'unsupported_content_type'])
  })
})

describe('a service without room', () => {
  const description = { audio: { sha256: DESCRIBED.sha256, bytes: 1, durationMs: 1 }, isReplaced: false }
  const binding = { requestDigest: '', quote: {} as never, expiresAt: new Date(), isLive: true }
  const admittingWith = (busy: {
    queueAgeMs?: number
    decoderSeconds?: number
    description?: typeof description | null
    expectUpload?: () => void
  }) =>
    createAdmission({
      gate: createLoadGate({
        bodyBytes: 1024 ** 3,
        held: { total: 10, perPayer: 10, perClient: 10, perJob: 10 },
        queueAgeMs: 1000,
      }),
      payingCallers: { isPaying: () => busy.description !== undefined, isKnownPayer: () => false },
      queueAge: async () => busy.queueAgeMs ?? 0,
      mp3Inspector: { retryAfterSeconds: () => busy.decoderSeconds ?? null },
      expectUpload: busy.expectUpload ?? (() => undefined),
      store: {
        hasJob: async () => false,
        findBinding: async () => ({ ...binding, description: busy.description ?? null }),
      },
    })
  const challenge = { payload: { ...describing(), challenge: true }, headers: { 'x-idempotency-key': 'a-key' } }

  it.each([
    ['jobs wait for a worker', { queueAgeMs: 1001 }],
    ['all decoders are busy', { decoderSeconds: 7 }],
  ])('POST /v1/quotes gives prices but no challenge while %s, as the endpoint does', async (_, busy) => {
    const full = await composeQuotes(admittingWith(busy))
    const post = { method: 'POST', url: '/v1/quotes' } as const
    expect((await full.inject({ ...post, payload: describing() })).statusCode).toBe(200)
    const refused = await full.inject({ ...post, ...challenge })
    expect([refused.statusCode, refused.json().error?.code]).toEqual([503, 'overloaded'])
    const free = await composeQuotes(admittingWith({}))
    expect((await free.inject({ ...post, ...challenge })).statusCode).toBe(402)
  })

  it('POST /v1/quotes gives a challenge for a recording that is inspected, even if all decoders are busy by then', async () => {
    const full = await composeQuotes(admittingWith({ decoderSeconds: 7 }))
    const request = { model: MODEL, audio_base64: (await readFile(SAMPLE)).toString('base64') }
    const payload = { operation: 'createTranscription', request, challenge: true }
    const answer = await full.inject({ method: 'POST', url: '/v1/quotes', payload, headers: challenge.headers })
    expect(answer.statusCode).toBe(402)
  })

  it('POST /v1/quotes reads no form while all decoders are busy', async () => {
    const full = await composeQuotes(admittingWith({ decoderSeconds: 7 }))
    const headers = { 'content-type': MULTIPART_CONTENT_TYPE }
    const refused = await full.inject({ method: 'POST', url: '/v1/quotes', payload: multipartBody(FORM), headers })
    expect([refused.statusCode, refused.headers['retry-after']]).toEqual([503, '7'])
  })

  it.each([
    ['refuses a signed request whose recording was only described', description, 503],
    [
      'admits a signed request whose recording took the place of a description',
      { ...description, isReplaced: true },
      200,
    ],
    ['admits a signed request whose recording was inspected', null, 200],
  ])('admission %s while all decoders are busy', async (_, described, status) => {
    const full = admittingWith({ decoderSeconds: 7, description: described })
    const served = await composeApp((composed) => {
      composed.addHook('onRequest', async (request, reply) => {
        await full.admit(request, reply, { operation: operationById('createTranscription'), idempotencyKey: 'a-key' })
      })
      composed.post('/', async () => ({}))
    })
    expect((await served.inject({ method: 'POST', url: '/', payload: {} })).statusCode).toBe(status)
  })

  it.each<{ what: string; operation?: string; send?: InjectOptions; isInspected?: boolean; expected: boolean }>([
    { what: 'a recording', send: { payload: {} }, expected: true },
    { what: 'a body of unknown length', send: { headers: { 'transfer-encoding': 'chunked' } }, expected: true },
    { what: 'a probe without a body', expected: false },
    { what: 'a text', operation: 'createChatCompletion', send: { payload: {} }, expected: false },
    { what: 'a signed request for an inspected one', send: { payload: {} }, isInspected: true, expected: false },
  ])('admission of $what prepares a decoder: $expected', async ({ operation, send, isInspected, expected }) => {
    const expectUpload = vi.fn<() => void>()
    const room = admittingWith({ expectUpload, ...(isInspected && { description: null }) })
    const served = await composeApp((composed) => {
      composed.addHook('onRequest', async (request, reply) => {
        const named = operationById(operation ?? 'createTranscription')
        await room.admit(request, reply, { operation: named, idempotencyKey: null })
      })
      composed.post('/', async () => ({}))
    })
    await served.inject({ method: 'POST', url: '/', ...send })
    expect(expectUpload.mock.calls.length > 0).toBe(expected)
  })
})

describe('a client that disconnects while it uploads', () => {
  const BODY_BYTES = 900_000
  it.each([
    ['a form', MULTIPART_CONTENT_TYPE, multipartBody([...FORM, { ...FILE, value: 'a'.repeat(BODY_BYTES) }])],
    [
      'JSON',
      'application/json',
      `{"operation":"createTranscription","request":{"audio_base64":"${'A'.repeat(BODY_BYTES)}"}}`,
    ],
  ])('POST /v1/quotes frees the memory of its body: %s', async (_, type, body) => {
    const gate = createLoadGate({
      bodyBytes: 1024 ** 3,
      held: { total: 10, perPayer: 10, perClient: 10, perJob: 10 },
      queueAgeMs: 1000,
    })
    const served = await composeQuotes(
      createAdmission({
        gate,
        payingCallers: { isPaying: () => false, isKnownPayer: () => false },
        queueAge: async () => 0,
        mp3Inspector,
        expectUpload: () => undefined,
        store: { hasJob: async () => false, findBinding: async () => null },
      }),
    )
    onTestFinished(() => served.close())
    const { port } = new URL(await served.listen({ port: 0, host: '127.0.0.1' }))
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => undefined)
    const head = ['POST /v1/quotes HTTP/1.1', 'host: test', `content-type: ${type}`, `content-length: ${body.length}`]
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
    socket.write(body.slice(0, BODY_BYTES / 2))
    await until(() => gate.currentLoad().bodyBytes > 0)
    await delay(50)
    socket.resetAndDestroy()
    await until(() => gate.currentLoad().bodyBytes === 0)
  })
})

describe('a request that cannot be quoted', () => {
  it.each([
    [{}, 'missing_field', 'operation'],
    [{ operation: 'createImageGeneration' }, 'missing_field', 'request'],
    [{ operation: 'createVideo', request: {} }, 'invalid_field', 'operation'],
    [{ operation: 7, request: {} }, 'invalid_field', 'operation'],
    [{ operation: 'createImageGeneration', request: IMAGE_REQUEST, n: 2 }, 'unknown_field', 'n'],
    [{ operation: 'createImageGeneration', request: {} }, 'missing_field', 'model'],
    [{ operation: 'createImageGeneration', request: { ...IMAGE_REQUEST, n: 2 } }, 'invalid_field', 'n'],
    [{ operation: 'createImageGeneration', request: { ...IMAGE_REQUEST, style: 'oil' } }, 'unknown_field', 'style'],
    [
      { operation: 'createTranscription', request: { model: 'speechvendor/scribe-v2' } },
      'missing_field',
      'audio_base64',
    ],
  ])('POST /v1/quotes answers %j with a 400 that names the field', async (payload, code, param) => {
    const answer = await ask(payload)
    expect(answer.statusCode).toBe(400)
    expect(answer.json()).toMatchObject({ type: 'error', error: { code, param, payment: 'none', retry: 'never' } })
  })

  it.each(['[]', '"text"', 'null', '7', '', '{'])(
    'POST /v1/quotes answers a body that is not a JSON object (%s) with 400 and a sentence about the body',
    async (payload) => {
      const headers = { 'content-type': 'application/json' }
      const answer = await app.inject({ method: 'POST', url: '/v1/quotes', payload, headers })
      expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_json', param: null, message: expect.stringMatching(/^The request body /) } },
      })
    },
  )

  it('GET /v1/quotes is a 405', async () => {
    const answer = await app.inject('/v1/quotes')
    expect([answer.statusCode, answer.headers.allow]).toEqual([405, 'POST'])
  })
})
