import { HttpRequestError, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { openChain } from '#shared/adapters/chain/network/open-chain.ts'
import { isRevert } from '#shared/adapters/chain/network/rpc-failure.ts'
import { openRpcNodes } from '#shared/adapters/chain/network/rpc-nodes.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

let devnet: TestDevnet
let [first, second]: RpcProxy[] = []
const open = (...proxies: RpcProxy[]) =>
  openRpcNodes(
    proxies.map(({ url }) => url),
    PATIENCE_MS,
  )
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
  }
})
afterAll(async () => {
  for (const proxy of nodes()) await proxy.stop()
  await devnet.stop()
})

/** The settings with these nodes, in this order. */
function settingsOf(...proxies: RpcProxy[]) {
  return { RPC_URL: proxies.map(({ url }) => url), RPC_TIMEOUT_MS: PATIENCE_MS }
}

function nodes(): [RpcProxy, RpcProxy] {
  if (!first || !second) throw new Error('not started')
  return [first, second]
}

const head = { method: 'eth_blockNumber' }
const SENT = { result: `0x${'ab'.repeat(32)}` }

/** Returns how many calls each node received during `work`. */
async function callsDuring(work: () => Promise<unknown>): Promise<number[]> {
  const before = nodes().map(({ calls }) => calls.length)
  await work()
  return nodes().map(({ calls }, index) => calls.length - (before[index] ?? 0))
}

it('reads from the first node only while it answers', async () => {
  const opened = open(...nodes())
  expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
  expect(opened.readStates().map(({ isAnswering }) => isAnswering)).toEqual([true, true])
})

const failures: [string, RpcFault][] = [
  ['breaks the connection', { kind: 'reset' }],
  ['answers like a broken gateway', { kind: 'html' }],
  ['refuses for its rate limit', { kind: 'status', status: 429 }],
  [
    'refuses for its rate limit as JSON-RPC',
    { kind: 'error', code: -32005, message: 'daily request count exceeded, request rate limited' },
  ],
]
it.each(failures)(
  'asks the next node when one %s, and the failed one only after it until it has rested',
  async (_, fault) => {
    const opened = open(...nodes())
    const [preferred] = nodes()
    preferred.setFault(fault)
    expect(await callsDuring(() => opened.call(head))).toEqual([1, 1])
    expect(opened.readStates()).toEqual([
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

const now = performance.now.bind(performance)

/** Sets the monotonic clock ahead. */
function advanceBy(ms: number): void {
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}

it('tries a node that has rested without making a caller wait, and prefers it again once it has answered', async () => {
  const opened = open(...nodes())
  const [preferred] = nodes()
  preferred.setFault({ kind: 'reset' })
  await opened.call(head)
  preferred.setFault({ kind: 'hang' })
  advanceBy(10_000)
  const trialed = preferred.calls.length
  await opened.call(head)
  await opened.call(head)
  await expect.poll(() => preferred.calls.length - trialed).toBe(1)
  preferred.setFault(null)
  advanceBy(20_000)
  await opened.call(head)
  await expect.poll(() => opened.readStates()[0]?.isAnswering).toBe(true)
  expect(await callsDuring(() => opened.call(head))).toEqual([1, 0])
})

it('reports a node as answering again although no call needs it', async () => {
  const opened = open(...nodes())
  const [, other] = nodes()
  other.setFault({ kind: 'reset' })
  await opened.refuseOtherChains(8453)
  other.setFault(null)
  expect(opened.readStates()[1]?.isAnswering).toBe(false)
  advanceBy(10_000)
  await expect.poll(() => opened.readStates()[1]?.isAnswering).toBe(true)
})

it('lets a node rest although its gateway still knows the chain and forwards transactions', async () => {
  const opened = open(...nodes())
  const [preferred] = nodes()
  preferred.chooseFault(({ method }) =>
    method === head.method ? { kind: 'reset' } : method === 'eth_chainId' ? null : { kind: 'forge', answer: SENT },
  )
  await opened.call(head)
  await opened.requireChain(8453)
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
  await opened.requireChain(8453)
  preferred.setFault({ kind: 'reset' })
  await expect(opened.requireChain(8453)).rejects.toThrow('All promises were rejected')
  await openChain(settingsOf(preferred, other))
})
