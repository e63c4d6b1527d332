import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectErrorBody, expectNeverRetry } from '../support/http/expect-refusal.ts'
import { atomicOf } from '../support/http/json-endpoint.ts'
import { TEXT_MODELS } from '../support/http/text-input.ts'
import { payForCall } from '../support/payer/paid-call.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'

const USDC = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'

const PAID = [
  ['/v1/chat/completions', '0.002', '0.766952'],
  ['/v1/messages', '0.002', '0.766952'],
  ['/v1/images/generations', '0.035', '0.035'],
  ['/v1/audio/speech', '0.002', '0.441'],
  ['/v1/audio/transcriptions', '0.005034', '0.122'],
] as const

const STATIC = [
  '/',
  '/v1/models',
  '/v1/models/speechvendor%2Fscribe-v2',
  '/v1/pricing',
  '/v1/audio/voices',
  '/openapi.json',
  '/llms.txt',
  '/SKILL.md',
  '/robots.txt',
  '/.well-known/x402',
]
const FREE = [...STATIC, '/docs/', '/healthz', '/readyz']

const [IMAGE, SPEECH, TRANSCRIPTION] = [
  'textmodel-3.1-flash-lite-image',
  'speechvendor/flash-v2.5',
  'speechvendor/scribe-v2',
]

const VOICES =
  'darian talia elara baxter eldrin kellan elowen kaelen lawrence alicia maisie warren jade eddie caleb sawyer finley florence wyatt bella'.split(
    ' ',
  )

type Fields = Record<string, unknown>

const common = (category: string, billing_mode: string, bounds: readonly string[]) => ({
  category,
  billing_mode,
  currency: 'USD',
  minimum_charge_usd: bounds[0],
  maximum_charge_usd: bounds[1],
})
const atomic = (balance: Fields) => BigInt(String(balance['balance_usdc_atomic']))

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

const call = (path: string, init?: RequestInit) => fetch(`${sandbox.info.baseUrl}${path}`, init)

async function read(path: string): Promise<Fields> {
  const answer = await call(path)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
  return (await answer.json()) as Fields
}

describe('GET /v1/models', () => {
  const categories = {
    text_generation: { endpoints: ['/v1/chat/completions', '/v1/messages'], models: [...TEXT_MODELS] },
    image_generation: { endpoints: ['/v1/images/generations'], models: [IMAGE] },
    text_to_speech: { endpoints: ['/v1/audio/speech'], models: [SPEECH] },
    speech_to_text: { endpoints: ['/v1/audio/transcriptions'], models: [TRANSCRIPTION] },
  }

  test('GET /v1/models lists the four categories with every specified field [spec S4a, R1]', async () => {
    const list = await read('/v1/models')
    expect(list).toMatchObject({ object: 'list', catalog_version: expect.stringMatching(/./) })
    expect(list['categories']).toEqual(
      Object.entries(categories).map(([id, { endpoints, models }]) => ({
        id,
        object: 'model_category',
        label: expect.stringMatching(/./),
        description: expect.stringMatching(/./),
        status: 'available',
        endpoints: endpoints.map((path) => ({ method: 'POST', path, compatibility: expect.stringMatching(/./) })),
        model_ids: models,
      })),
    )
  })

  test('GET /v1/models lists the ten models with every specified field, their limits, and the fields that SDKs read [spec R2]', async () => {
    const { data } = (await read('/v1/models')) as { data: Fields[] }
    expect(data.map(({ id }) => id)).toEqual(Object.values(categories).flatMap(({ models }) => models))
    const modalities = ['text', 'image', 'video', 'audio']
    for (const model of data) {
      const category = categories[model['category'] as keyof typeof categories]
      expect(model).toMatchObject({
        object: 'model',
        created: expect.any(Number),
        owned_by: expect.any(String),
        supported_endpoints: category.endpoints,
      })
      expect(category.models).toContain(model['id'])
      expect(modalities).toEqual(expect.arrayContaining(model['input_modalities'] as string[]))
      expect(modalities).toEqual(expect.arrayContaining(model['output_modalities'] as string[]))
    }
    const byId = Object.fromEntries(data.map((model) => [model['id'], model]))
    for (const id of TEXT_MODELS)
      expect(byId[id]).toMatchObject({
        input_modalities: ['text', 'image'],
        output_modalities: ['text'],
        context_window: expect.any(Number),
        max_output_tokens: expect.any(Number),
      })
    expect(byId[IMAGE]).toMatchObject({ input_modalities: ['text'], output_modalities: ['image'] })
    expect(byId[SPEECH]).toMatchObject({ input_modalities: ['text'], output_modalities: ['audio'] })
    expect(byId[TRANSCRIPTION]).toMatchObject({
      input_modalities: ['audio'],
      output_modalities: ['text'],
      maximum_audio_duration_ms: expect.stringMatching(/^\d+$/),
      maximum_audio_bytes: expect.any(Number),
      accepted_formats: ['mp3'],
    })
  })
})

describe('GET /v1/pricing', () => {
  const decimal = expect.stringMatching(/^\d+(\.\d+)?$/)

  test('GET /v1/pricing lists every model’s price with the fields of its billing mode [spec R4]', async () => {
    const list = await read('/v1/pricing')
    expect(list).toMatchObject({
      object: 'pricing_catalog',
      catalog_version: expect.any(String),
      service_fee_basis_points: 0,
      promotion: expect.stringMatching(/./),
    })
    const data = list['data'] as Fields[]
    expect(data.map(({ model }) => model)).toEqual([...TEXT_MODELS, IMAGE, SPEECH, TRANSCRIPTION])
    for (const entry of data.slice(0, 7))
      expect(entry).toMatchObject({
        ...common('text_generation', 'measured_tokens', ['0.002', '0.766952']),
        input_per_million_tokens: decimal,
        cached_input_per_million_tokens: decimal,
        output_per_million_tokens: decimal,
      })
    expect(data[7]).toMatchObject({
      ...common('image_generation', 'per_image_specification', ['0.035', '0.035']),
      size: '1K',
      price_per_successful_image_usd: '0.035',
      response_formats: ['url', 'b64_json'],
      default_response_format: 'url',
      url_retention_hours: 168,
    })
    expect(data[8]).toMatchObject({
      ...common('text_to_speech', 'measured_characters', ['0.002', '0.441']),
      price_per_thousand_characters_usd: '0.2205',
      maximum_characters: 2000,
      response_formats: ['mp3'],
      default_response_format: 'mp3',
      default_voice: 'darian',
      url_retention_hours: 24,
    })
    expect(data[9]).toMatchObject({
      ...common('speech_to_text', 'measured_audio_duration', ['0.005034', '0.122']),
      price_per_audio_hour_usd: '0.122',
      maximum_audio_duration_ms: expect.stringMatching(/^\d+$/),
      maximum_audio_bytes: 26_214_400,
      accepted_formats: ['mp3'],
    })
  })

  test('GET /v1/pricing and GET /v1/models report the same catalog version [spec V3a]', async () => {
    const [models, pricing] = await Promise.all([read('/v1/models'), read('/v1/pricing')])
    expect(models['catalog_version']).toBe(pricing['catalog_version'])
  })
})

test('GET /v1/audio/voices lists the twenty voices with exactly the specified fields [spec R6, E79, V6]', async () => {
  const list = await read('/v1/audio/voices')
  expect(list).toEqual({
    object: 'list',
    defaults: { [SPEECH]: 'darian' },
    data: VOICES.map((id) => ({
      id,
      name: expect.stringMatching(/./),
      description: expect.stringMatching(/./),
      provider: expect.stringMatching(/./),
      languages: expect.arrayContaining(['en']),
      models: [SPEECH],
      default_for_models: id === 'darian' ? [SPEECH] : [],
      retirement_date: null,
    })),
  })
  expect(JSON.stringify(list)).not.toMatch(/eleven-|open-/)
})

describe('GET /v1/balance', () => {
  test('GET /v1/balance shows a balance reduced by the charge after a payment [spec E80]', async () => {
    const wallet = sandbox.payer.address
    const before = await read(`/v1/balance?address=${wallet}`)
    expect(before).toEqual({
      object: 'wallet_balance',
      network: 'eip155:8453',
      asset: expect.stringMatching(new RegExp(`^${USDC}$`, 'i')),
      currency: 'USDC',
      wallet,
      balance_usdc_atomic: expect.stringMatching(/^\d+$/),
      balance_usdc: expect.stringMatching(/^\d+(\.\d+)?$/),
    })
    const paid = await payForCall(sandbox, '/v1/audio/speech', { model: SPEECH, input: 'The last tram.' })
    const after = await read(`/v1/balance?address=${wallet}`)
    expect(atomic(before) - atomic(after)).toBe(paid.chargedAtomic)
    expect(atomicOf(String(after['balance_usdc']))).toBe(atomic(after))
    expect(atomic(after)).toBe(await sandbox.chain.usdcBalance(wallet))
  })

  test.each([
    ['missing', '', 'missing_field'],
    ['in a parameter of another name', `?wallet=${USDC}`, 'missing_field'],
    ['empty', '?address=', 'invalid_field'],
    ['without digits', '?address=0x', 'invalid_field'],
    ['one digit too short', `?address=${USDC.slice(0, -1)}`, 'invalid_field'],
    ['one digit too long', `?address=${USDC}0`, 'invalid_field'],
    ['followed by a line break', `?address=${USDC}%0A`, 'invalid_field'],
    ['preceded by a space', `?address=%20${USDC}`, 'invalid_field'],
    ['prefixed with 0X', `?address=${USDC.replace('0x', '0X')}`, 'invalid_field'],
    ['without its 0x prefix', `?address=${USDC.slice(2)}`, 'invalid_field'],
    ['not hexadecimal', `?address=${USDC.slice(0, -1)}g`, 'invalid_field'],
    ['an ENS name', '?address=vitalik.eth', 'invalid_field'],
    ['given twice', `?address=${USDC}&address=${USDC}`, 'invalid_field'],
  ])('GET /v1/balance answers 400 to an address that is %s', async (_, query, code) => {
    await expectNeverRetry(await call(`/v1/balance${query}`), {
      status: 400,
      code,
      param: 'address',
      says: ['address'],
    })
  })
})

const quote = (body: unknown) =>
  call('/v1/quotes', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

describe('POST /v1/quotes [spec O19]', () => {
  const messages = [{ role: 'user', content: 'hello' }]

  test.each([
    ['createChatCompletion', 0, { model: 'textmodel-2.5-pro', messages }],
    ['createMessage', 1, { model: 'textmodel-2.5-pro', messages, max_tokens: 2000 }],
    ['createImageGeneration', 2, { model: IMAGE, prompt: 'a' }],
    ['createSpeech', 3, { model: SPEECH, input: 'x'.repeat(500) }],
    ['createTranscription', 4, { model: TRANSCRIPTION }],
  ] as const)('POST /v1/quotes prices %s like its challenge and binds no key', async (operation, index, fields) => {
    const [path] = PAID[index]
    const audio = operation === 'createTranscription' ? { audio_base64: sandbox.sample.toString('base64') } : {}
    const request = { ...fields, ...audio }
    const keys = await sandbox.boundKeys()
    const answer = await quote({ operation, request })
    expect(answer.status).toBe(200)
    const quoted = (await answer.json()) as { price: unknown; path: string; model: string }
    expect(quoted).toMatchObject({ path, model: fields.model })
    expect(await sandbox.boundKeys(keys)).toEqual([])
    const challenge = await call(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
      body: JSON.stringify(request),
    })
    expect(((await challenge.json()) as { price: unknown }).price).toEqual(quoted.price)
  })

  test.each([
    [{ request: {} }, 'missing_field', 'operation'],
    [{ operation: 'createSpeech' }, 'missing_field', 'request'],
    [{ operation: 'createNothing', request: {} }, 'invalid_field', 'operation'],
    [{ operation: 'createSpeech', request: { model: SPEECH } }, 'missing_field', 'input'],
    [{ operation: 'createSpeech', request: { model: SPEECH, input: 'a', speed: 2 } }, 'invalid_field', 'speed'],
  ])('POST /v1/quotes answers 400 to %j', async (body, code, param) => {
    await expectNeverRetry(await quote(body), { status: 400, code, param, says: [param] })
  })
})

describe('GET /openapi.json', () => {
  test('GET /openapi.json is version 0.5.0 with the nine operations, their price bounds and separate support routes [spec S9, V7]', async () => {
    const document = (await read('/openapi.json')) as {
      openapi: string
      info: Fields
      paths: Record<string, Record<string, { operationId: string; tags: string[] }>>
    }
    expect(document.openapi).toMatch(/^3\./)
    expect(document.info).toMatchObject({ version: '0.5.0', contact: expect.any(Object) })
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
    )
    const support = operations.filter(({ tags }) => tags.includes('support'))
    const named = operations.filter((operation) => !support.includes(operation))
    expect(
      Object.fromEntries(named.map(({ path, method, operationId }) => [`${method} ${path}`, operationId])),
    ).toEqual({
      'post /v1/chat/completions': 'createChatCompletion',
      'post /v1/messages': 'createMessage',
      'post /v1/images/generations': 'createImageGeneration',
      'post /v1/audio/speech': 'createSpeech',
      'post /v1/audio/transcriptions': 'createTranscription',
      'get /v1/models': 'listModels',
      'get /v1/pricing': 'listPricing',
      'get /v1/audio/voices': 'listAudioVoices',
      'get /v1/balance': 'getWalletBalance',
    })
    expect(support.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['/v1/quotes', '/v1/receipts/{id}', '/media/{token}', '/.well-known/x402', '/healthz']),
    )
    for (const [path, minimum, maximum] of PAID) {
      const operation = JSON.stringify(document.paths[path]?.['post'])
      for (const words of [minimum, maximum, '"400"', '"402"', '"409"', '"503"']) expect(operation).toContain(words)
    }
    for (const words of ['"name":"x-idempotency-key"', '"deprecated":true'])
      expect(JSON.stringify(document)).toContain(words)
  })
})

test('GET /.well-known/x402 lists the five paid resources [spec O22]', async () => {
  const document = await read('/.well-known/x402')
  expect(document).toMatchObject({ x402Version: 2 })
  expect(document['resources']).toEqual(PAID.map(([path]) => `${sandbox.info.baseUrl}${path}`))
})

test('serves the API reference at /docs/ and the plain-text guide at /llms.txt', async () => {
  const [docs, llms] = [await call('/docs/'), await call('/llms.txt')]
  expect([docs.status, docs.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/html/)])
  expect([llms.status, llms.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/plain/)])
  expect(await docs.text()).toContain('/openapi.json')
  const text = await llms.text()
  for (const [path] of PAID) expect(text).toContain(path)
  expect((await call('/docs', { redirect: 'manual' })).headers.get('location')).toMatch(/\/docs\/$/)
})

test('GET /healthz and GET /readyz report a healthy service [spec O23]', async () => {
  expect(await read('/healthz')).toEqual({ status: 'ok' })
  expect(await read('/readyz')).toMatchObject({ status: 'ok', checks: { database: 'ok', chain: 'ok' } })
})

describe('every free route', () => {
  test.each(FREE)('HEAD %s returns the headers of GET without a body', async (path) => {
    const [get, head] = [await call(path), await call(path, { method: 'HEAD' })]
    await get.body?.cancel()
    expect([head.status, await head.text()]).toEqual([get.status, ''])
    for (const name of ['content-type', 'content-length', 'etag', 'cache-control'])
      expect(head.headers.get(name)).toBe(get.headers.get(name))
  })
  test.each(FREE)('%s needs no payment and allows any origin [spec S3, A4]', async (path) => {
    const answer = await call(path, { headers: { origin: 'https://page.example' } })
    await answer.body?.cancel()
    expect(answer.status).toBe(200)
    expect(answer.headers.get('payment-required')).toBeNull()
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  })
  test.each(STATIC)('%s answers 304 to a client that has its current ETag', async (path) => {
    const first = await call(path)
    const body = await first.text()
    const etag = first.headers.get('etag') ?? ''
    expect(etag).toMatch(/^(W\/)?"[^"]+"$/)
    expect(first.headers.get('cache-control')).toMatch(/max-age=\d+/)
    for (const known of [etag, `"other", ${etag}`, '*']) {
      const again = await call(path, { headers: { 'if-none-match': known } })
      expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag])
    }
    const changed = await call(path, { headers: { 'if-none-match': '"other"' } })
    expect([changed.status, await changed.text()]).toEqual([200, body])
  })
  test.each([...STATIC, '/healthz', '/readyz', '/v1/balance'])(
    '%s answers 405 to every method but GET and HEAD',
    async (path) => {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const answer = await call(path, { method })
        await expectNeverRetry(answer, { status: 405, code: 'method_not_allowed', param: null, says: [method] })
        expect(answer.headers.get('allow')).toBe('GET, HEAD')
      }
    },
  )
})

describe('CORS', () => {
  test.each([...FREE, ...PAID.map(([path]) => path), '/v1/quotes', '/v1/nowhere'])(
    'a CORS preflight of %s succeeds',
    async (path) => {
      const answer = await call(path, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://page.example',
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'content-type,payment-signature,x-idempotency-key',
        },
      })
      expect(answer.status).toBe(204)
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      expect(answer.headers.get('access-control-allow-methods')).toMatch(/POST/)
      const allowed = answer.headers.get('access-control-allow-headers')?.toLowerCase().split(/, ?/)
      expect(allowed).toEqual(
        expect.arrayContaining(['content-type', 'payment-signature', 'x-idempotency-key', 'authorization', 'range']),
      )
    },
  )
  test('CORS exposes the payment headers of answers to browsers', async () => {
    const answer = await call('/v1/audio/speech', { method: 'POST', headers: { origin: 'https://page.example' } })
    expect(answer.status).toBe(402)
    const exposed = answer.headers.get('access-control-expose-headers')?.toLowerCase().split(/, ?/)
    const payment = ['payment-required', 'payment-response', 'x-receipt-id', 'x-receipt-token']
    const others = ['x-request-id', 'x-catalog-version', 'retry-after', 'x-should-retry', 'x-media-url']
    expect(exposed).toEqual(expect.arrayContaining([...payment, ...others]))
  })
})

describe('unknown routes and methods', () => {
  test.each([
    '/index.html',
    '/v1',
    '/v1/nowhere',
    '/v1/models/',
    '/v2/models',
    '/v1/chat',
    '/media',
    '/v1/receipts',
    '/%00',
    '/.well-known/security.txt',
  ])('%s answers 404 to every method', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
      const { error } = await expectErrorBody(await call(path, { method }), {
        status: 404,
        code: 'not_found',
        param: null,
      })
      expect(error).toMatchObject({ type: 'not_found_error', payment: 'none', retry: 'never' })
    }
  })
  test.each([...PAID.map(([path]) => path), '/v1/quotes'])('%s answers 405 to every method but POST', async (path) => {
    for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS']) {
      const answer = await call(path, { method })
      await expectNeverRetry(answer, { status: 405, code: 'method_not_allowed', param: null, says: ['POST'] })
      expect(answer.headers.get('allow')).toBe('POST')
    }
  })
  test.each(['not-a-uuid', randomUUID()])(
    'the receipt %s answers 401 without a token and 404 with a wrong one [spec A8, O18]',
    async (id) => {
      const bare = await call(`/v1/receipts/${id}`)
      await expectErrorBody(bare, { status: 401, code: 'receipt_token_required', param: null })
      const wrong = await call(`/v1/receipts/${id}`, { headers: { authorization: 'Bearer wrong' } })
      await expectErrorBody(wrong, { status: 404, code: 'not_found', param: null })
    },
  )
})

describe.each(PAID)('a probe of %s', (path, _, maximum) => {
  const json = { 'content-type': 'application/json' }
  const post = (body: string, headers: Record<string, string> = json) =>
    // Sent as bytes because fetch adds a content type to text.
    call(path, { method: 'POST', headers, body: new Uint8Array(Buffer.from(body)) })

  test.each([
    ['no body', '', {}],
    ['no body declared as JSON', '', json],
    ['{}', '{}', json],
    ['{} with spaces', ' { }\n', json],
    ['{} without a content type', '{}', {}],
    ['{} declared as a form', '{}', { 'content-type': 'application/x-www-form-urlencoded' }],
  ])('a probe with %s is answered 402 with the route’s published maximum', async (_name, body, headers) => {
    const answer = await post(body, headers)
    expect(answer.status).toBe(402)
    const challenge = (await answer.json()) as Fields
    expect(challenge).toMatchObject({
      error: 'Payment Required',
      message: expect.any(String),
      price: { amount: maximum, currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: 'eip155:8453', asset: expect.any(String) },
    })
    const encoded = answer.headers.get('payment-required') ?? ''
    expect(encoded.length).toBeLessThanOrEqual(8192)
    expect(decodePaymentRequiredHeader(encoded).accepts).toMatchObject([
      { scheme: 'upto', network: 'eip155:8453', amount: atomicOf(maximum).toString() },
    ])
  })

  test.each([
    ['a field', '{"model":"a"}', json],
    ['an array', '[]', json],
    ['null', 'null', json],
    ['invalid JSON', '{', json],
    ['text', 'hello', { 'content-type': 'text/plain' }],
    ['a form', '--x--\r\n', { 'content-type': 'multipart/form-data; boundary=x' }],
    ['a large body', `{"model":"${'a'.repeat(5000)}"}`, json],
    ['a large text body', 'a'.repeat(5000), { 'content-type': 'text/plain' }],
  ])('a request with %s and no idempotency key is answered 400 and not as a probe', async (_name, body, headers) => {
    await expectNeverRetry(await post(body, headers), {
      status: 400,
      code: 'missing_idempotency_key',
      param: 'x-idempotency-key',
      says: ['x-idempotency-key'],
    })
  })
  test('a request with an idempotency key and no fields is answered 400 and not as a probe', async () => {
    const answer = await post('{}', { ...json, 'x-idempotency-key': randomUUID() })
    await expectNeverRetry(answer, { status: 400, code: 'missing_field', param: 'model', says: ['model'] })
  })
})
