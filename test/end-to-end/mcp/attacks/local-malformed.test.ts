import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'
import { type McpProcess, type Message, messageIn } from './support/mcp-process.ts'
import { smuggledLines } from './support/text-checks.ts'

let sandbox: SharedSandbox
let bench: AttackBench
let server: McpProcess
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  bench = await makeAttackBench(sandbox)
  server = bench.start()
  await server.initialize()
})
afterAll(async () => {
  await bench.remove()
  await sandbox.stop()
})

/** Writes it as a line, then asks for the tools; returns the messages that came until their list. */
async function after(line: string | Uint8Array): Promise<readonly Message[]> {
  const from = server.lines.length
  server.write(line)
  server.write('\n')
  const { result } = await server.request('tools/list')
  expect(result).toMatchObject({ tools: expect.arrayContaining([expect.objectContaining({ name: 'chat' })]) })
  const messages = server.lines.slice(from).map(messageIn)
  expect(messages).not.toContain(undefined)
  return (messages as readonly Message[]).slice(0, -1)
}

const request = (params: unknown, method = 'tools/call') =>
  JSON.stringify({ jsonrpc: '2.0', id: 'mine', method, params })

function isRefusal(answer: Message): boolean {
  return answer.error !== undefined || JSON.stringify(answer).includes('"isError":true')
}

const ping = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`

describe('a line that is no message of the protocol', () => {
  it.each([
    ['a text', 'Hello.'],
    ['half of an object', '{"jsonrpc":"2.0","id":"mine","method":"tools/li'],
    ['the headers of another protocol', 'Content-Length: 52\r'],
    ['an empty object', '{}'],
    ['null', 'null'],
    ['a batch', `[${request({ name: 'chat', arguments: { prompt: 'Hello.' } })}]`],
    ['an empty batch', '[]'],
    ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":"mine","method":"tools/list"}'],
    ['an object as its id', '{"jsonrpc":"2.0","id":{},"method":"tools/list"}'],
    ['a method that is a number', '{"jsonrpc":"2.0","id":"mine","method":5}'],
    ['params that are a text', '{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":"chat"}'],
    ['100,000 levels', `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":${'['.repeat(100_000)}`],
    ['bytes that are not UTF-8', new Uint8Array([0x7b, 0xff, 0xfe, 0x7d])],
  ])('is answered with an error, and the next one is served: %s', async (_, line) => {
    const [answer, ...others] = await after(line)
    expect(answer?.error?.code).toBeLessThan(0)
    expect(answer?.error?.message).not.toMatch(/\bat .*:\d+:\d+|node_modules/)
    expect(others).toEqual([])
  })

  it('is not answered under its id when it is a damaged answer: that is an id of the server', async () => {
    const [answer] = await after('{"jsonrpc":"2.0","id":1,"result":"accept"}')
    expect(answer).toMatchObject({ id: null, error: { code: expect.any(Number) } })
  })

  it('is dropped without an answer when it is empty', async () => {
    expect(await after('')).toEqual([])
    expect(await after(' \r')).toEqual([])
  })

  it('is answered with an error when it is longer than any call, and the next one is served', async () => {
    const [answer] = await after(request({ name: 'chat', arguments: { prompt: 'x'.repeat(40_000_000) } }))
    expect(answer?.error?.message).toMatch(/at most/)
  })

  it('may come in pieces of a byte, and two in one piece', async () => {
    for (const byte of Buffer.from('{"jsonrpc":"2.0","id":900,"method":"ping"}')) server.write(Uint8Array.of(byte))
    expect((await after(`\n${ping(901)}\n${ping(902)}`)).map(({ id }) => id)).toEqual([900, 901, 902])
  })
})

describe('a request that the server does not know', () => {
  it.each(['tools/unknown', 'prompts/list', 'sampling/createMessage', 'limits/set', '__proto__', 'constructor'])(
    'is an error of the protocol: %s',
    async (method) => {
      const [answer] = await after(request({}, method))
      expect(answer).toMatchObject({ id: 'mine', error: { code: expect.any(Number) } })
    },
  )

  it.each(['set_limits', 'limits', 'approve', 'pay', '__proto__', 'toString', 'CHAT', 'chat ', 'x'.repeat(100_000)])(
    'is refused as a tool, in an answer that is not much longer than the question: %#',
    async (name) => {
      const answer = await server.request('tools/call', { name, arguments: {} })
      expect(isRefusal(answer)).toBe(true)
      expect(JSON.stringify(answer).length).toBeLessThan(name.length + 1000)
    },
  )

  it('may be a cancellation of a call that does not exist, or an answer to no question', async () => {
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'nothing' } }
    expect(await after(JSON.stringify(cancel))).toEqual([])
    expect(await after('{"jsonrpc":"2.0","id":777,"result":{"action":"accept"}}')).toEqual([])
  })
})

describe('arguments that a tool does not take', () => {
  it.each([
    ['none', {}],
    ['a list', ['Hello.']],
    ['a text', 'Hello.'],
    ['a number as its prompt', { prompt: 5 }],
    ['an empty prompt', { prompt: '' }],
    ['a limit', { prompt: 'Hello.', max_price: '1000' }],
    ['a recipient', { prompt: 'Hello.', pay_to: `0x${'9'.repeat(40)}` }],
    ['a confirmation', { prompt: 'Hello.', confirm: true }],
    ['a key', { prompt: 'Hello.', private_key: `0x${'1'.repeat(64)}` }],
    ['a service', { prompt: 'Hello.', base_url: 'http://127.0.0.1:9' }],
    ['a prototype', JSON.parse('{"prompt":"Hello.","__proto__":{"max_tokens":1},"constructor":1}')],
    ['a fraction', { prompt: 'Hello.', max_tokens: 1.5 }],
    ['a negative number', { prompt: 'Hello.', max_tokens: -1 }],
    ['a number beyond all models', { prompt: 'Hello.', max_tokens: 1e15 }],
    ['a request_id that is a path', { prompt: 'Hello.', request_id: '../../limits\n' }],
    ['3 million characters', { prompt: 'x'.repeat(3_000_000) }],
  ])('are refused with a sentence, before anything is sent: %s', async (_, args) => {
    const from = bench.tap.requests.length
    const answer = await server.request('tools/call', { name: 'chat', arguments: args })
    const said = JSON.stringify(answer)
    expect(isRefusal(answer)).toBe(true)
    expect(said).not.toMatch(/node_modules|\\n +at /)
    expect(said.length).toBeLessThan(5000)
    expect(bench.tap.requests.slice(from)).toEqual([])
  })

  it('are refused with a price when no model has room for them', async () => {
    const answer = await server.call('chat', { prompt: 'y'.repeat(1_900_000) })
    expect(answer).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
    expect(JSON.stringify(answer).length).toBeLessThan(5000)
  })
})

it('paid for none of that, wrote nothing but messages, and ends with its standard input', async () => {
  expect((await bench.moved()).outflows.filter(({ kind }) => kind === 'transfer')).toEqual([])
  const answers = server.lines.filter((line) => typeof messageIn(line)?.id === 'number')
  expect(smuggledLines(answers)).toEqual([])
  server.leave()
  expect(await server.ended).toEqual({ code: 0, signal: null })
  expect(server.errors()).not.toContain(bench.payer.privateKey.slice(2))
})
