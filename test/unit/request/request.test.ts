import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { speech } from '#shared/operations/speech.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { clientGroup, clientGroups, clientNetwork, widerClientGroup } from '#shared/runtime/client-address.ts'
import { requestedMedia } from '../../../api/paid-request/answer/respond.ts'
import { capacityFor } from '../../../api/request/body-bytes.ts'
import { createRequests } from '../../../api/request/effective-request.ts'
import { acceptQuality } from '../../../api/request/headers.ts'
import { createDelimiterCounter } from '../../../api/request/multipart.ts'
import { prepareBody } from '../../../api/request/prepare-request.ts'
import { prepareCall, recordingHolderOf, toolCallOf, withoutArguments } from '../../../api/request/tool-call.ts'
import { CallArguments } from '../../../api/request/worker-threads/request-preparer.ts'
import { fixedCatalogs } from '../../support/http/fixed-catalogs.ts'

const TYPE = 'multipart/form-data; boundary=b-1'
function count(body: string, size = body.length, type = TYPE): number {
  const counter = createDelimiterCounter(type)
  for (let at = 0; at < body.length; at += size) counter.add(Buffer.from(body.slice(at, at + size)))
  return counter.total()
}
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const call = (name: unknown, given?: unknown, meta?: unknown) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: given, _meta: meta },
})
const prepare = (name: string, given: unknown) => {
  const found = toolCallOf(call(name, given))
  if (!found) throw new Error('no call')
  return prepareCall(found, { read: publishedCatalog, offered: () => publishedCatalog })
}
/** Takes arguments with a recording that nothing else refers to. */
const takeAll = () => {
  const recording = new Uint8Array(1000)
  const given = new CallArguments(() => ({ prepared: { upload: { audio: recording } } }) as never)
  given.take(publishedCatalog)
  return { given, recording: new WeakRef(recording) }
}
const FIRST = 64 * 1024
const BYTES = 25 * 2 ** 20
const body = { model: 'speechvendor/scribe-v2', response_format: 'json' }
/** Reads a transcription request whose recording only the effective request still refers to. */
async function readWithRecording() {
  const audio = new Uint8Array(BYTES)
  const requests = createRequests({
    catalogs: fixedCatalogs(),
    preparer: {
      prepareRequest: async () => ({
        kind: 'upload',
        body: { ...body },
        upload: { audio, sha256: '0'.repeat(64) } as never,
        uploadParam: 'file',
      }),
    } as never,
    mp3Inspector: { inspect: async () => ({ durationMs: 1000 }) } as never,
  })
  const call = { isMultipart: () => false, body: null } as never
  const effectiveRequest = await requests.readEffectiveRequest(transcriptions, call, {
    client: {} as never,
    hasPriority: false,
  })
  return { effectiveRequest, recording: new WeakRef(audio) }
}
const CHATS = 40
const TEXT_CHARACTERS = 100_000
/** Reads a chat request whose text only the effective request still refers to. */
async function readWithText() {
  const catalogs = fixedCatalogs()
  const body = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'x'.repeat(TEXT_CHARACTERS) }] }
  const parsed: unknown = JSON.parse(JSON.stringify(body))
  const requests = createRequests({
    catalogs,
    preparer: {
      prepareRequest: async (operation: AnyOperation, given: unknown, read: Catalog) =>
        prepareBody(operation, given, { read, offered: catalogs.offered }),
    } as never,
    mp3Inspector: {} as never,
  })
  return await requests.readEffectiveRequest(chatCompletions, { body: parsed } as never, {
    client: {} as never,
    hasPriority: false,
  })
}
/** For polling: a reference that was read is kept until the end of its turn. */
function isCollected(reference: WeakRef<object>): boolean {
  collectGarbage()
  return reference.deref() === undefined
}
/** For polling: a collection that was already under way keeps what was made since it began. */
function usedMemory(): number {
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

describe('the quality value of a media type', () => {
  it.each([
    [undefined, 1],
    ['', 1],
    ['audio/mpeg', 1],
    ['AUDIO/MPEG;Q=0.25', 0.25],
    ['audio/mpeg; codecs=mp3; q=0.5', 0.5],
    ['audio/*;q=0.3, */*;q=0.9', 0.3],
    ['audio/mpeg;q=0, audio/*', 0],
    ['*/*;q=0.8', 0.8],
    ['text/html', 0],
    ['audio/mpeg;q=7', 1],
  ])('in %j is %d for audio/mpeg', (accept, quality) => {
    expect(acceptQuality(accept, 'audio/mpeg')).toBe(quality)
  })
})

describe('the body of a speech answer', () => {
  it.each(['audio/mpeg', 'audio/*', 'application/octet-stream', 'application/json;q=0.5, audio/mpeg;q=0.6'])(
    'is the MP3 for Accept: %s [spec O37]',
    (accept) => {
      expect(requestedMedia(speech as never, accept)).toBe(speech.mediaResponse)
    },
  )

  it.each([
    undefined,
    '*/*',
    'application/json',
    'text/html, */*;q=0.8',
    'audio/mpeg;q=0, application/json',
    'audio/mpeg;q=0',
    'application/json, audio/mpeg;q=0.1',
    'audio/mpeg, application/json',
    'audio/wav',
    'image/png',
  ])('is JSON for Accept: %s, which does not prefer the MP3 [spec O37]', (accept) => {
    expect(requestedMedia(speech as never, accept)).toBeNull()
  })
})

describe('counting the delimiters of a form', () => {
  it('counts a delimiter at the start and after each line break, however the form is cut into chunks', () => {
    const form = 'x--b-1\r\n--b-1\r\nhead\r\n\r\nvalue--b-1\n--b-1\r\n--b-1 \t\r\n\r\n--b-1--\r\n'
    for (let size = 1; size <= form.length; size += 1) expect(count(form, size)).toBe(3)
    for (let size = 1; size <= form.length; size += 1) expect(count(`--b-1\r\n${form}`, size)).toBe(4)
  })

  it('counts the same in any two ways of cutting any text', () => {
    const text = fc.array(fc.constantFrom('\r', '\n', '-', 'b', '1', '\r\n--b-1'), { maxLength: 60 })
    const size = fc.integer({ min: 1, max: 20 })
    fc.assert(
      fc.property(text, size, (pieces, chunk) => {
        expect(count(pieces.join(''), chunk)).toBe(count(pieces.join(''), Number.MAX_SAFE_INTEGER))
      }),
    )
  })

  it.each([
    'multipart/form-data; boundary="b-1"',
    'multipart/form-data;charset=utf-8;Boundary=b-1',
    'multipart/form-data; boundary=b-1 ; x=y',
  ])('reads the boundary of %s', (type) => {
    expect(count('--b-1\r\n--b-1--', undefined, type)).toBe(2)
  })
})

describe('the network of a client', () => {
  it.each([
    ['203.0.113.9', '203.0.113.9', null],
    ['::ffff:203.0.113.9', '203.0.113.9', null],
    ['::FFFF:cb00:7109', '203.0.113.9', null],
    ['0:0:0:0:0:ffff:203.0.113.9', '203.0.113.9', null],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8:1::/48'],
    ['2001:DB8:0001:0002::', '2001:db8:1:2::/64', '2001:db8:1::/48'],
    ['2001:db8::1', '2001:db8:0:0::/64', '2001:db8:0::/48'],
    ['::1', '0:0:0:0::/64', '0:0:0::/48'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64', 'fe80:0:0::/48'],
    ['64:ff9b::203.0.113.9', '64:ff9b:0:0::/64', '64:ff9b:0::/48'],
    ['::', '0:0:0:0::/64', '0:0:0::/48'],
    ['not an address', 'not an address', null],
  ])('of %s is %s, within the site %s', (address, group, site) => {
    expect([clientGroup(address), widerClientGroup(address)]).toEqual([group, site])
    expect(clientGroups(address)).toEqual(site === null ? [group] : [group, site])
  })

  it.each([
    ['203.0.113.9', '203.0.113.0/24'],
    ['203.0.113.255', '203.0.113.0/24'],
    ['::ffff:203.0.113.9', '203.0.113.0/24'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
    ['2001:DB8:0001:ffff::', '2001:db8:1::/48'],
    ['not an address', 'not an address'],
  ])('whose losses are counted with those of %s is %s', (address, network) => {
    expect(clientNetwork(address)).toBe(network)
  })

  it('all hosts of a /64 are one client, regardless of how their addresses are written', () => {
    const part = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16))
    const four = fc.tuple(part, part, part, part)
    fc.assert(
      fc.property(four, four, four, (network, one, other) => {
        const [first, second] = [[...network, ...one].join(':'), [...network, ...other].join(':').toUpperCase()]
        expect(clientGroup(first)).toBe(clientGroup(second))
        expect(widerClientGroup(first)).toBe(widerClientGroup(second))
      }),
    )
  })
})

describe('a message', () => {
  it('is a call if it names one of the tools', () => {
    expect(toolCallOf(call('chat', CHAT, { key: 'k' }))).toEqual({ tool: 'chat', arguments: CHAT, meta: { key: 'k' } })
    expect(toolCallOf(call('quote'))).toEqual({ tool: 'quote', arguments: {}, meta: {} })
  })

  it.each([
    [null],
    ['tools/call'],
    [[call('chat')]],
    [{ ...call('chat'), method: 'tools/list' }],
    [{ method: 'tools/call', params: null }],
    [{ method: 'tools/call', params: ['chat'] }],
    [call('wallet')],
    [call('__proto__')],
    [call('toString')],
    [call({ name: 'chat' })],
  ])('is no call: %j', (message) => {
    expect(toolCallOf(message)).toBe(null)
  })

  it('has its recording in the arguments of transcribe, or of the call that is priced, and nowhere else', () => {
    const given = { audio_base64: 'AAAA' }
    expect(recordingHolderOf(call('transcribe', given))).toBe(given)
    expect(recordingHolderOf(call('quote', { tool: 'transcribe', arguments: given }))).toBe(given)
    expect(recordingHolderOf(call('chat', given))).toBe(null)
    expect(recordingHolderOf(call('quote', { tool: 'chat', arguments: given }))).toBe(null)
    expect(recordingHolderOf(call('quote', given))).toBe(null)
    expect(recordingHolderOf(given)).toBe(null)
  })

  it('keeps everything but the arguments, which may be long', () => {
    expect(withoutArguments(call('chat', CHAT, { key: 'k' }))).toEqual(call('chat', {}, { key: 'k' }))
    expect(withoutArguments({ method: 'ping' })).toEqual({ method: 'ping' })
  })
})

describe('the arguments of a call', () => {
  it('are the request of the operation', () => {
    expect(prepare('chat', CHAT)).toMatchObject({ operation: { id: 'createChatCompletion' }, wantsChallenge: false })
  })

  it('of a quote are those of the call that it prices', () => {
    const quoted = prepare('quote', { tool: 'chat', arguments: CHAT }).prepared
    expect(quoted).toMatchObject({
      requestDigest: (prepare('chat', CHAT).prepared as { requestDigest: string }).requestDigest,
    })
  })

  it.each([
    ['chat', null, 'invalid_json'],
    ['chat', [CHAT], 'invalid_json'],
    ['transcribe', { model: 'speechvendor/scribe-v2', audio_base64: 'AAAA', budget: 1 }, 'unknown_field'],
    ['quote', {}, 'invalid_field'],
    ['quote', { tool: 'quote', arguments: {} }, 'invalid_field'],
    ['quote', { tool: 'chat' }, 'missing_field'],
    ['quote', { tool: 'chat', arguments: CHAT, challenge: true }, 'unknown_field'],
    ['quote', { tool: 'chat', arguments: { ...CHAT, max_tokens: -1 } }, 'invalid_field'],
  ])('of %s are refused: %j', (name, given, code) => {
    expect(() => prepare(name, given)).toThrow(expect.objectContaining({ code }))
  })

  it('are not kept in memory while the caller waits', async () => {
    const { given, recording } = takeAll()
    await setImmediate()
    collectGarbage()
    expect(recording.deref() === undefined).toBe(true)
    expect(() => given.take(publishedCatalog)).toThrow('taken before')
  })
})

describe('the memory of an arriving body', () => {
  it('is never more than twice what has arrived, nor more than the body, nor less than what has arrived', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40_000_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (whole, share) => {
          const arrived = Math.floor(whole * share)
          const capacity = capacityFor(arrived, whole)
          expect(capacity).toBeGreaterThanOrEqual(Math.min(arrived, whole))
          expect(capacity).toBeLessThanOrEqual(Math.min(whole, Math.max(FIRST, 2 * arrived)))
        },
      ),
    )
  })

  it('grows to the whole body from half of it, so that the last step copies no more than that', () => {
    const whole = 33_601_392
    expect([capacityFor(whole / 2, whole), capacityFor(whole / 2 + 1, whole)]).toEqual([whole / 2, whole])
  })
})

describe('the content of a request that is no longer needed', () => {
  it('the recording of a caller who waits for their job is not kept in memory', async () => {
    const { effectiveRequest, recording } = await readWithRecording()
    effectiveRequest.releaseContent()
    await expect.poll(() => isCollected(recording)).toBe(true)
    expect(effectiveRequest.recording?.audio.bytes).toBe(BYTES)
  })

  it('the text of a caller who waits for their job is not kept in memory, and its price is still known', async () => {
    const prices = (await readWithText()).quote()
    const before = usedMemory()
    const held = await Promise.all(Array.from({ length: CHATS }, readWithText))
    for (const { releaseContent } of held) releaseContent()
    await expect.poll(() => usedMemory() - before).toBeLessThan((CHATS * TEXT_CHARACTERS) / 2)
    for (const { quote } of held) expect(quote()).toEqual(prices)
  })
})
