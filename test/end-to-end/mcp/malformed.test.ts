import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AttackBench, makeAttackBench } from '../../support/agents/attack-bench.ts'
import { callHosted, challengeIn, codeOf, type HostedAnswer, postMcp } from '../../support/agents/hosted-calls.ts'
import { THIEF } from '../../support/agents/injection-texts.ts'
import { type McpProcess, type Message, messageIn } from '../../support/agents/mcp-process.ts'
import { smuggledLines } from '../../support/agents/text-checks.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 20 }
const message = (params: unknown, method = 'tools/call') => ({ jsonrpc: '2.0', id: 1, method, params })
const call = (name: unknown, args: unknown = CHAT) => message({ name, arguments: args })
function isToolError(result: unknown): boolean {
  return typeof result === 'object' && result !== null && 'isError' in result && result.isError === true
}
const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
const request = (params: unknown, method = 'tools/call') =>
  JSON.stringify({ jsonrpc: '2.0', id: 'mine', method, params })
function isRefusal(answer: Message): boolean {
  return answer.error !== undefined || JSON.stringify(answer).includes('"isError":true')
}
const ping = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`

describe('malformed messages to the hosted server', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  /** Sends it, expects that nothing was begun and that the service still works. */
  async function refused(body: Parameters<typeof postMcp>[1], headers?: Record<string, string>): Promise<HostedAnswer> {
    const [jobs, keys] = [await sandbox.added('jobs'), await sandbox.boundKeys()]
    const answer = await postMcp(sandbox.info.baseUrl, body, headers)
    expect(answer.status).toBeGreaterThanOrEqual(200)
    expect(answer.status).toBeLessThan(500)
    expect(answer.text).not.toMatch(/\bat .*\.(ts|js|mjs):\d+|node_modules|\/api\//)
    expect([await sandbox.added('jobs'), await sandbox.boundKeys(keys)]).toEqual([jobs, []])
    const [error] = answer.messages
    const isRefused = answer.status >= 400 || error?.error !== undefined || isToolError(error?.result)
    expect({ isRefused, text: answer.text }).toMatchObject({ isRefused: true })
    return answer
  }
  describe('a body that is no message of the protocol', () => {
    it.each([
      ['nothing', ''],
      ['white space', ' \n'],
      ['half of an object', '{"jsonrpc":"2.0","id":1,"method":"tools/ca'],
      ['a text', '"tools/call"'],
      ['a number', '1'],
      ['null', 'null'],
      ['an empty object', '{}'],
      ['an empty batch', '[]'],
      ['a batch', JSON.stringify([call('chat'), call('chat')])],
      ['a batch within a batch', JSON.stringify([[call('chat')]])],
      ['another version of JSON-RPC', { ...call('chat'), jsonrpc: '1.0' }],
      ['no version', { id: 1, method: 'tools/call', params: { name: 'chat', arguments: CHAT } }],
      ['an object as its id', { ...call('chat'), id: {} }],
      ['a fraction as its id', { ...call('chat'), id: 1.5 }],
      ['a method that is an object', { ...call('chat'), method: { name: 'tools/call' } }],
      ['params that are a list', message(['chat', CHAT])],
      ['two ids', '{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"chat","arguments":{}}}'],
      ['two methods', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"chat"}}'],
      ['an object of 10,000 levels', `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${deep(10_000)}}`],
      ['a form', 'jsonrpc=2.0&method=tools/call'],
      ['bytes that are not UTF-8', new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
      ['a byte order mark alone', '\ufeff'],
      ['UTF-16', new Uint8Array(Buffer.from(JSON.stringify(call('chat')), 'utf16le'))],
    ])('is refused: %s', async (_, body) => {
      await refused(body)
    })

    it.each([
      ['another type of content', { 'content-type': 'text/plain' }],
      ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
      ['a compressed body', { 'content-encoding': 'gzip' }],
      ['an answer that is never sent', { accept: 'image/png' }],
      ['a revision of the protocol that does not exist', { 'mcp-protocol-version': '1999-01-01' }],
    ])('is refused with headers of %s', async (_, headers) => {
      await refused(JSON.stringify(call('chat', {})), headers)
    })

    it.each(['GET', 'DELETE', 'PUT', 'PATCH'])('is refused by %s, with the methods that work', async (method) => {
      const answer = await fetch(`${sandbox.info.baseUrl}/mcp`, { method })
      expect(answer.status).toBe(405)
      expect(answer.headers.get('allow')).toMatch(/POST/)
      expect(await answer.json()).toMatchObject({ error: { payment: 'none' } })
    })
  })

  describe('a call that no tool takes', () => {
    it.each([
      'wallet',
      'receipts',
      'verify_receipt',
      'set_limits',
      '',
      '__proto__',
      'constructor',
      'toString',
      'chat ',
      'CHAT',
      '../v1/chat/completions',
      'chat\u0000',
      'x'.repeat(100_000),
    ])('is refused: %j', async (name) => {
      const { text } = await refused(call(name.slice(0, 100_000)))
      expect(text.length).toBeLessThan(5000)
    })

    it.each([null, 1, ['chat'], { name: 'chat' }, undefined])('is refused with the name %j', async (name) => {
      await refused(call(name))
    })

    it.each(['tools/unknown', 'resources/read', 'prompts/get', 'sampling/createMessage', 'rpc.discover', '__proto__'])(
      'is refused as the method %s',
      async (method) => {
        await refused(message({}, method))
      },
    )
  })

  describe('arguments that a tool does not take', () => {
    it.each([
      ['none', {}],
      ['null', null],
      ['a list', [CHAT]],
      ['a text', JSON.stringify(CHAT)],
      ['another type', { ...CHAT, messages: 'Good evening.' }],
      ['an unknown model', { ...CHAT, model: 'gpt-1' }],
      ['a number that is none', { ...CHAT, max_tokens: 'many' }],
      ['a negative number', { ...CHAT, max_tokens: -1 }],
      ['more than the model has', { ...CHAT, max_tokens: 10_000_000 }],
      ['a lone surrogate', { ...CHAT, messages: [{ role: 'user', content: '\ud800' }] }],
      ['a stream', { ...CHAT, stream: true }],
    ])('are refused before a price: %s', async (_, args) => {
      await refused(call('chat', args))
    })

    it('are refused when an object repeats a name, as at the endpoint', async () => {
      const args = '{"model":"textmodel-2.5-flash","max_tokens":1,"max_tokens":60000,"messages":[]}'
      await refused(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat","arguments":${args}}}`)
    })

    it('cannot reach the prototype of anything', async () => {
      const args = '{"__proto__":{"max_tokens":1},"constructor":{"prototype":{"isAdmin":true}}}'
      await refused(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat","arguments":${args}}}`)
      expect(({} as Record<string, unknown>)['isAdmin']).toBeUndefined()
    })

    it('are refused when they are larger than any request of the endpoint', async () => {
      const content = 'x'.repeat(60_000_000)
      const body = call('chat', { ...CHAT, messages: [{ role: 'user', content }] })
      // The service may close the connection while the body is still sent.
      const status = await postMcp(sandbox.info.baseUrl, body).then(
        (answer) => answer.status,
        (error: unknown) => String(error),
      )
      expect(String(status)).toMatch(/^413$|fetch failed|terminated/)
    })

    it('do not end up in an answer of great length', async () => {
      const { text } = await refused(call('chat', { ...CHAT, model: 'y'.repeat(200_000) }))
      expect(text.length).toBeLessThan(5000)
    })

    it('that the endpoint ignores change neither the price nor the recipient', async () => {
      const extra = { pay_to: THIEF, payTo: THIEF, recipient: THIEF, budget: '1000', amount: '1', price: 0 }
      const [plain, changed] = await Promise.all(
        [CHAT, { ...CHAT, ...extra }].map(async (args) =>
          challengeIn(await callHosted(sandbox.info.baseUrl, 'chat', args)),
        ),
      )
      const termsOf = (terms: typeof plain) => terms?.accepts.map(({ payTo, amount, asset }) => [payTo, amount, asset])
      expect(termsOf(changed)).toEqual(termsOf(plain))
    })
  })

  describe('metadata of a call', () => {
    it.each([
      ['a list', []],
      ['a text', 'x402/payment'],
      ['null', null],
    ])('that is %s is refused, or read as none', async (_, meta) => {
      const params = { name: 'chat', arguments: CHAT, _meta: meta }
      const { status, messages } = await postMcp(sandbox.info.baseUrl, message(params))
      expect(status).toBeLessThan(500)
      const result = messages[0]?.result as { structuredContent?: { x402Version?: number } } | undefined
      expect(messages[0]?.error !== undefined || result?.structuredContent?.x402Version === 2).toBe(true)
    })

    it.each([
      ['a number', 17],
      ['an object', { key: 'x' }],
      ['nothing', ''],
      ['a line break', 'a\nb'],
      ['letters beyond ASCII', 'schlüssel'],
      ['300 characters', 'x'.repeat(300)],
    ])('with a key that is %s is refused as at the endpoint', async (_, key) => {
      const answer = await callHosted(sandbox.info.baseUrl, 'chat', CHAT, { 'farebox/idempotency-key': key })
      expect(answer.isError).toBe(true)
      expect(codeOf(answer)).toMatch(/idempotency_key/)
    })
  })

  it('still answers after all of that', async () => {
    const challenge = challengeIn(await callHosted(sandbox.info.baseUrl, 'chat', CHAT))
    expect(challenge.accepts[0]?.payTo.toLowerCase()).toBe(sandbox.info.payTo.toLowerCase())
  })
})

describe('malformed messages to the local server', () => {
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
})
