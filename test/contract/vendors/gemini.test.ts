import { readFileSync } from 'node:fs'
import { inflateSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { imageSize } from '#shared/operations/text/image-bytes.ts'
import { drawPng } from '../../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { createGeminiImage } from '../../../workers/providers/gemini/image.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { jpegHead, pngHead, webpExtended, webpLossless, webpLossy } from '../../unit/operations/sample-images.ts'
import { createExpiringHttp } from '../expiring-http.ts'

const API_KEY = 'AIza_CANARY_key_0f2c'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../fixtures/gemini/${name}.json`, import.meta.url), 'utf8'))
let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())
function generate(prompt = 'A CANARY tram at dawn', { key = API_KEY, http = createHttp({ fetch }) } = {}) {
  const provider = createGeminiImage({
    baseUrl: upstream.url,
    apiKey: key,
    upstreamModel: 'gemini-3.1-flash-lite-image',
    http,
  })
  return provider.generateImage({ prompt, size: '1024x1024' }, { timeoutMs: PATIENCE_MS })
}
function answerWith(body: unknown, status = 200) {
  upstream.setFaults([{ fault: 'status', status, body }])
}
const withData = (data: string) => ({
  candidates: [{ content: { parts: [{ inlineData: { mimeType: 'image/png', data } }] }, finishReason: 'STOP' }],
})
const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('the simulated vendor', () => {
  test('requests one square image of the smallest size', async () => {
    await generate()
    expect(upstream.calls).toHaveLength(1)
    const { contents, generationConfig } = upstream.calls[0]?.fields ?? {}
    expect(JSON.parse(contents ?? '')).toEqual([{ role: 'user', parts: [{ text: 'A CANARY tram at dawn' }] }])
    expect(JSON.parse(generationConfig ?? '')).toEqual({
      responseModalities: ['IMAGE'],
      imageConfig: { aspectRatio: '1:1', imageSize: '1K' },
    })
  })

  test('returns a real PNG of 1024 × 1024 pixels, the same for the same prompt', async () => {
    const outcome = await generate()
    if (outcome.outcome !== 'generated') throw new Error(outcome.reason)
    const { bytes, contentType } = outcome.image
    expect(contentType).toBe('image/png')
    expect(imageSize(bytes)).toEqual({ width: 1024, height: 1024 })
    expect(Buffer.from(bytes).equals(drawPng('A CANARY tram at dawn'))).toBe(true)
    expect(Buffer.from(bytes).equals(drawPng('another'))).toBe(false)
    expect(bytes.byteLength).toBeLessThan(200_000)
    const start = Buffer.from(bytes).indexOf('IDAT')
    const data = bytes.subarray(start + 4, start + 4 + Buffer.from(bytes).readUInt32BE(start - 4))
    expect(inflateSync(data)).toHaveLength(1024 * 1025)
  })

  test('reports a blocked prompt as rejected before any work', async () => {
    expect(await generate('please block')).toEqual({
      ...DEFINITE,
      code: 'provider_rejected',
      reason: 'HTTP 200 with a blocked prompt, PROHIBITED_CONTENT',
    })
  })

  test('reports an image that was drawn and withheld as rejected after the work', async () => {
    expect(await generate('please refuse')).toEqual({
      ...EMPTY,
      code: 'provider_rejected',
      reason: 'HTTP 200 without an image, IMAGE_SAFETY',
    })
  })

  test.each([
    ['a model of text', 'The model does not support the requested response modalities.'],
    ['a model without sizes', 'imageSize is not supported for models/gemini-2.5-flash-image.'],
    ['a model without this shape', 'The aspect ratio 1:1 is not supported by this model.'],
  ])('%s is for the operator to correct, not for the caller', async (_name, message) => {
    answerWith({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }, 400)
    expect(await generate()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      reason: 'HTTP 400 INVALID_ARGUMENT',
    })
  })

  test('fails definitely with a wrong key', async () => {
    expect(await generate('x', { key: 'AIza_CANARY_wrong' })).toMatchObject({
      ...DEFINITE,
      code: 'provider_unavailable',
    })
  })
})

describe('documented answers', () => {
  test('skips the draft of a thinking model, and detects the type from the bytes', async () => {
    const answer = JSON.stringify(fixture('image'))
    const [onePixel] = /iVBOR[A-Za-z0-9+/=]+/.exec(answer) ?? []
    answerWith(answer.replace(onePixel ?? '', drawPng('tram').toString('base64')))
    const outcome = await generate()
    expect(outcome).toMatchObject({
      outcome: 'generated',
      image: { contentType: 'image/png' },
      vendorRequestId: 'iAitaLmkHPPlz7IPvtfUqQ4',
    })
    expect(outcome.outcome === 'generated' && imageSize(outcome.image.bytes)).toEqual({ width: 1024, height: 1024 })
  })

  test.each([
    ['image/png', pngHead(1024, 1024)],
    ['image/jpeg', jpegHead(1024, 1024)],
    ['image/webp', webpLossy(1024, 1024)],
    ['image/webp', webpLossless(1024, 1024)],
    ['image/webp', webpExtended(1024, 1024)],
  ])('detects %s from the bytes', async (contentType, bytes) => {
    answerWith(withData(bytes.toString('base64')))
    expect(await generate()).toMatchObject({ outcome: 'generated', image: { contentType } })
  })

  test.each([
    ['a PNG of one pixel', pngHead(1, 1)],
    ['a PNG of twice the height', pngHead(1024, 2048)],
    ['a JPEG of twice the width', jpegHead(2048, 1024)],
    ['a lossy WebP of half the size', webpLossy(512, 512)],
    ['a lossless WebP of twice the size', webpLossless(2048, 2048)],
    ['an extended WebP of another shape', webpExtended(1280, 768)],
    ['a PNG without a header', pngHead(1024, 1024).subarray(0, 20)],
    ['a WebP without a frame', webpExtended(1024, 1024).subarray(0, 16)],
  ])('an image of another size than the one that is sold is no output: %s', async (_name, bytes) => {
    answerWith(withData(bytes.toString('base64')))
    expect(await generate()).toMatchObject(EMPTY)
  })

  test.each<[string, unknown]>([
    ['no parts', { candidates: [{ content: { parts: [] }, finishReason: 'STOP' }] }],
    ['only text', { candidates: [{ content: { parts: [{ text: 'CANARY' }] }, finishReason: 'NO_IMAGE' }] }],
    ['empty bytes', withData('')],
    ['bytes that are not an image', withData(Buffer.from('<svg>CANARY</svg>').toString('base64'))],
    ['no candidate', { usageMetadata: { promptTokenCount: 4 } }],
  ])('reports an empty output for %s', async (_name, body) => {
    answerWith(body)
    expect(await generate()).toMatchObject(EMPTY)
  })

  test.each(['IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'PROHIBITED_CONTENT', 'SAFETY'])(
    'reports %s without an image as rejected after the work',
    async (finishReason) => {
      answerWith({ candidates: [{ finishReason }] })
      expect(await generate()).toMatchObject({ ...EMPTY, code: 'provider_rejected' })
    },
  )
})

describe('failures', () => {
  test.each<[FaultRuleInput, object]>([
    [
      { fault: 'status', status: 400, body: fixture('error-invalid-argument') },
      { ...DEFINITE, code: 'provider_rejected' },
    ],
    [
      { fault: 'status', status: 429, body: {} },
      { ...DEFINITE, code: 'provider_unavailable' },
    ],
    [{ fault: 'emptyText' }, EMPTY],
    [{ fault: 'status', status: 500, body: {} }, UNKNOWN_OUTCOME],
    [{ fault: 'status', status: 200, body: {} }, UNKNOWN_OUTCOME],
    [{ fault: 'hang' }, UNKNOWN_OUTCOME],
    [{ fault: 'resetBeforeRead' }, UNKNOWN_OUTCOME],
    [{ fault: 'resetAfterRead' }, UNKNOWN_OUTCOME],
    [{ fault: 'resetMidBody' }, UNKNOWN_OUTCOME],
    [{ fault: 'truncatedJson' }, UNKNOWN_OUTCOME],
  ])('fails after exactly one call without revealing key or prompt: %o', async (rule, expected) => {
    upstream.setFaults([rule])
    const outcome = await generate(undefined, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(expected)
    expect(JSON.stringify(outcome)).not.toMatch(/CANARY|AIza|tram/)
    expect(upstream.calls).toHaveLength(1)
  })

  test('leaves the outcome unknown for an answer above the size limit', async () => {
    upstream.setFaults([{ fault: 'hugeBody', bytes: 64 * 1024 * 1024 }])
    expect(await generate()).toMatchObject({
      ...UNKNOWN_OUTCOME,
      reason: 'HTTP 200, response larger than 50331648 bytes',
    })
  })
})
