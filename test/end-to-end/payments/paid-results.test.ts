import { createHash } from 'node:crypto'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { atomicOf } from '../../support/http/json-endpoint.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { catalogOf, chargeOf, type PaidCall, payForCall, priceField } from '../../support/payer/paid-call.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { dataUri, pngHead } from '../../unit/operations/sample-images.ts'

/** Media lifetimes in seconds, as specified. */
const DAY = 86_400
const WEEK = 7 * DAY
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/
let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())
const pay = (path: string, body: Record<string, unknown>, headers?: Record<string, string>) =>
  payForCall(sandbox, path, body, headers)
const resultOf = ({ bytes }: PaidCall): Record<string, unknown> =>
  JSON.parse(bytes.toString()) as Record<string, unknown>
const itemOf = (result: Record<string, unknown>) => (result['data'] as Record<string, unknown>[])[0] ?? {}
const sample = () => sandbox.sample.toString('base64')
const price = (model: string, field: string) => priceField(sandbox.info.baseUrl, model, field)
const nowSeconds = () => Math.floor(Date.now() / 1000)
const positive = expect.toSatisfy((value) => Number.isInteger(value) && value > 0, 'positive integer')
const whole = expect.toSatisfy((value) => Number.isInteger(value) && value >= 0, 'integer')
/** Expects `created`, in Unix seconds, to lie within the call. */
function expectCreatedSince(created: unknown, before: number): void {
  expect(created).toEqual(positive)
  expect(created).toBeGreaterThanOrEqual(before)
  expect(created).toBeLessThanOrEqual(nowSeconds())
}
async function expectReplay(call: PaidCall): Promise<void> {
  const calls = (await sandbox.upstreamCalls()).length
  const transfers = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
  const again = await call.repeat()
  expect(again.status).toBe(200)
  expect(Buffer.from(await again.arrayBuffer()).equals(call.bytes)).toBe(true)
  for (const name of ['x-receipt-id', 'x-receipt-token', 'payment-response', 'x-catalog-version', 'content-type'])
    expect(again.headers.get(name)).toBe(call.answer.headers.get(name))
  expect(await sandbox.upstreamCalls()).toHaveLength(calls)
  expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(transfers)
}
async function expectTextCharge(call: PaidCall, model: string, input: number, output: number): Promise<bigint> {
  const parts = [
    [input, await price(model, 'input_per_million_tokens')],
    [output, await price(model, 'output_per_million_tokens')],
  ] as const
  expect(call.chargedAtomic).toBe(chargeOf(parts, 1_000_000n, atomicOf('0.002')))
  expect(call.authorizedAtomic).toBeLessThanOrEqual(atomicOf('0.766952'))
  return call.chargedAtomic
}
/** What a request with one message of one text is counted with in addition to its bytes. */
const OVERHEAD_TOKENS = 288
const LONG_TEXT = 'The last tram leaves the depot at midnight, and nobody is on it. '.repeat(200)
const extras = { verbose: true, temperature: 0.3, top_p: 0.9, user: 'rider', metadata: { a: 'b' }, unheard_of: [1] }
test('every transfer has one receipt and one provider call', async () => {
  const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
  const receipts = await sandbox.added('receipts')
  expect(transfers).toHaveLength(receipts)
  expect(await sandbox.upstreamCalls()).toHaveLength(receipts)
  const { data } = await catalogOf(sandbox.info.baseUrl, 'models')
  expect(data).toHaveLength(10)
})
/** Returns the bytes at a capability URL after checking headers, ranges, and that no similar URL exists. */
async function expectHosted(url: string, contentType: string): Promise<Buffer> {
  const answer = await fetch(url)
  const bytes = Buffer.from(await answer.arrayBuffer())
  expect(answer.status).toBe(200)
  const headers = {
    'content-type': contentType,
    'content-length': String(bytes.length),
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'accept-ranges': 'bytes',
  }
  expect(Object.fromEntries(answer.headers)).toMatchObject(headers)
  expect(answer.headers.get('cache-control')).toMatch(/private|no-store/)

  const head = await fetch(url, { method: 'HEAD' })
  expect({ status: head.status, ...Object.fromEntries(head.headers) }).toMatchObject({ status: 200, ...headers })
  expect(await head.text()).toBe('')
  await expectRanges(url, bytes)

  const token = url.slice(url.lastIndexOf('/') + 1)
  for (const at of [0, 7, token.length - 1]) {
    const changed = `${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`
    const missing = await fetch(url.replace(token, changed))
    expect({ status: missing.status, body: await missing.json() }).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found', payment: 'none' } },
    })
  }
  const kept = createHash('sha256').update(token).digest('hex')
  expect(await sandbox.sql('SELECT 1 FROM media WHERE token_sha256 = $1', [kept])).toHaveLength(1)
  return bytes
}
async function expectRanges(url: string, bytes: Buffer): Promise<void> {
  const last = bytes.length - 1
  const ranges = [
    ['bytes=0-0', 0, 0],
    ['bytes=10-19', 10, 19],
    [`bytes=${last}-`, last, last],
    ['bytes=-5', last - 4, last],
    ['bytes=5-99999999', 5, last],
  ] as const
  for (const [range, first, end] of ranges) {
    const part = await fetch(url, { headers: { range } })
    expect({ range, status: part.status, at: part.headers.get('content-range') }).toEqual({
      range,
      status: 206,
      at: `bytes ${first}-${end}/${bytes.length}`,
    })
    expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(first, end + 1))).toBe(true)
  }
  const beyond = await fetch(url, { headers: { range: `bytes=${bytes.length}-` } })
  expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${bytes.length}`])
}
/** Expects the stored expiry to be the announced one, backdates it and expects the URL to answer 404. */
async function expectGoneAtExpiry(url: string, announced: string): Promise<void> {
  const tokenSha256 = createHash('sha256')
    .update(url.slice(url.lastIndexOf('/') + 1))
    .digest('hex')
  const stored = await sandbox.sql<{ expires_at: Date }>('SELECT expires_at FROM media WHERE token_sha256 = $1', [
    tokenSha256,
  ])
  expect(stored.map(({ expires_at }) => expires_at.toISOString())).toEqual([new Date(announced).toISOString()])
  await sandbox.sql('UPDATE media SET expires_at = now() WHERE token_sha256 = $1', [tokenSha256])
  for (const method of ['GET', 'HEAD']) expect((await fetch(url, { method })).status).toBe(404)
  expect((await fetch(url, { headers: { range: 'bytes=0-0' } })).status).toBe(404)
}

describe('POST /v1/chat/completions', () => {
  const model = 'textmodel-2.5-pro'

  test('POST /v1/chat/completions returns the specified result and charges the measured tokens [spec R10, T4, E16]', async () => {
    const before = nowSeconds()
    const messages = [{ role: 'user', content: LONG_TEXT }]
    const call = await pay('/v1/chat/completions', { model, max_tokens: 400, messages, ...extras })
    const result = resultOf(call)
    expect(result).toMatchObject({
      id: expect.stringMatching(/./),
      object: 'chat.completion',
      model,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: expect.stringMatching(/\S/) },
          finish_reason: expect.stringMatching(/^(stop|length)$/),
        },
      ],
      usage: { prompt_tokens: positive, completion_tokens: positive, total_tokens: positive },
    })
    expectCreatedSince(result['created'], before)
    expect(call.bytes.toString()).not.toMatch(/gemini|claude|simulated|thought_?signature/i)
    const usage = result['usage'] as Record<string, number>
    const { prompt_tokens: input = 0, completion_tokens: output = 0 } = usage
    expect(usage['total_tokens']).toBe(input + output)
    expect(output).toBeLessThanOrEqual(400)
    expect(await expectTextCharge(call, model, input, output)).toBeGreaterThan(atomicOf('0.002'))
    await expectReplay(call)
  })

  test('POST /v1/chat/completions states the maximum of this request in its challenge: its bytes and max_tokens [spec E4]', async () => {
    const maximumOf = async (content: string, max_tokens: number) => {
      const answer = await sandbox.post('/v1/chat/completions', {
        model,
        max_tokens,
        messages: [{ role: 'user', content }],
      })
      const [accepted] = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '').accepts
      return BigInt(accepted?.amount ?? 0)
    }
    const [input, output] = [
      await price(model, 'input_per_million_tokens'),
      await price(model, 'output_per_million_tokens'),
    ]
    for (const [bytes, tokens] of [
      [1000, 400],
      [1000, 800],
      [9000, 400],
    ] as const)
      expect(await maximumOf('é'.repeat(bytes / 2), tokens)).toBe(
        chargeOf(
          [
            [bytes + OVERHEAD_TOKENS, input],
            [tokens, output],
          ],
          1_000_000n,
          atomicOf('0.002'),
        ),
      )
  })

  test('POST /v1/chat/completions shows an image to the model [spec E17]', async () => {
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: dataUri(pngHead(70, 30)) } },
    ]
    const call = await pay('/v1/chat/completions', { model, max_tokens: 400, messages: [{ role: 'user', content }] })
    // The simulated model reads type and size from the image's bytes.
    expect(call.bytes.toString()).toMatch(/I see a PNG of 70 × 30 pixels/)
  })

  test('POST /v1/chat/completions charges the minimum for the smallest request', async () => {
    const body = { model: 'textmodel-2.5-flash-lite', max_tokens: 16, stream: false }
    const call = await pay('/v1/chat/completions', { ...body, messages: [{ role: 'user', content: 'Hi' }] })
    expect([call.authorizedAtomic, call.chargedAtomic]).toEqual([2000n, 2000n])
  })

  test('POST /v1/chat/completions stops at max_tokens and reports finish_reason length [spec R11]', async () => {
    const messages = [{ role: 'user', content: 'Tell me a very long story.' }]
    const result = resultOf(await pay('/v1/chat/completions', { model, max_tokens: 1, messages }))
    expect(result).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 1 } })
  })

  test('POST /v1/chat/completions returns JSON of the requested schema and calls tools [spec E18]', async () => {
    const schema = {
      type: 'object',
      properties: { stop: { type: 'string' } },
      required: ['stop'],
      additionalProperties: false,
    }
    const messages = [{ role: 'user', content: 'Which stop is next?' }]
    const response_format = { type: 'json_schema', json_schema: { name: 'next_stop', schema } }
    const structured = resultOf(await pay('/v1/chat/completions', { model, messages, response_format }))
    const [{ message }] = structured['choices'] as [{ message: { content: string } }]
    expect(JSON.parse(message.content)).toEqual({ stop: expect.any(String) })

    const tools = [{ type: 'function', function: { name: 'next_departure', parameters: schema } }]
    const called = resultOf(await pay('/v1/chat/completions', { model, messages, tools, tool_choice: 'required' }))
    expect(called).toMatchObject({
      choices: [
        {
          message: {
            content: null,
            tool_calls: [
              {
                id: expect.stringMatching(/./),
                type: 'function',
                function: { name: 'next_departure', arguments: expect.stringMatching(/^\{.*"stop".*\}$/s) },
              },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
    })
  })

  test('POST /v1/chat/completions keeps to strict tools, one call and a style of thinking, also where the vendor has no such option', async () => {
    const parameters = { type: 'object', properties: { stop: { type: 'string', enum: ['', 'Depot', null] } } }
    const strict = { strict: true, parameters }
    const tools = ['next_departure', 'last_departure'].map((name) => ({
      type: 'function',
      function: { name, ...strict },
    }))
    const messages = [{ role: 'user', content: 'Please call all tools.' }]
    const callsOf = async (options: object) => {
      const result = resultOf(
        await pay('/v1/chat/completions', { model, messages, tools, max_tokens: 4000, ...options }),
      )
      const [{ message }] = result['choices'] as [{ message: { tool_calls: { function: { name: string } }[] } }]
      return message.tool_calls.map(({ function: { name } }) => name)
    }
    expect(await callsOf({ reasoning_effort: 'low' })).toEqual(['next_departure', 'last_departure'])
    expect(await callsOf({ parallel_tool_calls: false })).toEqual(['next_departure'])
  })
})

describe('POST /v1/messages', () => {
  const model = 'textmodel-2.5-pro'

  test('POST /v1/messages returns the specified result and charges the measured tokens [spec R13, T4, E31]', async () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: LONG_TEXT }] }]
    const system = [{ type: 'text', text: 'Be brief.' }]
    const call = await pay('/v1/messages', { model, max_tokens: 400, system, messages, ...extras })
    const result = resultOf(call)
    expect(result).toMatchObject({
      id: expect.stringMatching(/./),
      type: 'message',
      role: 'assistant',
      model,
      content: [{ type: 'text', text: expect.stringMatching(/\S/) }],
      stop_reason: expect.stringMatching(/^(end_turn|max_tokens)$/),
      usage: { input_tokens: positive, output_tokens: positive },
    })
    expect(call.bytes.toString()).not.toMatch(/gemini|claude|simulated|thought_?signature/i)
    const { input_tokens: input = 0, output_tokens: output = 0 } = result['usage'] as Record<string, number>
    expect(await expectTextCharge(call, model, input, output)).toBeGreaterThan(atomicOf('0.002'))
    await expectReplay(call)
  })

  test('POST /v1/messages shows an image to the model', async () => {
    const source = { type: 'base64', media_type: 'image/png', data: pngHead(70, 30).toString('base64') }
    const content = [
      { type: 'image', source },
      { type: 'text', text: 'What is this?' },
    ]
    const call = await pay('/v1/messages', { model, max_tokens: 400, messages: [{ role: 'user', content }] })
    expect(call.bytes.toString()).toMatch(/I see a PNG of 70 × 30 pixels/)
  })

  test('POST /v1/messages calls tools with an object as their input', async () => {
    const input_schema = { type: 'object', properties: { stop: { type: 'string' } }, required: ['stop'] }
    const result = resultOf(
      await pay('/v1/messages', {
        model,
        max_tokens: 300,
        messages: [{ role: 'user', content: 'Which stop is next?' }],
        tools: [{ name: 'next_departure', input_schema }],
        tool_choice: { type: 'any' },
      }),
    )
    expect(result).toMatchObject({ stop_reason: 'tool_use' })
    expect(result['content']).toContainEqual({
      type: 'tool_use',
      id: expect.stringMatching(/./),
      name: 'next_departure',
      input: { stop: expect.any(String) },
    })
  })
})

describe('POST /v1/images/generations', () => {
  const model = 'textmodel-3.1-flash-lite-image'

  test('POST /v1/images/generations returns the specified result for its fixed price and hosts the image for seven days [spec R14, T10, E45, A6a, B8]', async () => {
    const before = nowSeconds()
    const call = await pay('/v1/images/generations', { model, prompt: 'A tram at night', size: '1024x1024' })
    const result = resultOf(call)
    const item = itemOf(result)
    const { revised_prompt: _, ...otherFields } = item
    expect({ ...result, data: [otherFields] }).toEqual({
      created: positive,
      model,
      image_size: '1K',
      aspect_ratio: '1:1',
      data: [
        {
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/media\/[\w-]{22,}$/),
          backed_up: true,
          url_expires_at: expect.stringMatching(ISO),
          url_retention_days: 7,
        },
      ],
      price: { amount: '0.035', currency: 'USD' },
    })
    expect(result['data']).toHaveLength(1)
    expectCreatedSince(result['created'], before)
    expect(Date.parse(String(item['url_expires_at'])) / 1000).toBe(Number(result['created']) + WEEK)
    expect([call.authorizedAtomic, call.chargedAtomic]).toEqual([35_000n, 35_000n])
    const bytes = await expectHosted(String(item['url']), 'image/png')
    expect(bytes.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n')
    expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([1024, 1024])
    await expectReplay(call)
    await expectGoneAtExpiry(String(item['url']), String(item['url_expires_at']))
  })

  test('POST /v1/images/generations returns the hosted image’s bytes as b64_json [spec R15, E43]', async () => {
    const call = await pay('/v1/images/generations', { model, prompt: 'A tram', n: 1, response_format: 'b64_json' })
    const item = itemOf(resultOf(call))
    const hosted = await expectHosted(String(item['url']), 'image/png')
    expect(hosted.toString('base64')).toBe(item['b64_json'])
    expect(Object.keys(item).toSorted()).toEqual(
      expect.arrayContaining(['b64_json', 'backed_up', 'url', 'url_expires_at', 'url_retention_days']),
    )
    await expectReplay(call)
  })
})

describe('POST /v1/audio/speech', () => {
  const model = 'speechvendor/flash-v2.5'
  const input = 'Next stop: the end of the line. Mind the step — 𝒜 voilà!'
  const characters = Array.from(input).length

  test('POST /v1/audio/speech returns the specified result, charges characters and hosts the audio for 24 hours [spec R17, T11, E56, B13]', async () => {
    const before = nowSeconds()
    const call = await pay('/v1/audio/speech', { model, input, voice: 'bella', speed: 1.1, response_format: 'mp3' })
    const result = resultOf(call)
    expect(result).toEqual({
      id: expect.stringMatching(/./),
      created: positive,
      model,
      data: [
        {
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/media\/[\w-]{22,}$/),
          format: 'mp3',
          content_type: 'audio/mpeg',
          bytes: positive,
          duration_ms: positive,
          characters,
          expires_at: expect.stringMatching(ISO),
          backed_up: true,
        },
      ],
      usage: { input_characters: characters },
    })
    expectCreatedSince(result['created'], before)
    const [item] = result['data'] as [{ url: string; bytes: number; expires_at: string }]
    expect(Date.parse(item.expires_at) / 1000).toBe(Number(result['created']) + DAY)
    const perThousand = await price(model, 'price_per_thousand_characters_usd')
    expect(call.chargedAtomic).toBe(chargeOf([[characters, perThousand]], 1000n, atomicOf('0.002')))
    expect(call.chargedAtomic).toBeGreaterThan(atomicOf('0.002'))
    expect(call.bytes.toString()).not.toMatch(/eleven|simulated/i)
    expect(await expectHosted(item.url, 'audio/mpeg')).toHaveLength(item.bytes)
    await expectReplay(call)
    await expectGoneAtExpiry(item.url, item.expires_at)
  })

  test.each(['audio/mpeg', 'audio/*', 'application/octet-stream'])(
    'POST /v1/audio/speech returns the MP3 itself, with the result’s fields in headers, for Accept: %s',
    async (accept) => {
      const call = await pay('/v1/audio/speech', { model, input }, { accept })
      const header = (name: string) => call.answer.headers.get(name) ?? ''
      expect(header('content-type')).toBe('audio/mpeg')
      expect(header('x-input-characters')).toBe(String(characters))
      expect(header('x-audio-duration-ms')).toMatch(/^[1-9]\d*$/)
      expect(header('x-media-expires-at')).toMatch(ISO)
      expect(await expectHosted(header('x-media-url'), 'audio/mpeg')).toEqual(call.bytes)
      await expectReplay(call)
      // Accept is not part of the effective request, so the same call is also replayed as JSON.
      const json = (await (await call.repeat({ accept: 'application/json' })).json()) as { data: unknown }
      expect(json.data).toMatchObject([
        {
          url: header('x-media-url'),
          bytes: call.bytes.length,
          duration_ms: Number(header('x-audio-duration-ms')),
          expires_at: header('x-media-expires-at'),
        },
      ])
    },
  )

  test.each(['*/*', 'application/json', 'text/html, */*;q=0.8', 'audio/mpeg;q=0, application/json'])(
    'POST /v1/audio/speech returns JSON for Accept: %s',
    async (accept) => {
      const call = await pay('/v1/audio/speech', { model, input: 'a' }, { accept })
      expect(call.answer.headers.get('content-type')).toMatch(/^application\/json/)
      expect([call.authorizedAtomic, call.chargedAtomic]).toEqual([2000n, 2000n])
    },
  )
})

describe('POST /v1/audio/transcriptions', () => {
  const model = 'speechvendor/scribe-v2'

  test('POST /v1/audio/transcriptions returns exactly the fields that were requested, and never the audio [spec R19, R21, E75]', async () => {
    const before = nowSeconds()
    const call = await pay('/v1/audio/transcriptions', { model, audio_base64: sample() })
    const result = resultOf(call)
    const { language, language_probability_millionths: probability, ...otherFields } = result
    expect(otherFields).toEqual({
      id: expect.stringMatching(/./),
      created: positive,
      model,
      text: expect.stringContaining('I am the farebox'),
      usage: { input_audio_ms: positive },
    })
    expectCreatedSince(result['created'], before)
    expect(language ?? 'eng').toMatch(/^\w{2,3}$/)
    expect(probability ?? 0).toEqual(whole)
    expect(probability ?? 0).toBeLessThanOrEqual(1_000_000)
    expect(call.chargedAtomic).toBe(atomicOf('0.005034'))
    await expectReplay(call)
  })

  test('POST /v1/audio/transcriptions returns words, speakers and audio events in the verbose form [spec R20, O4, O6]', async () => {
    const options = { timestamps: 'word', diarize: true, tag_audio_events: true, response_format: 'verbose_json' }
    const call = await pay('/v1/audio/transcriptions', { model, audio_base64: sample(), ...options })
    const result = resultOf(call)
    expect(result).toMatchObject({ task: 'transcribe', duration: expect.any(Number), text: expect.any(String) })
    const { input_audio_ms: milliseconds = 0 } = result['usage'] as Record<string, number>
    expect(Math.abs(Number(result['duration']) * 1000 - milliseconds)).toBeLessThan(2)
    const words = result['words'] as Record<string, unknown>[]
    expect(words.length).toBeGreaterThan(5)
    for (const word of words) {
      expect(word).toMatchObject({ word: expect.any(String), start: expect.any(Number), end: expect.any(Number) })
      expect(word['type']).toMatch(/^(word|spacing|audio_event)$/)
      expect(Number(word['end'])).toBeGreaterThanOrEqual(Number(word['start']))
    }
    for (const word of words.filter(({ type }) => type === 'word')) expect(word['speaker']).toMatch(/^speaker_\d+$/)
  })

  test('POST /v1/audio/transcriptions returns the times of characters [spec O5]', async () => {
    const body = { model, audio_base64: sample(), timestamps: 'character' }
    const [first] = resultOf(await pay('/v1/audio/transcriptions', body))['words'] as Record<string, unknown>[]
    const characters = first?.['characters'] as { text: string }[]
    expect(characters[0]).toEqual({ text: expect.any(String), start: expect.any(Number), end: expect.any(Number) })
    expect(characters.map(({ text }) => text).join('')).toBe(first?.['word'])
  })

  test('POST /v1/audio/transcriptions quotes and charges the duration that was measured before the quote [spec E60]', async () => {
    const mp3 = generateMp3({ durationMs: 200_000, seed: 'paid-results' })
    const call = await pay('/v1/audio/transcriptions', { model, audio_base64: Buffer.from(mp3).toString('base64') })
    const { input_audio_ms: milliseconds = 0 } = resultOf(call)['usage'] as Record<string, number>
    expect(milliseconds).toBeGreaterThanOrEqual(200_000)
    const perHour = await price(model, 'price_per_audio_hour_usd')
    expect(call.chargedAtomic).toBe(chargeOf([[milliseconds, perHour]], 3_600_000n, atomicOf('0.005034')))
    expect(call.chargedAtomic).toBeGreaterThan(atomicOf('0.005034'))
    expect(call.authorizedAtomic).toBe(call.chargedAtomic)
  })
})
