import { afterEach, describe, expect, it } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import {
  payChat,
  payChatPatiently,
  type SignedChat,
  signChat,
  upstreamCallsByKey,
} from '../../support/payer/chat-call.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const PAYERS = 4
const CALLS_OF_A_PAYER = 4
const BLOCK_SECONDS = 2
/** More than a loaded machine delays a block, and short enough to wait for. */
const MAXIMUM_HEAD_AGE_SECONDS = 10

let stops: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of stops.toReversed()) await stop()
  stops = []
})

/** A farebox with blocks at an interval. `apiNode` and `workerNode` are proxies before the chain's node. */
interface Stack {
  readonly sandbox: TestSandbox
  readonly apiNode: RpcProxy
  readonly workerNode: RpcProxy
  /** Signs calls of several payers while every node is right. */
  signCalls(): Promise<readonly SignedChat[]>
  /** Returns the age of a node's newest block as the metrics of a process report it, or NaN. */
  headAge(from: 'api' | 'worker', node: string): Promise<number>
  readiness(): Promise<{ status: string; checks: { chain: string }; warnings: string[] }>
  /** Returns how often the vendors were called for each of the calls. */
  vendorCalls(chats: readonly SignedChat[]): Promise<readonly number[]>
}

async function startStack(hasSecondNode: boolean): Promise<Stack> {
  const nodes: RpcProxy[] = []
  const ports = { api: await findFreePort(), worker: await findFreePort() }
  let realUrl = ''
  const rpcUrlOf = (name: string) => {
    const { url } = name === 'api' ? apiNode() : workerNode()
    return hasSecondNode ? `${url},${realUrl}` : url
  }
  const [apiNode, workerNode] = [() => nodes[0] as RpcProxy, () => nodes[1] as RpcProxy]
  const options: Partial<SandboxOptions> = {
    blockTimeSeconds: BLOCK_SECONDS,
    connections: async (real) => {
      realUrl = real.rpcUrl
      nodes.push(await startRpcProxy(realUrl), await startRpcProxy(realUrl))
      return real
    },
    apiEnvironment: WITHOUT_BUDGETS,
    workerEnvironment: WITHOUT_BUDGETS,
    environmentOf: (name) => ({
      RPC_URL: rpcUrlOf(name),
      METRICS_PORT: String(name === 'api' ? ports.api : ports.worker),
      MAXIMUM_HEAD_AGE_SECONDS: String(MAXIMUM_HEAD_AGE_SECONDS),
    }),
  }
  const sandbox = await startTestSandbox(options)
  stops.push(async () => await Promise.all(nodes.map((node) => node.stop())), sandbox.stop)
  return {
    sandbox,
    apiNode: apiNode(),
    workerNode: workerNode(),
    signCalls: async () => {
      const payers = await Promise.all(
        Array.from({ length: PAYERS }, () =>
          createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true }),
        ),
      )
      const all = payers.flatMap((payer) => Array.from({ length: CALLS_OF_A_PAYER }, () => payer))
      return await Promise.all(all.map((payer) => signChat(sandbox.info.baseUrl, payer)))
    },
    headAge: async (from, node) => {
      const metrics = await (await fetch(`http://127.0.0.1:${ports[from]}/metrics`)).text()
      const line = `farebox_rpc_node_head_age_seconds{node="${new URL(node).host}"} `
      return Number(
        metrics
          .split('\n')
          .find((text) => text.startsWith(line))
          ?.slice(line.length),
      )
    },
    readiness: async () => {
      const answer = await fetch(`${sandbox.info.baseUrl}/readyz`)
      expect(answer.status).toBe(200)
      return (await answer.json()) as Awaited<ReturnType<Stack['readiness']>>
    },
    vendorCalls: async (chats) => {
      const calls = await upstreamCallsByKey(sandbox.info)
      return chats.map(({ idempotencyKey }) => calls.get(idempotencyKey) ?? 0)
    },
  }
}

/** Requires one result, one vendor call and one charge for each of the calls. */
async function expectAllPaidOnce(stack: Stack, chats: readonly SignedChat[]): Promise<void> {
  const { info, chain } = stack.sandbox
  const answers = await Promise.all(chats.map((chat) => payChatPatiently([info.baseUrl], chat)))
  const last = answers.map((all) => all.at(-1))
  expect(last.map((answer) => answer?.status)).toEqual(chats.map(() => 200))
  expect(await stack.vendorCalls(chats)).toEqual(chats.map(() => 1))
  const payers = new Set<string>(chats.map(({ payer }) => payer.address))
  const charges = (await chain.transfersTo(info.payTo)).filter(({ from }) => payers.has(from.toLowerCase()))
  expect(charges).toHaveLength(chats.length)
  expect(sum(charges.map(({ valueAtomic }) => valueAtomic))).toBe(sum(last.map((answer) => answer?.charged ?? 0n)))
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

describe('a node that answers but stands still', () => {
  it('serves and charges every call once by the second node, and names the first one', async () => {
    const stack = await startStack(true)
    const { apiNode, workerNode, sandbox } = stack
    const chats = await stack.signCalls()
    await apiNode.freeze()
    await workerNode.freeze()
    await expectAllPaidOnce(stack, chats)
    await until(async () => (await stack.readiness()).warnings.includes('chain_head_old'))
    expect(await stack.readiness()).toMatchObject({ status: 'ok', checks: { chain: 'ok' } })
    await until(async () => (await stack.headAge('api', apiNode.url)) > MAXIMUM_HEAD_AGE_SECONDS)
    expect(await stack.headAge('worker', workerNode.url)).toBeGreaterThan(
      await stack.headAge('worker', sandbox.info.rpcUrl),
    )
    apiNode.thaw()
    workerNode.thaw()
    await until(async () => !(await stack.readiness()).warnings.includes('chain_head_old'))
  })

  it('starts no paid work as the only node, and serves every call once it has caught up', async () => {
    const stack = await startStack(false)
    const { apiNode, workerNode, sandbox } = stack
    const chats = await stack.signCalls()
    await apiNode.freeze()
    await workerNode.freeze()
    await until(async () => (await stack.readiness()).checks.chain === 'down')
    expect(await stack.readiness()).toMatchObject({ status: 'degraded', warnings: ['chain_head_old'] })
    const refused = await Promise.all(chats.map((chat) => payChat(sandbox.info.baseUrl, chat)))
    const refusal = { status: 503, code: 'payment_network_unavailable', retry: 'same_request', payment: 'none' }
    expect(refused).toMatchObject(chats.map(() => refusal))
    expect(await stack.vendorCalls(chats)).toEqual(chats.map(() => 0))
    expect(await sandbox.added('jobs')).toBe(0)
    apiNode.thaw()
    // The worker decides by itself: what the API accepts meanwhile waits.
    await until(async () => (await stack.readiness()).status === 'ok')
    const accepted = payChatPatiently([sandbox.info.baseUrl], chats[0] as SignedChat)
    await until(async () => (await sandbox.sql('SELECT FROM jobs WHERE deferred_since IS NOT NULL')).length > 0)
    expect(await stack.vendorCalls(chats)).toEqual(chats.map(() => 0))
    workerNode.thaw()
    expect((await accepted).at(-1)?.status).toBe(200)
    await expectAllPaidOnce(stack, chats)
  })
})
