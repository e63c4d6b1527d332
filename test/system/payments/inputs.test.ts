import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ErrorBody, expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { sendRaw } from '../../support/http/raw-request.ts'
import { generateFrames } from '../../support/media/mp3-generator.ts'
import { signAllowancePermit } from '../../support/payer/allowance-permit.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const ALLOWANCES = '/v1/allowances'
const QUOTES = '/v1/quotes'
const JSON_HEADERS = { 'content-type': 'application/json' }
/** What no field of these routes accepts, or what means nothing in it. */
const WRONG_VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  1.5,
  2 ** 53,
  '',
  ' ',
  'x',
  '0x',
  '-1',
  '1e3',
  '٢',
  '\ud800',
  'a\0b',
  '9'.repeat(500),
  'f'.repeat(5000),
  [],
  ['1'],
  {},
  { toString: 'x' },
]
/** Returns one body for each member of `valid`, nested ones included, and each wrong value in its place. */
function* withWrongValues(valid: Readonly<Record<string, unknown>>): Generator<Record<string, unknown>> {
  for (const [name, value] of Object.entries(valid)) {
    for (const wrong of WRONG_VALUES) yield { ...valid, [name]: wrong }
    if (typeof value === 'object' && value !== null)
      for (const nested of withWrongValues(value as Record<string, unknown>)) yield { ...valid, [name]: nested }
  }
  yield { ...valid, unknown: 1 }
}
/** Bodies that are not JSON, or not an object. */
const UNREADABLE: readonly (string | Buffer)[] = [
  '',
  '{',
  '{}{}',
  '[]',
  'null',
  '"x"',
  '1',
  'NaN',
  '{"permit":{},"permit":{}}',
  `${'['.repeat(200)}${']'.repeat(200)}`,
  `{"permit":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`,
  '{"__proto__":{"permit":{}}}',
  Buffer.from([0x7b, 0xff, 0xfe, 0x7d]),
  Buffer.from('{"permit":1}', 'utf16le'),
]
interface Sent {
  readonly path: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string | Buffer
}
const bodyOf = (value: unknown) => JSON.stringify(value)
const MODEL = 'speechvendor/scribe-v2'
const MAXIMUM_AUDIO_BYTES = 26_214_400
const MAXIMUM_BASE64_LENGTH = 34_952_536
async function expectChallenged(answer: Response): Promise<Response> {
  const body = answer.status === 402 ? '' : await answer.text()
  expect({ status: answer.status, body }).toEqual({ status: 402, body: '' })
  return answer
}

describe('input of the support routes', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  /** Sends a request; returns what is wrong with its answer, or `null` if it is a refusal in the common form. */
  async function faultOf({ path, method = 'POST', headers = JSON_HEADERS, body }: Sent): Promise<string | null> {
    const answer = await fetch(`${sandbox.info.baseUrl}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    })
    const text = await answer.text()
    const described = `${method} ${path} ${String(body).slice(0, 200)} ${JSON.stringify(headers).slice(0, 200)}`
    if (answer.status < 400 || answer.status > 499) return `${answer.status} ${text.slice(0, 200)}: ${described}`
    const { error } = JSON.parse(text) as ErrorBody
    const isWhole = error.code !== '' && error.message.length > 10 && error.message.length < 1000
    if (!isWhole || error.payment !== 'none') return `${text.slice(0, 300)}: ${described}`
    return null
  }
  async function faultsOf(requests: Iterable<Sent>): Promise<string[]> {
    const faults: string[] = []
    for (const request of requests) {
      const fault = await faultOf(request)
      if (fault !== null) faults.push(fault)
    }
    return faults
  }
  const readPermits = async () =>
    (await sandbox.sql<{ owner: string }>('SELECT owner FROM stored_permits')).map(({ owner }) => owner)
  const readRows = async () => ({
    keys: await sandbox.boundKeys(),
    permits: await readPermits(),
    jobs: await sandbox.added('jobs'),
    authorizations: await sandbox.added('authorizations'),
  })
  /** Asserts that no row was added. Keys and permits of earlier files expire, and are deleted, at any time. */
  async function expectNoRowSince({ keys, permits, ...counts }: Awaited<ReturnType<typeof readRows>>): Promise<void> {
    expect(await sandbox.boundKeys(keys)).toEqual([])
    expect((await readPermits()).filter((owner) => !permits.includes(owner))).toEqual([])
    expect(await readRows()).toMatchObject(counts)
  }
  /** Asserts that each request is refused with a 4xx in the common form, and that none leaves a row. */
  async function expectRefused(requests: Iterable<Sent>): Promise<void> {
    const before = await readRows()
    expect(await faultsOf(requests)).toEqual([])
    await expectNoRowSince(before)
  }
  test('refuses a permit with a wrong value in any field', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
    const { owner, value, deadline, nonce, signature } = await signAllowancePermit(payer)
    const permit = {
      owner,
      spender: '0x000000000022D473030F116dDEE9F6B43aC78BA3',
      value: `${value}`,
      nonce: `${nonce}`,
      deadline: `${deadline}`,
      signature,
    }
    const v = Number.parseInt(signature.slice(-2), 16)
    const { signature: _, ...unsigned } = permit
    const split = { ...unsigned, v, r: signature.slice(0, 66), s: `0x${signature.slice(66, 130)}` }
    const bodies = [permit, split].flatMap((valid) => [...withWrongValues({ permit: valid })])
    await expectRefused(bodies.map((body) => ({ path: ALLOWANCES, body: bodyOf(body) })))
  })

  test('refuses a claim about audio, and a challenge, with a wrong value in any field', async () => {
    const audio = { sha256: 'a'.repeat(64), bytes: 1000, duration_ms: 1000 }
    const request = { model: 'speechvendor/scribe-v2', audio }
    const valid = { operation: 'createTranscription', request }
    const claims = [0, -1, 1e30, 1.5, 3_600_001, 2 ** 53].flatMap((number) => [
      { ...valid, request: { ...request, audio: { ...audio, duration_ms: number } } },
      { ...valid, request: { ...request, audio: { ...audio, bytes: number === 3_600_001 ? 26_214_401 : number } } },
    ])
    const both = { ...valid, request: { ...request, audio_base64: 'AAAA' } }
    const bodies = [...withWrongValues(valid), ...claims, both]
    const keys = ['', 'a b', 'ä', 'k'.repeat(256)].map((key) => ({
      path: QUOTES,
      headers: { ...JSON_HEADERS, 'x-idempotency-key': encodeURIComponent(key) === key ? key : 'a b' },
      body: bodyOf({ ...valid, challenge: true }),
    }))
    const challenges = WRONG_VALUES.filter((wrong) => wrong !== true).map((challenge) => ({ ...valid, challenge }))
    await expectRefused([...bodies, ...challenges].map((body) => ({ path: QUOTES, body: bodyOf(body) })))
    await expectRefused([...keys, { path: QUOTES, body: bodyOf({ ...valid, challenge: true }) }])
  })

  test('refuses bodies that cannot be read, other content types and other methods on the new routes', async () => {
    const unreadable = [ALLOWANCES, QUOTES].flatMap((path) => UNREADABLE.map((body) => ({ path, body })))
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-16', 'x'].map(
      (type) => ({ path: ALLOWANCES, headers: { 'content-type': type }, body: '{"permit":{}}' }),
    )
    const methods = ['PUT', 'PATCH', 'DELETE'].flatMap((method) =>
      [ALLOWANCES, QUOTES].map((path) => ({ path, method, body: '{}' })),
    )
    const large = { path: ALLOWANCES, body: bodyOf({ permit: { owner: 'x'.repeat(1_000_000) } }) }
    await expectRefused([...unreadable, ...types, ...methods, large])
  })

  test('refuses owners that cannot be read', async () => {
    const owners = [
      '',
      '?owner=',
      '?owner=0x',
      '?owner=0x1&owner=0x2',
      `?owner=0x${'g'.repeat(40)}`,
      '?owner=%00',
      '?x=1',
    ]
    const get = { method: 'GET' }
    await expectRefused(owners.map((query) => ({ ...get, path: `${ALLOWANCES}${query}`, headers: {} })))
  })

  test('refuses headers that were sent twice on the new routes', async () => {
    const before = await readRows()
    for (const path of [ALLOWANCES, QUOTES])
      for (const name of ['content-type', 'x-idempotency-key', 'payment-signature']) {
        const value = name === 'content-type' ? 'application/json' : randomUUID()
        const others = name === 'content-type' ? [] : [['content-type', 'application/json'] as const]
        const headers = [...others, [name, value] as const, [name, value] as const, ['content-length', '2'] as const]
        const { answer } = await sendRaw(sandbox.info.baseUrl, { path, headers, body: [Buffer.from('{}')] })
        expect({ path, name, status: answer.status }).toEqual({ path, name, status: 400 })
      }
    await expectNoRowSince(before)
  })
})

describe('limits of a transcription', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  function send(contentType: string, body: Uint8Array): Promise<Response> {
    return fetch(`${sandbox.info.baseUrl}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { 'x-idempotency-key': randomUUID(), 'content-type': contentType },
      body: new Uint8Array(body),
    })
  }
  function sendForm(audio: Uint8Array): Promise<Response> {
    const file: FormPart = { name: 'file', value: audio, fileName: 'speech.mp3', contentType: 'audio/mpeg' }
    return send(MULTIPART_CONTENT_TYPE, multipartBody([{ name: 'model', value: MODEL }, file]))
  }
  function sendJson(audio: Uint8Array): Promise<Response> {
    const body = { model: MODEL, audio_base64: Buffer.from(audio).toString('base64') }
    return send('application/json', Buffer.from(JSON.stringify(body)))
  }
  test('accepts 26,214,400 bytes, which are 34,952,536 Base64 characters, in JSON and in a form [spec E70]', async () => {
    // 128 kbit/s at 32 kHz: frames of 576 bytes. The rest is a partial last frame, which is tolerated.
    const largest = new Uint8Array(MAXIMUM_AUDIO_BYTES)
    largest.set(generateFrames(Math.floor(MAXIMUM_AUDIO_BYTES / 576), { sampleRate: 32_000 }, 'largest'))
    expect(Buffer.from(largest).toString('base64')).toHaveLength(MAXIMUM_BASE64_LENGTH)
    await expectChallenged(await sendJson(largest))
    await expectChallenged(await sendForm(largest))
  })

  test('accepts one hour at the published maximum price, and rejects one more frame as audio_too_long [spec O31]', async () => {
    // A frame at 8 kHz lasts 72 ms.
    const frames = { sampleRate: 8000, bitrate: 8, mode: 'mono' } as const
    const hour = generateFrames(50_000, frames, 'hour')
    const longer = generateFrames(50_001, frames, 'hour')
    const answer = await expectChallenged(await sendForm(hour))
    expect(await answer.json()).toMatchObject({ price: { amount: '0.122' } })
    const expected = { status: 400, code: 'audio_too_long', says: ['3,600,072', '3,600,000'] }
    await expectNeverRetry(await sendForm(longer), { ...expected, param: 'file' })
    await expectNeverRetry(await sendJson(longer), { ...expected, param: 'audio_base64' })
  })
})
