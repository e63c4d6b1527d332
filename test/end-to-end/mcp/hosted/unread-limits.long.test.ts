import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestSandbox, type TestSandbox } from '../../../support/processes/test-sandbox.ts'

const PER_MINUTE = 5
const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({ apiEnvironment: { REQUESTS_PER_MINUTE: String(PER_MINUTE) } })
})
afterAll(() => sandbox.stop())

/** Sends a message from an address of its own, and returns the status of the answer. */
async function send(localAddress: string, body: string, headers: object): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
  const sent = request(`${sandbox.info.baseUrl}/mcp`, {
    method: 'POST',
    localAddress,
    headers: { ...HEADERS, ...headers },
  })
  sent.on('error', reject)
  sent.on('response', (response) => {
    response.resume()
    response.on('end', () => resolve(response.statusCode))
  })
  sent.end(body)
  return await promise
}

const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'chat', arguments: CHAT } }
const long = { ...CHAT, messages: [{ role: 'user', content: 'x'.repeat(300_000) }] }

const REQUESTS: readonly { readonly title: string; readonly body: string; readonly headers?: object }[] = [
  { title: 'a body that cannot be parsed', body: '{"jsonrpc":' },
  { title: 'a long body that cannot be parsed', body: `{"jsonrpc":"${'x'.repeat(300_000)}` },
  { title: 'a batch', body: JSON.stringify([call]) },
  { title: 'a text', body: '"x"' },
  { title: 'an empty body', body: '' },
  { title: 'a call without an id', body: JSON.stringify({ ...call, id: undefined }) },
  {
    title: 'a long call without an id',
    body: JSON.stringify({ ...call, id: undefined, params: { name: 'chat', arguments: long } }),
  },
  { title: 'a call of another version of JSON-RPC', body: JSON.stringify({ ...call, jsonrpc: '1.0' }) },
  { title: 'a call that accepts no answer', body: JSON.stringify(call), headers: { accept: 'image/png' } },
  {
    title: 'a call of an unknown revision',
    body: JSON.stringify(call),
    headers: { 'mcp-protocol-version': '1999-01-01' },
  },
  { title: 'a list of the tools', body: JSON.stringify({ ...call, method: 'tools/list' }) },
]

describe('a message that runs no tool', () => {
  it.each(REQUESTS)('draws on the allowance of its network: $title', async ({ title, body, headers = {} }) => {
    const address = `127.0.0.${10 + REQUESTS.findIndex((known) => known.title === title)}`
    const statuses: (number | undefined)[] = []
    while (statuses.length < 10 * PER_MINUTE && statuses.at(-1) !== 429)
      statuses.push(await send(address, body, headers))
    expect(statuses.at(-1)).toBe(429)
  })
})
