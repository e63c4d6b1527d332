import { execFile } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { countedPost } from '../../support/http/counted-post.ts'
import { expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const MODEL = 'speechvendor/scribe-v2'
const OPTIONS = { model: MODEL, language: 'en' }
let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())
interface Facts {
  readonly sha256: string
  readonly bytes: number
  readonly duration_ms: number
}
/** A recording that no test has sent before, and what its owner knows of it without this service. */
function newRecording(durationMs = 10_000): { readonly file: Uint8Array; readonly facts: Facts } {
  const file = generateMp3({ durationMs, bitrate: 32, seed: randomUUID() })
  const walk = walkFrames(file)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  const sha256 = createHash('sha256').update(file).digest('hex')
  return { file, facts: { sha256, bytes: file.length, duration_ms: walk.durationMs } }
}
const quote = (body: unknown, idempotencyKey: string | null) =>
  fetch(`${sandbox.info.baseUrl}/v1/quotes`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(idempotencyKey === null ? {} : { 'x-idempotency-key': idempotencyKey }),
    },
    body: JSON.stringify(body),
  })
const challengeFor = (audio: Facts, idempotencyKey: string, options: Record<string, unknown> = OPTIONS) =>
  quote({ operation: 'createTranscription', request: { ...options, audio }, challenge: true }, idempotencyKey)
const formOf = (file: Uint8Array, options: Record<string, string> = OPTIONS) => [
  ...Object.entries(options).map(([name, value]): FormPart => ({ name, value })),
  { name: 'file', value: file, fileName: 'speech.mp3' },
]
const sendForm = (parts: readonly FormPart[], idempotencyKey: string, headers: Record<string, string> = {}) =>
  fetch(`${sandbox.info.baseUrl}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { 'content-type': MULTIPART_CONTENT_TYPE, 'x-idempotency-key': idempotencyKey, ...headers },
    body: multipartBody(parts),
  })
const sendJson = (file: Uint8Array, idempotencyKey: string, headers: Record<string, string> = {}) =>
  sandbox.transcribe({
    idempotencyKey,
    headers,
    body: { ...OPTIONS, audio_base64: Buffer.from(file).toString('base64') },
  })
/** Binds a new key by a claim and signs its challenge. */
async function signClaim(claim: Facts) {
  const idempotencyKey = randomUUID()
  const challenge = await challengeFor(claim, idempotencyKey)
  expect(challenge.status).toBe(402)
  return { idempotencyKey, headers: await sandbox.payer.sign(challenge) }
}
const jobsOf = async (idempotencyKey: string) =>
  (await sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1', [idempotencyKey])).length
async function expectMismatch(answer: Response, ...facts: readonly string[]): Promise<void> {
  const body = (await answer.clone().json()) as { message: string }
  expect({ status: answer.status, body }).toMatchObject({
    status: 402,
    body: { error: 'Payment Required', code: 'audio_claim_mismatch', payment: 'none', retry: 'new_payment' },
  })
  for (const fact of facts) expect(body.message).toContain(fact)
}
test('the program of CALLING.md prices a recording first and uploads it once, as it stands', async () => {
  const page = await readFile(`${ROOT}CALLING.md`, 'utf8')
  const [, program = ''] = /## Price first[^]*?```ts\n([^]*?)```/.exec(page) ?? []
  const folder = await mkdtemp(join(tmpdir(), 'farebox-calling-'))
  try {
    await symlink(`${ROOT}node_modules`, join(folder, 'node_modules'))
    await writeFile(join(folder, 'transcribe.mts'), program)
    await writeFile(join(folder, 'speech.mp3'), sandbox.sample)
    const { baseUrl, rpcUrl, payer } = sandbox.info
    const environment = { ...process.env, BASE_URL: baseUrl, RPC_URL: rpcUrl, PRIVATE_KEY: payer.privateKey }
    const ended = await run(process.execPath, ['transcribe.mts'], { cwd: folder, env: environment })
    expect(JSON.parse(ended.stdout)).toMatchObject({ words: expect.any(Array), usage: { input_audio_ms: 24_529 } })
    // A wrong description would need another signature.
    expect(ended.stderr.match(/costs at most/g)).toHaveLength(1)
  } finally {
    await rm(folder, { recursive: true })
  }
})
const messages = [{ role: 'user', content: 'hello' }]
/** 0.122 USDC an hour, at least 0.005034. */
function priceOf({ duration_ms: durationMs }: Facts): bigint {
  return BigInt(Math.max(5034, Math.ceil((durationMs * 122_000) / 3_600_000)))
}
function withOtherLastDigit(sha256: string): string {
  return sha256.slice(0, -1) + (sha256.endsWith('0') ? '1' : '0')
}
/** Returns a challenge without what differs in every answer: the request id and what is random or newly signed. */
async function comparable(answer: Response) {
  const { request_id: _, ...body } = (await answer.json()) as Record<string, unknown>
  const required = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
  return { status: answer.status, body: withoutRandom(body), required: withoutRandom(required) }
}
function withoutRandom(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (name, member: unknown) =>
    ['challenge', 'signature', 'x-idempotency-key'].includes(name) && typeof member === 'string' ? '…' : member,
  )
}

describe('a recording that is priced before it is sent', () => {
  test.each([
    ['form', (file: Uint8Array, key: string, headers: Record<string, string>) => sendForm(formOf(file), key, headers)],
    ['JSON', sendJson],
  ] as const)('the signed request is the first to bring the recording, as %s, and is charged once', async (_, send) => {
    const { file, facts } = newRecording(160_000)
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const calls = (await sandbox.upstreamCalls()).length
    const { idempotencyKey, headers } = await signClaim(facts)
    const answer = await send(file, idempotencyKey, headers)
    const body = await answer.text()
    expect({ status: answer.status, body }).toMatchObject({ status: 200 })
    expect(JSON.parse(body)).toMatchObject({ usage: { input_audio_ms: facts.duration_ms } })
    const charged = before - (await sandbox.chain.usdcBalance(sandbox.payer.address))
    expect(charged).toBe(priceOf(facts))
    const again = await send(file, idempotencyKey, headers)
    expect([again.status, await again.text()]).toEqual([200, body])
    expect(await sandbox.upstreamCalls()).toHaveLength(calls + 1)
  })

  test('a whole call sends at most 1.01 times the size of the file', async () => {
    const { file, facts } = newRecording(240_000)
    const { baseUrl } = sandbox.info
    const key = { 'x-idempotency-key': randomUUID() }
    const claim = { operation: 'createTranscription', request: { ...OPTIONS, audio: facts }, challenge: true }
    const priced = await countedPost(
      `${baseUrl}/v1/quotes`,
      { ...key, 'content-type': 'application/json' },
      Buffer.from(JSON.stringify(claim)),
    )
    const signed = { ...key, ...(await sandbox.payer.sign(priced.answer)), 'content-type': MULTIPART_CONTENT_TYPE }
    const paid = await countedPost(`${baseUrl}/v1/audio/transcriptions`, signed, multipartBody(formOf(file)))
    expect({ status: paid.answer.status, body: await paid.answer.text() }).toMatchObject({ status: 200 })
    const sentBytes = priced.sentBytes + paid.sentBytes
    expect(sentBytes / file.length).toBeGreaterThan(1)
    expect(sentBytes / file.length).toBeLessThanOrEqual(1.01)
  })

  test.each([
    ['its hash by one digit', (facts: Facts) => ({ ...facts, sha256: withOtherLastDigit(facts.sha256) }), 'sha256 is'],
    ['its size by one byte', (facts: Facts) => ({ ...facts, bytes: facts.bytes + 1 }), 'bytes is'],
    [
      'its duration by a millisecond',
      (facts: Facts) => ({ ...facts, duration_ms: facts.duration_ms - 1 }),
      'duration_ms is',
    ],
  ])(
    'a claim that misses %s is a fresh 402 with the true price, however often it is paid for, and charges nothing',
    async (_, falsify, says) => {
      const { file, facts } = newRecording()
      const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
      const { idempotencyKey, headers } = await signClaim(falsify(facts))
      const refused = await sendForm(formOf(file), idempotencyKey, headers)
      await expectMismatch(refused, says)
      expect(await jobsOf(idempotencyKey)).toBe(0)
      expect(await sandbox.chain.usdcBalance(sandbox.payer.address)).toBe(before)
      const [accepted] = decodePaymentRequiredHeader(refused.headers.get('payment-required') ?? '').accepts
      expect(accepted?.amount).toBe(priceOf(facts).toString())
      // The first answer may have been lost.
      await expectMismatch(await sendForm(formOf(file), idempotencyKey, headers), says)
    },
  )

  test('a call whose claim did not hold is executed when the challenge of the refusal is signed, and belongs to that recording', async () => {
    const { file, facts } = newRecording()
    const { idempotencyKey, headers } = await signClaim({ ...facts, duration_ms: 3_600_000 })
    const refused = await sendForm(formOf(file), idempotencyKey, headers)
    const other = await sendForm(formOf(newRecording().file), idempotencyKey, headers)
    await expectNeverRetry(other, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
    const healed = await sendForm(formOf(file), idempotencyKey, await sandbox.payer.sign(refused))
    expect({ status: healed.status, body: await healed.text() }).toMatchObject({ status: 200 })
    const again = await sendForm(formOf(file), idempotencyKey, headers)
    await expectNeverRetry(again, { status: 409, code: 'challenge_mismatch', param: null })
  })

  test('an unpaid upload replaces a claim that does not hold by the price of the recording', async () => {
    const { file, facts } = newRecording()
    const idempotencyKey = randomUUID()
    await challengeFor({ ...facts, duration_ms: 3_600_000 }, idempotencyKey)
    const answer = await sendForm(formOf(file), idempotencyKey)
    const body = (await answer.json()) as Record<string, unknown>
    expect({ status: answer.status, body }).toMatchObject({ status: 402, body: { price: { amount: '0.005034' } } })
    expect(body).not.toHaveProperty('code')
    const other = await sendForm(formOf(newRecording().file), idempotencyKey)
    await expectNeverRetry(other, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
  })

  test('other options than those of the claim are a conflict, with the recording or with another', async () => {
    const { file, facts } = newRecording()
    const { idempotencyKey, headers } = await signClaim(facts)
    for (const sent of [file, newRecording().file]) {
      const answer = await sendForm(formOf(sent, { model: MODEL, language: 'de' }), idempotencyKey, headers)
      await expectNeverRetry(answer, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
    }
    expect((await challengeFor(facts, idempotencyKey)).status).toBe(402)
  })

  test('a key that was bound by the recording itself is never rebound, whatever is claimed afterwards', async () => {
    const { file, facts } = newRecording()
    const idempotencyKey = randomUUID()
    const headers = await sandbox.payer.sign(await sendForm(formOf(file), idempotencyKey))
    expect((await challengeFor(facts, idempotencyKey)).status).toBe(402)
    const other = await sendForm(formOf(newRecording().file), idempotencyKey, headers)
    await expectNeverRetry(other, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
    expect((await challengeFor({ ...facts, bytes: 1 }, idempotencyKey)).status).toBe(409)
  })

  test('an accepted call keeps its key: claims and other recordings change nothing', async () => {
    const { file, facts } = newRecording()
    const { idempotencyKey, headers } = await signClaim(facts)
    const answer = await sendForm(formOf(file), idempotencyKey, headers)
    expect(answer.status).toBe(200)
    expect((await challengeFor(facts, idempotencyKey)).status).toBe(402)
    expect((await challengeFor({ ...facts, duration_ms: 100 }, idempotencyKey)).status).toBe(409)
    const other = await sendForm(formOf(newRecording().file), idempotencyKey, headers)
    await expectNeverRetry(other, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
    const again = await sendForm(formOf(file), idempotencyKey, headers)
    expect([again.status, await again.text()]).toEqual([200, await answer.text()])
  })

  test('of two recordings that are sent at the same time under one claim, at most one is executed, and it is the one that was priced', async () => {
    const { file, facts } = newRecording()
    const other = newRecording()
    const calls = (await sandbox.upstreamCalls()).length
    const { idempotencyKey, headers } = await signClaim(facts)
    const [claimed, unclaimed] = await Promise.all([
      sendForm(formOf(file), idempotencyKey, headers),
      sendForm(formOf(other.file), idempotencyKey, headers),
    ])
    const statuses = [claimed.status, unclaimed.status]
    expect([
      [200, 409],
      [409, 402],
    ]).toContainEqual(statuses)
    expect(await sandbox.upstreamCalls()).toHaveLength(calls + (claimed.status === 200 ? 1 : 0))
    expect(await jobsOf(idempotencyKey)).toBe(claimed.status === 200 ? 1 : 0)
  })

  test('of two recordings of which none was priced, one gets the challenge and the other a conflict', async () => {
    const { facts } = newRecording()
    const { idempotencyKey, headers } = await signClaim(facts)
    const answers = await Promise.all(
      [newRecording(), newRecording()].map(({ file }) => sendForm(formOf(file), idempotencyKey, headers)),
    )
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([402, 409])
    expect(await jobsOf(idempotencyKey)).toBe(0)
  })
})

describe('POST /v1/quotes with challenge true', () => {
  test.each([
    ['createChatCompletion', '/v1/chat/completions', { model: 'textmodel-2.5-pro', messages }],
    ['createMessage', '/v1/messages', { model: 'textmodel-2.5-pro', messages, max_tokens: 2000 }],
    ['createImageGeneration', '/v1/images/generations', { model: 'textmodel-3.1-flash-lite-image', prompt: 'a' }],
    ['createSpeech', '/v1/audio/speech', { model: 'speechvendor/flash-v2.5', input: 'hello' }],
    ['createTranscription', '/v1/audio/transcriptions', { model: MODEL }],
  ])('answers %s with the 402 of the endpoint and binds the key', async (operation, path, fields) => {
    const idempotencyKey = randomUUID()
    const audio = operation === 'createTranscription' ? { audio_base64: sandbox.sample.toString('base64') } : {}
    const body = { ...fields, ...audio }
    const quoted = await quote({ operation, request: body, challenge: true }, idempotencyKey)
    const asked = await sandbox.post(path, body, { idempotencyKey })
    expect(quoted.headers.get('cache-control')).toBe('no-store')
    expect(await comparable(quoted)).toEqual(await comparable(asked))
    const other = await quote(
      { operation: 'createSpeech', request: { model: 'speechvendor/flash-v2.5', input: 'other' }, challenge: true },
      idempotencyKey,
    )
    await expectNeverRetry(other, { status: 409, code: 'idempotency_key_reused', param: 'x-idempotency-key' })
  })

  test('without a key is a 400 that names the header, and one that is malformed too', async () => {
    const { facts } = newRecording()
    const body = { operation: 'createTranscription', request: { ...OPTIONS, audio: facts }, challenge: true }
    const param = 'x-idempotency-key'
    await expectNeverRetry(await quote(body, null), { status: 400, code: 'missing_idempotency_key', param })
    await expectNeverRetry(await quote(body, 'a b'), { status: 400, code: 'invalid_idempotency_key', param })
  })

  test('takes a form, and binds the key as the endpoint would', async () => {
    const { file, facts } = newRecording()
    const idempotencyKey = randomUUID()
    const parts = [
      { name: 'operation', value: 'createTranscription' },
      { name: 'challenge', value: 'true' },
    ]
    const challenge = await fetch(`${sandbox.info.baseUrl}/v1/quotes`, {
      method: 'POST',
      headers: { 'content-type': MULTIPART_CONTENT_TYPE, 'x-idempotency-key': idempotencyKey },
      body: multipartBody([...parts, ...formOf(file)]),
    })
    expect(challenge.status).toBe(402)
    const other = await challengeFor({ ...facts, duration_ms: 100 }, idempotencyKey)
    expect(other.status).toBe(409)
    const paid = await sendJson(file, idempotencyKey, await sandbox.payer.sign(challenge))
    expect({ status: paid.status, body: await paid.text() }).toMatchObject({ status: 200 })
  })
})
