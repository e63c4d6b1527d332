import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { prepareCall, recordingHolderOf, toolCallOf, withoutArguments } from '../../../api/request/tool-call.ts'
import { CallArguments } from '../../../api/request/worker-threads/request-preparer.ts'

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
