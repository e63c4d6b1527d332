import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HttpRequestError, ResourceNotFoundRpcError, TimeoutError } from 'viem'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { isRevert } from '#shared/adapters/chain/network/rpc-failure.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

let server: Server
let answer: (response: ServerResponse, request: IncomingMessage) => void
let url: string
const requests: { authorization: string | undefined; path: string | undefined; body: unknown }[] = []

beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
      requests.push({ authorization: request.headers.authorization, path: request.url, body })
      answer(response, request)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** Returns what a call throws when the node answers with `status` and `body`. */
async function thrownAt(status: number, body: string): Promise<unknown> {
  answer = (response) => response.writeHead(status, { location: `${url}/elsewhere` }).end(body)
  return await createChainClient(url, PATIENCE_MS)
    .request({ method: 'eth_chainId' })
    .then(
      (result: unknown) => ({ result }),
      (error: unknown) => error,
    )
}

it('sends one call with its parameters to the URL’s path with the URL’s credentials', async () => {
  answer = (response) => response.end('{"jsonrpc":"2.0","id":1,"error":null,"result":"0x2105"}')
  const authorized = createChainClient(`${url.replace('//', '//us%40er:pa%3Ass@')}/v2/key?chain=base`, PATIENCE_MS)
  expect(await authorized.getChainId()).toBe(8453)
  expect(requests.at(-1)).toEqual({
    authorization: `Basic ${Buffer.from('us@er:pa:ss').toString('base64')}`,
    path: '/v2/key?chain=base',
    body: { jsonrpc: '2.0', id: 1, method: 'eth_chainId' },
  })
})

it('throws the node’s own error by its code, whatever the HTTP status', async () => {
  const notFound = '{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"not here"}}'
  expect(await thrownAt(200, notFound)).toBeInstanceOf(ResourceNotFoundRpcError)
  expect(await thrownAt(404, notFound)).toBeInstanceOf(ResourceNotFoundRpcError)
  const revert = '{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"execution reverted","data":"0x"}}'
  expect(isRevert(await thrownAt(200, revert))).toBe(true)
  expect(isRevert(await thrownAt(400, revert))).toBe(true)
  expect(isRevert(await thrownAt(200, '{"error":{"message":"execution reverted"}}'))).toBe(true)
})

it.each([
  ['a gateway’s page', 502, '<html>execution reverted</html>'],
  ['a page with status 200', 200, '<html>execution reverted</html>'],
  ['an error that is only text', 200, '{"error":"execution reverted"}'],
  ['an error status with a result', 500, '{"jsonrpc":"2.0","id":1,"result":"0x2105"}'],
  ['neither result nor error', 200, '{"jsonrpc":"2.0","id":1}'],
  ['JSON that is not an object', 200, 'null'],
  ['an empty body', 200, ''],
  ['a redirect', 307, ''],
  ['a response above the size limit', 200, `{"result":"${'0'.repeat(11_000_000)}"}`],
])('treats %s as a failure of the network', async (_, status, body) => {
  const before = requests.length
  const thrown = await thrownAt(status, body)
  expect(thrown).toBeInstanceOf(HttpRequestError)
  expect(isRevert(thrown)).toBe(false)
  expect(requests.length - before).toBe(1)
})

it('limits the time of the whole response and never shows the URL’s credentials', async () => {
  answer = (response) => response.writeHead(200).write('{"jsonrpc":"2.0",')
  const slow = createChainClient(url.replace('//', '//user:secret@'), 50)
  const thrown: unknown = await slow.request({ method: 'eth_chainId' }).catch((error: unknown) => error)
  expect(thrown).toBeInstanceOf(TimeoutError)
  expect(String(thrown)).not.toContain('secret')
})

it('does not retry after a broken connection', async () => {
  answer = (_, request) => request.socket.destroy()
  const call = createChainClient(`${url}/broken`, PATIENCE_MS).request({ method: 'eth_chainId' })
  await expect(call).rejects.toThrow(HttpRequestError)
  // Calls that other tests gave up may arrive late.
  expect(requests.filter(({ path }) => path === '/broken')).toHaveLength(1)
})
