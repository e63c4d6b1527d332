import { setTimeout as delay } from 'node:timers/promises'
import { RpcRequestError } from 'viem'
import {
  isAccountNonceUsed,
  isAlreadySent,
  isFeeRefusal,
  isMissingBlock,
  isRateLimit,
  isRevert,
  isTooLarge,
} from './rpc-failure.ts'
import { openRpcNode, type RpcCall, type RpcNode } from './rpc-node.ts'

/** A node that failed is asked only after the others; this often one call is sent to it as well, as a trial. */
const REST_MS = 10_000
/** A read whose block was just replaced is repeated this often, after a pause. */
const MISSING_BLOCK_RETRIES = 3
const MISSING_BLOCK_PAUSE_MS = 50

/** The nodes of one chain. */
export interface RpcNodes {
  /** Sends transactions to every node, and everything else to the first node that answers. */
  call(call: RpcCall): Promise<unknown>
  /**
   * Returns what each node did when it was last asked, in the order of the settings. Nodes whose failure is old are asked
   * again in the background: an idle process must not report it forever.
   */
  readStates(): readonly NodeState[]
  /** Resolves as soon as one node says that it serves this chain; throws when none does. */
  requireChain(chainId: number): Promise<void>
  /** Asks every node and throws `OtherChain` when one serves another chain. Nodes that do not answer are ignored. */
  refuseOtherChains(chainId: number): Promise<void>
}

export interface NodeState {
  readonly host: string
  readonly isAnswering: boolean
}

interface Node {
  readonly rpc: RpcNode
  /** 0 while it answers; otherwise the monotonic time until which it rests. */
  restsUntil: number
}

/** Opens the nodes at `rpcUrls`. Reads prefer the earlier ones; a call takes at most `timeoutMs` at each. */
export function openRpcNodes(rpcUrls: readonly string[], timeoutMs: number): RpcNodes {
  const nodes = rpcUrls.map((url): Node => ({ rpc: openRpcNode(url, timeoutMs), restsUntil: 0 }))
  return {
    call: (call) => {
      if (call.method === 'eth_sendRawTransaction') return sendToAll(nodes, call)
      if (nodes.some(isAnswering)) tryRested(nodes, call)
      return readFromFirst(inOrder(nodes), call)
    },
    readStates: () => {
      tryRested(nodes, { method: 'eth_blockNumber' })
      return nodes.map((node) => ({ host: node.rpc.host, isAnswering: isAnswering(node) }))
    },
    requireChain: async (chainId) => {
      await Promise.any(nodes.map((node) => askForChain(node, chainId)))
    },
    refuseOtherChains: async (chainId) => {
      const asked = await Promise.allSettled(nodes.map((node) => askForChain(node, chainId)))
      for (const answer of asked)
        if (answer.status === 'rejected' && answer.reason instanceof OtherChain) throw answer.reason
    },
  }
}

/** Reads, which is what ends a node's rest. */
async function read(node: Node, call: RpcCall): Promise<unknown> {
  try {
    const result = await ask(node, call)
    node.restsUntil = 0
    return result
  } catch (error) {
    if (!isFailure(error)) node.restsUntil = 0
    throw error
  }
}

/**
 * Asks a node, which rests when it fails. A success does not end its rest: gateways know the chain and forward transactions
 * also while the node behind them is down.
 */
async function ask(node: Node, call: RpcCall): Promise<unknown> {
  try {
    return await withBlockRetries(() => node.rpc.call(call))
  } catch (error) {
    if (isFailure(error)) rest(node)
    throw error
  }
}

async function askForChain(node: Node, chainId: number): Promise<void> {
  const served = Number(await ask(node, { method: 'eth_chainId' }))
  if (served === chainId) return
  rest(node)
  throw new OtherChain(`${node.rpc.host} serves chain ${served}, not ${chainId}`)
}

function rest(node: Node): void {
  node.restsUntil = performance.now() + REST_MS
}

/** Returns whether the node failed, rather than answered with an error. */
function isFailure(error: unknown): boolean {
  return !(error instanceof RpcRequestError || isTooLarge(error)) || isRateLimit(error)
}

/** A node of another chain is a wrong setting, not an outage. */
class OtherChain extends Error {}

function isAnswering({ restsUntil }: Node): boolean {
  return restsUntil === 0
}

function inOrder(nodes: readonly Node[]): readonly Node[] {
  return [...nodes.filter(isAnswering), ...nodes.filter((node) => !isAnswering(node))]
}

/** Sends a call to the nodes that have rested, and does not wait for it: a node that hangs must delay nothing. */
function tryRested(nodes: readonly Node[], call: RpcCall): void {
  const time = performance.now()
  for (const node of nodes) {
    if (isAnswering(node) || node.restsUntil > time) continue
    node.restsUntil = time + REST_MS
    read(node, call).catch(() => undefined)
  }
}

/** Returns the first answer. How a contract's execution ends is an answer, too, and is thrown. */
async function readFromFirst(nodes: readonly Node[], call: RpcCall): Promise<unknown> {
  const failures: unknown[] = []
  for (const node of nodes) {
    try {
      return await read(node, call)
    } catch (error) {
      if (isRevert(error) || isFeeRefusal(error)) throw error
      failures.push(error)
    }
  }
  throw mostSpecific(failures)
}

/** Resolves when one node has accepted a transaction. One that hangs must not delay the caller. */
async function sendToAll(nodes: readonly Node[], call: RpcCall): Promise<unknown> {
  try {
    return await Promise.any(nodes.map((node) => ask(node, call)))
  } catch (error) {
    throw error instanceof AggregateError ? mostSpecific(error.errors) : error
  }
}

/**
 * Returns what a node knows of a transaction rather than its other errors, and those rather than a failure to reach one.
 * That a transaction is too large counts only when every node that answered says so: another one may still take it.
 */
function mostSpecific(failures: readonly unknown[]): unknown {
  for (const isSpecific of [isAlreadySent, isAccountNonceUsed, isOtherAnswer, isTooLarge]) {
    const found = failures.find(isSpecific)
    if (found !== undefined) return found
  }
  return failures[0]
}

function isOtherAnswer(failure: unknown): boolean {
  return failure instanceof RpcRequestError && !isTooLarge(failure)
}

/** During a reorganization a node fails reads of the block that it is replacing, even reads of the latest one. */
async function withBlockRetries(read: () => Promise<unknown>): Promise<unknown> {
  for (let retries = 0; ; retries += 1) {
    try {
      return await read()
    } catch (error) {
      if (retries === MISSING_BLOCK_RETRIES || !isMissingBlock(error)) throw error
      await delay(MISSING_BLOCK_PAUSE_MS)
    }
  }
}
