import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HttpRequestError, ResourceNotFoundRpcError, TimeoutError, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { openChain } from '#shared/chain/network/open-chain.ts'
import { isRevert } from '#shared/chain/network/rpc-failure.ts'
import { openRpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { RETH_POOL_IS_FULL } from '../../support/chain/limited-pool.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

const open = (...proxies: RpcProxy[]) =>
  openRpcNodes(
    proxies.map(({ url }) => url),
    PATIENCE_MS,
  )
/** The settings with these nodes, in this order. */
function settingsOf(...proxies: RpcProxy[]) {
  return { RPC_URL: proxies.map(({ url }) => url), RPC_TIMEOUT_MS: PATIENCE_MS }
}
const head = { method: 'eth_blockNumber' }
const CHECKS: ReadonlySet<string> = new Set(['eth_chainId', 'eth_getBlockByNumber'])
const SENT = { result: `0x${'ab'.repeat(32)}` }
const failures: [string, RpcFault][] = [
  ['breaks the connection', { kind: 'reset' }],
  ['answers like a broken gateway', { kind: 'html' }],
  ['refuses for its rate limit', { kind: 'status', status: 429 }],
  [
    'refuses for its rate limit as JSON-RPC',
    { kind: 'error', code: -32005, message: 'daily request count exceeded, request rate limited' },
  ],
]
const now = performance.now.bind(performance)
/** Sets the monotonic clock ahead. */
function advanceBy(ms: number): void {
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}
const requests: { authorization: string | undefined; path: string | undefined; body: unknown }[] = []

describe('several nodes', () => {
  let devnet: TestDevnet
  let [first, second]: RpcProxy[] = []
  beforeAll(async () => {
    devnet = await startTestDevnet()
    first = await startRpcProxy(devnet.rpcUrl)
    second = await startRpcProxy(devnet.rpcUrl)
  })

  afterEach(() => {
    vi.restoreAllMocks()
    for (const proxy of nodes()) {
      proxy.setFault(null)
      proxy.chooseFault(() => null)
      proxy.thaw()
    }
  })

  afterAll(async () => {
    for (const proxy of nodes()) await proxy.stop()
    await devnet.stop()
  })

  function nodes(): [RpcProxy, RpcProxy] {
    if (!first || !second) throw new Error('not started')
    return [first, second]
  }
  /** Returns how many calls each node received during `work`, without checks: those of a watch may arrive at any time. */
  async function callsDuring(work: () => Promise<unknown>): Promise<number[]> {
    const before = nodes().map(({ calls }) => calls.length)
    await work()
    return nodes().map(({ calls }, index) => calls.slice(before[index]).filter((method) => !CHECKS.has(method)).length)
  }
  it('reads from the first node only while it answers', async () => {
    const opened = open(...nodes())
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
    expect(opened.readStates().map(({ isAnswering }) => isAnswering)).toEqual([true, true])
  })

  it.each(failures)(
    'asks the next node when one %s, and the failed one only after it until it has rested',
    async (_, fault) => {
      const opened = open(...nodes())
      const [preferred] = nodes()
      preferred.setFault(fault)
      expect(await callsDuring(() => opened.call(head))).toEqual([1, 1])
      expect(opened.readStates()).toMatchObject([
        { host: new URL(preferred.url).host, isAnswering: false },
        { host: expect.any(String), isAnswering: true },
      ])
      expect(await callsDuring(() => opened.call(head))).toEqual([0, 1])
    },
  )

  it('asks a resting node when the others fail, and prefers it again once it has answered', async () => {
    const opened = open(...nodes())
    const [preferred, other] = nodes()
    preferred.setFault({ kind: 'reset' })
    await opened.call(head)
    preferred.setFault(null)
    other.setFault({ kind: 'reset' })
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 1])
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('checks a node that has rested without making a caller wait, and prefers it again once it has answered', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault({ kind: 'reset' })
    await opened.call(head)
    preferred.setFault({ kind: 'hang' })
    const trialed = preferred.calls.length
    await opened.check()
    expect(preferred.calls.length - trialed).toBe(0)
    advanceBy(10_000)
    void opened.check()
    await expect.poll(() => preferred.calls.length - trialed).toBe(1)
    expect(await callsDuring(() => opened.call(head))).toEqual([0, 1])
    preferred.setFault(null)
    await opened.check()
    expect(opened.readStates()[0]?.isAnswering).toBe(true)
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('watches every node in the background, also one that no call needs', async () => {
    const opened = open(...nodes())
    const [, other] = nodes()
    other.setFault({ kind: 'reset' })
    const stop = opened.watch(8453)
    await expect.poll(() => opened.readStates()[1]?.isAnswering).toBe(false)
    await expect.poll(() => opened.readStates()[0]?.headAgeMs).toEqual(expect.any(Number))
    stop()
    other.setFault(null)
    advanceBy(10_000)
    onTestFinished(opened.watch(8453))
    await expect.poll(() => opened.readStates()[1]).toMatchObject({ isAnswering: true, headAgeMs: expect.any(Number) })
  })

  it('reads from no node that the watch found on another chain, until it serves the right one', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault({ kind: 'forge', answer: { result: '0x1' } }, 'eth_chainId')
    const stop = opened.watch(8453)
    await expect.poll(() => opened.readStates()[0]?.isAnswering).toBe(false)
    stop()
    advanceBy(3_600_000)
    await opened.check()
    expect(await callsDuring(() => opened.call(head))).toEqual([0, 1])
    preferred.setFault(null)
    onTestFinished(opened.watch(8453))
    await expect.poll(() => opened.readStates()[0]?.isAnswering).toBe(true)
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('reads from the next node while one answers at an old block, and prefers it again once it has caught up', async () => {
    const opened = open(...nodes())
    const [preferred, other] = nodes()
    await opened.check()
    await preferred.freeze()
    await callRpc(devnet.rpcUrl, 'anvil_mine', [toHex(4), toHex(2)])
    advanceBy(8000)
    // The first one may receive the second one's blocks until it is read after them.
    await opened.check()
    await opened.check()
    expect(opened.readStates()).toMatchObject([{ isAnswering: true, isBehind: true }, { isBehind: false }])
    expect(await callsDuring(() => opened.call(head))).toEqual([0, 1])
    other.setFault({ kind: 'reset' })
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 1])
    other.setFault(null)
    preferred.thaw()
    await opened.check()
    expect(opened.readStates()[0]?.isBehind).toBe(false)
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('keeps reading from a node with recent blocks, whatever another one claims', async () => {
    const opened = open(...nodes())
    const [preferred, other] = nodes()
    const now = Math.floor(Date.now() / 1000)
    other.setFault({ kind: 'forge', answer: { result: { number: '0xffffff', timestamp: toHex(now + 3600) } } })
    preferred.setFault({ kind: 'forge', answer: { result: { number: '0x5', timestamp: toHex(now) } } })
    await opened.check()
    await opened.check()
    expect(opened.readStates()).toMatchObject([{ isBehind: false }, { isBehind: false }])
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('lets a node rest although its gateway still knows the chain and forwards transactions', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.chooseFault(({ method }) =>
      method === head.method ? { kind: 'reset' } : method === 'eth_chainId' ? null : { kind: 'forge', answer: SENT },
    )
    await opened.call(head)
    await opened.refuseOtherChains(8453)
    expect(await opened.call({ method: 'eth_sendRawTransaction', params: ['0x00'] })).toBe(SENT.result)
    expect(await callsDuring(() => opened.call(head))).toEqual([0, 1])
  })

  it('asks the next node when one reports an error of its own, and throws what a contract reports', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault({ kind: 'error', code: -32603, message: 'internal error' })
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 1])
    preferred.setFault({ kind: 'error', code: 3, message: 'execution reverted' })
    const calls = await callsDuring(async () => {
      const thrown: unknown = await opened.call(head).catch((error: unknown) => error)
      expect(isRevert(thrown)).toBe(true)
    })
    expect(calls).toEqual([1, 0])
  })

  it.each([
    ['its pool is full', { kind: 'error', ...RETH_POOL_IS_FULL }, 1],
    ['it takes no more calls for now', { kind: 'status', status: 429 }, 0],
  ] as const)('goes on reading from a node that refuses a transaction because %s', async (_, fault, refusals) => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault(fault, 'eth_sendRawTransaction')
    nodes()[1].setFault({ kind: 'error', code: -32_000, message: 'another error' }, 'eth_sendRawTransaction')
    const sending = opened.call({ method: 'eth_sendRawTransaction', params: ['0x00'] })
    await expect(sending).rejects.toThrow(refusals > 0 ? RETH_POOL_IS_FULL.message : 'another error')
    expect(opened.readStates()[0]).toMatchObject({ isAnswering: true, poolRefusals: refusals })
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  })

  it('sends a transaction to every node and succeeds when one accepts it', async () => {
    const opened = open(...nodes())
    const account = privateKeyToAccount(generatePrivateKey())
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [account.address, toHex(10n ** 18n)])
    const raw = await account.signTransaction({
      chainId: 8453,
      to: account.address,
      gas: 21_000n,
      maxFeePerGas: 10n ** 10n,
      nonce: 0,
    })
    const [preferred] = nodes()
    preferred.setFault({ kind: 'hang' })
    const send = { method: 'eth_sendRawTransaction', params: [raw] }
    expect(await callsDuring(() => opened.call(send))).toEqual([1, 1])
  })

  it('reports the refusal of a node rather than the failure to reach another', async () => {
    const opened = open(...nodes())
    const [preferred, other] = nodes()
    preferred.setFault({ kind: 'reset' })
    other.setFault({ kind: 'error', code: -32000, message: 'nonce too low' })
    const send = { method: 'eth_sendRawTransaction', params: ['0x00'] }
    await expect(opened.call(send)).rejects.toThrow('nonce too low')
    other.setFault({ kind: 'reset' })
    await expect(opened.call(send)).rejects.toThrow(HttpRequestError)
  })

  it.each(['already known', 'nonce too low'])(
    'reports that a node answers a broadcast with "%s" rather than that another refuses broadcasts',
    async (message) => {
      const opened = open(...nodes())
      const [preferred, other] = nodes()
      preferred.setFault({ kind: 'error', code: -32601, message: 'the method is not available' })
      other.setFault({ kind: 'error', code: -32000, message })
      await expect(opened.call({ method: 'eth_sendRawTransaction', params: ['0x00'] })).rejects.toThrow(message)
    },
  )

  it('repeats a read whose block a reorganization was replacing', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFaultFor(0, 2, { kind: 'error', code: -32602, message: 'BlockOutOfRangeError: block height is 7' })
    expect(await callsDuring(() => opened.call(head))).toEqual([3, 0])
    preferred.setFault({ kind: 'error', code: -32000, message: 'header not found' })
    expect(await callsDuring(() => opened.call(head))).toEqual([4, 1])
  })

  it('does not repeat a call whose contract reverts with the text of a missing block', async () => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault({ kind: 'error', code: 3, message: 'execution reverted: block not found' })
    const calls = await callsDuring(() => opened.call(head).catch(() => undefined))
    expect(calls).toEqual([1, 0])
  })

  it('refuses to open a node of another chain, also as the second one, but opens nodes that do not answer', async () => {
    const [preferred, other] = nodes()
    other.setFault({ kind: 'forge', answer: { result: '0x1' } }, 'eth_chainId')
    await expect(openChain(settingsOf(preferred, other))).rejects.toThrow(
      `RPC_URL: ${new URL(other.url).host} serves chain 1, not 8453`,
    )
    other.setFault({ kind: 'reset' })
    const { nodes: opened } = await openChain(settingsOf(preferred, other))
    expect(opened.readStates()).toMatchObject([{ isAnswering: true }, { isAnswering: false }])
    preferred.setFault({ kind: 'reset' })
    await openChain(settingsOf(preferred, other))
  })
})

describe('one node', () => {
  let server: Server
  let answer: (response: ServerResponse, request: IncomingMessage) => void
  let url: string
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
})
