import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { findFfmpeg } from '../../../api/request/audio/find-ffmpeg.ts'
import { createMp3Inspector } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { readQuotedRequest } from '../../../api/request/effective-request.ts'
import { createRequestPreparer } from '../../../api/request/worker-threads/request-preparer.ts'
import { addQuoteRoutes } from '../../../api/routes/quotes.ts'
import { quoteSchema } from '../../../api/schemas/quotes.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { admission, composeApp, limitRate, terms } from './compose-app.ts'

const SAMPLE = fileURLToPath(new URL('../../../infra/sandbox/samples/last-tram.mp3', import.meta.url))
const ffmpegPath = (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''
const mp3Inspector = createMp3Inspector({
  decode: createFfmpegDecoder({ ffmpegPath, timeLimitMs: PATIENCE_MS }),
  cache: createInspectionCache({ maximumEntries: 10, timeToLiveMs: 60_000 }),
  limits: { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 },
  concurrency: 1,
  maximumWaiting: 10,
})
const preparer = createRequestPreparer(publishedCatalog, 1)
afterAll(() => preparer.close())
const app = await composeApp((composed) =>
  addQuoteRoutes(composed, {
    catalog: publishedCatalog,
    terms,
    limitRate,
    admission,
    readQuotedRequest: (body, caller) =>
      readQuotedRequest({ catalog: publishedCatalog, preparer, mp3Inspector }, body, caller),
  }),
)

const CHAT_REQUEST = { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1000 }
const MESSAGE_REQUEST = { ...CHAT_REQUEST, max_tokens: 1000 }
const IMAGE_REQUEST = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
const SPEECH_REQUEST = { model: 'speechvendor/flash-v2.5', input: 'a'.repeat(2000) }
const ask = (payload: unknown) => app.inject({ method: 'POST', url: '/v1/quotes', payload: payload as object })

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
