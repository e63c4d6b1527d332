import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { sendRaw } from '../../support/http/raw-request.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PATH = '/v1/audio/transcriptions'

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

/** Sends only the head of a request with a large body: an answer proves that the API did not wait for the body. */
async function sendHead(...keys: readonly string[]): Promise<Response> {
  const { answer } = await sendRaw(sandbox.info.baseUrl, {
    path: PATH,
    headers: [
      ['content-type', 'application/json'],
      ['content-length', '1000000'],
      ...keys.map((key) => ['x-idempotency-key', key] as const),
    ],
  })
  return answer
}

const HEADER = 'x-idempotency-key'
const VISIBLE_ASCII = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index)).join('')
const utf8 = (text: string) => Buffer.from(text).toString('latin1')

describe('x-idempotency-key', () => {
  test('x-idempotency-key is required, checked before the body is read, and the refusal says how to make one [spec L1a]', async () => {
    const says = [HEADER, '1 to 255', 'crypto.randomUUID()', 'the same', 'signed retry', 'every repetition']
    await expectNeverRetry(await sendHead(), { status: 400, code: 'missing_idempotency_key', param: HEADER, says })
  })
  test.each([
    ['that is empty', ''],
    ['of a single space', ' '],
    ['of 256 characters', 'k'.repeat(256)],
    ['of 4,000 characters', 'k'.repeat(4000)],
    ['with a space inside', 'two words'],
    ['with a tab inside', 'two\twords'],
    ['with a Latin-1 letter', 'clé'],
    ['with UTF-8 letters', utf8('ключ')],
    ['with a zero-width space', utf8('key\u200b')],
  ])('rejects a key %s before the body is read', async (_, key) => {
    await expectNeverRetry(await sendHead(key), {
      status: 400,
      code: 'invalid_idempotency_key',
      param: HEADER,
      says: [HEADER, '1 to 255', 'ASCII'],
    })
  })
  test.each([
    ['DEL', 'key\x7f'],
    ['NUL', 'key\0'],
  ])('answers 400 to a key with %s, which is not valid HTTP', async (_, key) => {
    expect((await sendHead(key)).status).toBe(400)
  })
  test.each([
    ['the same value', 'key-1', 'key-1'],
    ['different values', 'key-1', 'key-2'],
    ['an empty second value', 'key-1', ''],
  ])('rejects a key that is sent twice: %s', async (_, first, second) => {
    const answer = await sendHead(first, second)
    await expectNeverRetry(answer, { status: 400, code: 'duplicate_header', param: HEADER, says: [HEADER] })
  })
  test.each([
    ['one character', '!'],
    ['255 characters', 'k'.repeat(255)],
    ['every visible ASCII character', VISIBLE_ASCII],
    ['a UUID', randomUUID()],
    ['two values joined by a comma', 'key-1,key-2'],
  ])('accepts as key: %s', async (_, idempotencyKey) => {
    const answer = await sandbox.transcribe({ idempotencyKey })
    expect(answer.status).toBe(402)
    expect(
      await sandbox.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey]),
    ).toHaveLength(1)
  })
  test('treats keys that differ only in case as different keys', async () => {
    const key = `case-${randomUUID()}`
    expect((await sandbox.transcribe({ idempotencyKey: key })).status).toBe(402)
    const audio_base64 = sandbox.sample.toString('base64')
    const body = { model: 'speechvendor/scribe-v2', audio_base64, diarize: true }
    expect((await sandbox.transcribe({ idempotencyKey: key.toUpperCase(), body })).status).toBe(402)
    expect((await sandbox.transcribe({ idempotencyKey: key, body })).status).toBe(409)
  })
  test('has bound only the valid keys and called no vendor', async () => {
    expect(await sandbox.added('idempotency_keys')).toBe(7)
    expect(await sandbox.upstreamCalls()).toEqual([])
  })
})
