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
import { addQuoteRoutes, quoteSchema } from '../../../api/routes/quotes.ts'
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
    readQuotedRequest: (body) => readQuotedRequest({ catalog: publishedCatalog, preparer, mp3Inspector }, body),
  }),
)

const chatRequest = { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1000 }
const messageRequest = { ...chatRequest, max_tokens: 1000 }
const imageRequest = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
const speechRequest = { model: 'speechvendor/flash-v2.5', input: 'a'.repeat(2000) }
const ask = (payload: unknown) => app.inject({ method: 'POST', url: '/v1/quotes', payload: payload as object })

describe('POST /v1/quotes', () => {
  it('prices a request with every term that a challenge would name', async () => {
    const answer = await ask({ operation: 'createImageGeneration', request: imageRequest })
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
    ['createChatCompletion', chatRequest, 10_000n],
    ['createMessage', messageRequest, 10_000n],
    ['createSpeech', speechRequest, 441_000n],
  ])('prices %s within its bounds and not below its ceiling', async (operation, request, atLeast) => {
    const answer = await ask({ operation, request })
    expect({ status: answer.statusCode, operation: answer.json().operation }).toEqual({ status: 200, operation })
    expect(BigInt(answer.json().quoted_maximum_atomic)).toBeGreaterThanOrEqual(atLeast)
  })

  it('measures the audio of a transcription', async () => {
    const audio = (await readFile(SAMPLE)).toString('base64')
    const request = { model: 'speechvendor/scribe-v2', audio_base64: audio }
    const answer = await ask({ operation: 'createTranscription', request })
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toMatchObject({ price: { amount: '0.005034' }, terms: { price_per_audio_hour_usd: '0.122' } })
  })

  it('binds nothing: the same question has the same answer, and spelled-out defaults do not change it', async () => {
    const [first, again, spelledOut] = await Promise.all([
      ask({ operation: 'createImageGeneration', request: imageRequest }),
      ask({ operation: 'createImageGeneration', request: imageRequest }),
      ask({ operation: 'createImageGeneration', request: { ...imageRequest, n: 1, response_format: 'url' } }),
    ])
    expect([again.body, spelledOut.body]).toEqual([first.body, first.body])
  })
})

describe('a question that cannot be priced', () => {
  it.each([
    [{}, 'missing_field', 'operation'],
    [{ operation: 'createImageGeneration' }, 'missing_field', 'request'],
    [{ operation: 'createVideo', request: {} }, 'invalid_field', 'operation'],
    [{ operation: 7, request: {} }, 'invalid_field', 'operation'],
    [{ operation: 'createImageGeneration', request: imageRequest, n: 2 }, 'unknown_field', 'n'],
    [{ operation: 'createImageGeneration', request: {} }, 'missing_field', 'model'],
    [{ operation: 'createImageGeneration', request: { ...imageRequest, n: 2 } }, 'invalid_field', 'n'],
    [{ operation: 'createImageGeneration', request: { ...imageRequest, style: 'oil' } }, 'unknown_field', 'style'],
    [
      { operation: 'createTranscription', request: { model: 'speechvendor/scribe-v2' } },
      'missing_field',
      'audio_base64',
    ],
  ])('%j is a 400 that names the field', async (payload, code, param) => {
    const answer = await ask(payload)
    expect(answer.statusCode).toBe(400)
    expect(answer.json()).toMatchObject({ type: 'error', error: { code, param, payment: 'none', retry: 'never' } })
  })

  it.each(['[]', '"text"', '{'])('a body that is no JSON object (%s) is a 400', async (payload) => {
    const headers = { 'content-type': 'application/json' }
    expect((await app.inject({ method: 'POST', url: '/v1/quotes', payload, headers })).statusCode).toBe(400)
  })

  it('GET is the common 405', async () => {
    const answer = await app.inject('/v1/quotes')
    expect([answer.statusCode, answer.headers.allow]).toEqual([405, 'POST'])
  })
})
