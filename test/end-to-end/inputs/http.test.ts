import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectErrorBody, expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { exchangeBytes, firstAnswer, sendRaw } from '../../support/http/raw-request.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const CHAT = JSON.stringify({
  model: 'textmodel-3.1-flash-lite',
  messages: [{ role: 'user', content: 'Hello' }],
  max_tokens: 100,
})
const HEADER = 'x-idempotency-key'
const VISIBLE_ASCII = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index)).join('')
const utf8 = (text: string) => Buffer.from(text).toString('latin1')

describe('rules of HTTP', () => {
  const PATH = '/v1/chat/completions'
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  const host = () => new URL(sandbox.info.baseUrl).host
  /** Sends a head, and a body if there is one, exactly as written. */
  const send = async (head: readonly string[], body = ''): Promise<Response> =>
    firstAnswer(await exchangeBytes(sandbox.info.baseUrl, `${head.join('\r\n')}\r\n\r\n${body}`))
  const get = (path: string) => send([`GET ${path} HTTP/1.1`, `Host: ${host()}`, 'Connection: close'])
  /** Sends a chat request with further headers, by POST unless `headers` say otherwise. */
  const post = async (headers: readonly (readonly [string, string])[], body: string | Buffer = CHAT) => {
    const { answer } = await sendRaw(sandbox.info.baseUrl, {
      path: PATH,
      headers: [['x-idempotency-key', randomUUID()], ...headers, ['content-length', String(Buffer.byteLength(body))]],
      body: [Buffer.from(body)],
    })
    return answer
  }
  describe('methods that no route has', () => {
    test.each(['QUERY', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'LINK', 'SUBSCRIBE'])(
      'answers %s on a paid path with 405, with or without a body',
      async (method) => {
        const head = [`${method} ${PATH} HTTP/1.1`, `Host: ${host()}`, 'Connection: close']
        for (const answer of [
          await send(head),
          await send([...head, 'Content-Length: 2'], '{}'),
          await send([...head, 'Content-Type: nonsense', 'Content-Length: 2'], '{}'),
        ]) {
          await expectErrorBody(answer, {
            status: 405,
            code: 'method_not_allowed',
            param: null,
            says: [method, 'POST'],
          })
          expect(answer.headers.get('allow')).toBe('POST')
        }
      },
    )
    test.each(['QUERY', 'POST', 'PUT'])('answers %s on an unknown path with 404', async (method) => {
      const answer = await send([`${method} /v1/nothing HTTP/1.1`, `Host: ${host()}`, 'Connection: close'])
      await expectErrorBody(answer, { status: 404, code: 'not_found', param: null })
    })
  })

  describe('URLs that the router cannot read', () => {
    test.each(['/v1/receipts/%', '/v1/%zz', '/%e0%a4%a', '/v1/media/%c3%28'])(
      'answers the invalid percent-encoding in %s with the common error body',
      async (path) => {
        await expectNeverRetry(await get(path), { status: 400, code: 'malformed_http', param: null, says: ['percent'] })
      },
    )
    test('answers an id longer than any with 404 and the common error body', async () => {
      const answer = await get(`/v1/receipts/${'a'.repeat(101)}`)
      await expectErrorBody(answer, { status: 404, code: 'not_found', param: null })
    })
    test.each([
      ['invalid percent-encoding', '/v1/models/%zz', 'malformed_http'],
      ['an id longer than any', `/media/${'a'.repeat(101)}`, 'not_found'],
      ['a head larger than any', `/v1/models?${'a'.repeat(20_000)}`, 'headers_too_large'],
    ])('lets a page of any origin read the answer to %s', async (_, path, code) => {
      const head = [`GET ${path} HTTP/1.1`, `Host: ${host()}`, 'Connection: close', 'Origin: https://page.example']
      const answer = await send(head)
      expect(await answer.json()).toMatchObject({ error: { code } })
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      expect(answer.headers.get('access-control-expose-headers')).toMatch(/X-Request-ID/)
    })
  })

  describe('a paid path', () => {
    test.each([
      ['as it is', PATH],
      ['with an encoded letter', PATH.replace(/s$/, '%73')],
      ['as an absolute URI', `http://farebox.example${PATH}`],
      ['with a query', `${PATH}?limit=none`],
      ['with a fragment', `${PATH}#limit`],
    ])('draws on the allowance of its caller when it is spelled %s', async (_, path) => {
      const head = [`POST ${path} HTTP/1.1`, `Host: ${host()}`, 'Connection: close', `${HEADER}: ${randomUUID()}`]
      const answer = await send([...head, 'Content-Type: application/json', `Content-Length: ${CHAT.length}`], CHAT)
      expect(answer.status).toBe(402)
      expect(answer.headers.get('x-ratelimit-remaining-requests')).toMatch(/^\d+$/)
    })
    test.each(['GET', 'PUT'])('draws on it with the method %s, too', async (method) => {
      const answer = await send([`${method} ${PATH} HTTP/1.1`, `Host: ${host()}`, 'Connection: close'])
      expect(answer.status).toBe(405)
      expect(answer.headers.get('x-ratelimit-remaining-requests')).toMatch(/^\d+$/)
    })
  })

  describe('the header host', () => {
    const refused: readonly (readonly [string, readonly string[]])[] = [
      ['missing', []],
      ['sent twice', ['Host: a.example', 'Host: b.example']],
      ['sent twice with the same value', ['Host: a.example', 'host: a.example']],
      ['a URL', ['Host: http://a.example/']],
      ['two names', ['Host: a.example b.example']],
      ['a list', ['Host: a.example:80:90']],
      ['a name with a path', ['Host: a.example/v1']],
      ['a name with a user', ['Host: user@a.example']],
      ['markup', ['Host: <script>']],
    ]
    test.each(refused)('is refused with 400 when it is %s', async (_, hosts) => {
      const answer = await send(['GET /healthz HTTP/1.1', ...hosts, 'Connection: close'])
      await expectNeverRetry(answer, { status: 400, code: 'malformed_http', param: 'host', says: ['host'] })
    })
    test.each(['a.example', 'a.example:8402', '127.0.0.1', '[::1]:8402', 'xn--bcher-kva.example', 'with_underscore'])(
      'is accepted as %s',
      async (name) => {
        expect((await send(['GET /healthz HTTP/1.1', `Host: ${name}`, 'Connection: close'])).status).toBe(200)
      },
    )
    test('accepts HTTP/1.0 without the header host', async () => {
      expect((await send(['GET /healthz HTTP/1.0'])).status).toBe(200)
    })
  })

  describe('framing and versions', () => {
    test.each(['gzip, chunked', 'identity, chunked'])('refuses the transfer-encoding "%s" with 400', async (coding) => {
      const head = [`POST ${PATH} HTTP/1.1`, `Host: ${host()}`, 'Content-Type: application/json']
      const answer = await send([...head, `Transfer-Encoding: ${coding}`], '2\r\n{}\r\n0\r\n\r\n')
      expect(answer.headers.get('connection')).toBe('close')
      await expectNeverRetry(answer, { status: 400, code: 'malformed_http', param: 'transfer-encoding' })
    })
    test.each(['gzip', 'identity', 'x', 'chunked, gzip', 'gzip, chunked', 'chunked, chunked', 'chunked;q=1'])(
      'answers the transfer-encoding "%s" once and closes the connection',
      async (coding) => {
        const head = [`POST ${PATH} HTTP/1.1`, `Host: ${host()}`, 'Content-Type: application/json']
        const body = '2\r\n{}\r\n0\r\n\r\n'
        const follower = `GET /healthz HTTP/1.1\r\nHost: ${host()}\r\n\r\n`
        const bytes = `${[...head, `Transfer-Encoding: ${coding}`].join('\r\n')}\r\n\r\n${body}${follower}`
        const received = await exchangeBytes(sandbox.info.baseUrl, bytes)
        expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400'])
        expect(await firstAnswer(received).json()).toMatchObject({ error: { code: 'malformed_http', payment: 'none' } })
      },
    )
    test('refuses a request line of HTTP/2.0 with 400', async () => {
      const answer = await send(['GET /healthz HTTP/2.0', `Host: ${host()}`, 'Connection: close'])
      await expectNeverRetry(answer, { status: 400, code: 'malformed_http', param: null, says: ['HTTP/1.1'] })
    })
    test('does not answer what follows a request that closes the connection', async () => {
      const one = `GET /healthz HTTP/1.1\r\nHost: ${host()}\r\nConnection: close\r\n\r\n`
      const received = await exchangeBytes(sandbox.info.baseUrl, one + one)
      expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200'])
    })
    test('sends no 100 Continue to a client of HTTP/1.0, which would take it for the answer', async () => {
      const head = [`POST ${PATH} HTTP/1.0`, `${HEADER}: ${randomUUID()}`, 'Content-Type: application/json']
      const ending = [`Content-Length: ${CHAT.length}`, 'Expect: 100-continue', '', CHAT]
      const received = await exchangeBytes(sandbox.info.baseUrl, [...head, ...ending].join('\r\n'))
      expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 402'])
    })
    test.each(['x', '100-continue, x', 'continue'])('refuses the expectation "%s" with 417', async (expectation) => {
      const head = [`POST ${PATH} HTTP/1.1`, `Host: ${host()}`, 'Content-Length: 2', 'Connection: close']
      const answer = await send([...head, `Expect: ${expectation}`], '{}')
      await expectNeverRetry(answer, {
        status: 417,
        code: 'expectation_failed',
        param: 'expect',
        says: ['100-continue'],
      })
    })
  })

  describe('encoded bodies', () => {
    test.each([
      ['gzip', gzipSync(CHAT)],
      ['br', CHAT],
      ['deflate', CHAT],
      ['gzip, identity', CHAT],
    ])('refuses a body with content-encoding %s with 415 and names the header', async (encoding, body) => {
      const answer = await post(
        [
          ['content-type', 'application/json'],
          ['content-encoding', encoding],
        ],
        body,
      )
      const expected = { status: 415, code: 'unsupported_content_encoding', param: 'content-encoding' }
      await expectNeverRetry(answer, { ...expected, says: ['content-encoding'] })
    })
    test.each(['utf-16', 'iso-8859-1', '"windows-1252"'])('refuses the charset %s with 415', async (charset) => {
      const answer = await post([['content-type', `application/json; charset=${charset}`]])
      await expectNeverRetry(answer, {
        status: 415,
        code: 'unsupported_content_type',
        param: 'content-type',
        says: ['UTF-8'],
      })
    })
    test.each([
      [['content-type', 'application/json; charset="UTF-8"']],
      [['content-type', 'application/json;charset=utf8']],
      [['content-type', 'application/json; charset=us-ascii']],
      [['content-type', 'application/json; charset=']],
      [
        ['content-type', 'application/json'],
        ['content-encoding', 'identity'],
      ],
    ])('accepts %j', async (...headers) => {
      expect((await post(headers as unknown as readonly (readonly [string, string])[])).status).toBe(402)
    })
  })

  test.each(['/healthz', '/v1/models', '/openapi.json', '/docs', '/llms.txt', '/favicon.svg', '/v1/nothing', '/%'])(
    'keeps browsers from guessing the content type of %s',
    async (path) => {
      expect((await get(path)).headers.get('x-content-type-options')).toBe('nosniff')
    },
  )

  describe('names that a caller chose', () => {
    const long = 'n'.repeat(5000)
    test('shortens a long name in the error about an unknown field', async () => {
      const answer = await fetch(`${sandbox.info.baseUrl}/v1/audio/speech`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
        body: JSON.stringify({ model: 'speechvendor/flash-v2.5', input: 'Hello', [long]: 1 }),
      })
      const text = await answer.text()
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'unknown_field', param: `${'n'.repeat(64)}…` } })
      expect(text.length).toBeLessThan(600)
    })
    test('shortens a long name in the error about a duplicate field', async () => {
      const answer = await post([['content-type', 'application/json']], `{"${long}":1,"${long}":2}`)
      const text = await answer.text()
      expect({ status: answer.status, isShort: text.length < 600 }).toEqual({ status: 400, isShort: true })
    })
  })
})

describe('x-idempotency-key', () => {
  const PATH = '/v1/audio/transcriptions'
  let sandbox: SharedSandbox
  let earlierKeys: readonly string[]
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    earlierKeys = await sandbox.boundKeys()
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
    expect(await sandbox.boundKeys(earlierKeys)).toHaveLength(7)
    expect(await sandbox.upstreamCalls()).toEqual([])
  })
})
