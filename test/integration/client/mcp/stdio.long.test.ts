import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LARGEST_MESSAGE_BYTES } from '../../../../client/mcp/stdio/message-lines.ts'
import { startRawServer } from '../../../support/mcp/raw-server.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-stdio-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

const openServer = () => startRawServer({ home: join(folder, 'home') })

describe('farebox mcp on standard input and output', () => {
  it('answers malformed lines with errors of JSON-RPC, and goes on', async () => {
    const { child, send, request, reply, ended } = await openServer()
    send('{"jsonrpc":"2.0","id":1,')
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_700 } })
    send('[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_600 } })
    send('{"jsonrpc":"2.0","id":2}')
    expect(await reply()).toMatchObject({ id: 2, error: { code: -32_600 } })
    send('x'.repeat(LARGEST_MESSAGE_BYTES + 1))
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_600 } })
    request(3, 'tools/call', { name: 'no_such_tool', arguments: {} })
    expect(await reply()).toMatchObject({ id: 3, error: { code: -32_602 } })
    request(4, 'no/such/method')
    expect(await reply()).toMatchObject({ id: 4, error: { code: -32_601 } })
    request(5, 'ping')
    expect(await reply()).toMatchObject({ id: 5, result: {} })
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it('lists its tools without service and wallet, and answers each call with what a person runs', async () => {
    const { child, request, reply, ended } = await openServer()
    request(1, 'tools/list')
    const { tools } = (await reply()).result as { tools: { name: string }[] }
    expect(tools.length).toBeGreaterThan(3)
    request(2, 'tools/call', { name: 'chat', arguments: { prompt: 'Hello.' } })
    const { result } = await reply()
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'no_service', money: 'none' } } })
    expect(JSON.stringify(result)).toContain('farebox mcp --url')
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it('refuses arguments that do not match as an error of the tool, of any size', async () => {
    const { child, request, reply, ended } = await openServer()
    const given = [{}, { prompt: 7 }, { prompt: 'a', limit: '100' }, { prompt: 'x'.repeat(8 * 1024 * 1024) }]
    for (const [index, value] of given.entries()) {
      request(index + 1, 'tools/call', { name: 'chat', arguments: value })
      const { result } = await reply()
      expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'invalid_arguments' } } })
      expect(JSON.stringify(result).length).toBeLessThan(4000)
    }
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('ends without an error at %s', async (signal) => {
    const { child, ended } = await openServer()
    child.kill(signal)
    expect(await ended).toEqual({ code: 0, signal: null })
  })
})
