import { setTimeout as delay } from 'node:timers/promises'
import { RpcRequestError } from 'viem'
import { headAgeMs, headOf, isBehind, type NodeHead } from './node-head.ts'
import { isMissingBlock, isPoolFull, isRateLimit, isTooLarge } from './rpc-failure.ts'
import type { RpcCall, RpcNode } from './rpc-node.ts'

/** A node that failed is asked only after the others, and checked again after this time. */
const REST_MS = 10_000
/** Pause between two checks of a node, in the background: 17,280 calls a day for each node and process. */
const CHECK_MS = 5000
/** The first of so many checks also asks for the chain. */
const CHECKS_OF_ONE_CHAIN = 15
/** Ends only when the node serves the right chain again. */
const OF_OTHER_CHAIN = Number.POSITIVE_INFINITY
/** A read whose block was just replaced is repeated this often, after a pause. */
const MISSING_BLOCK_RETRIES = 3
const MISSING_BLOCK_PAUSE_MS = 50

/** A node with what this process knows of it. */
export interface WatchedNode {
  readonly rpc: RpcNode
  /** 0 while it answers; otherwise the monotonic time until which it rests. */
  restsUntil: number
  head: NodeHead | null
  isBehind: boolean
  /** How many transactions it refused because its pool had no room for them. */
  poolRefusals: number
}

export interface NodeState {
  readonly host: string
  readonly isAnswering: boolean
  /** Whether another node had a much newer block before this one was last checked. */
  readonly isBehind: boolean
  /** Age of the newest block; `null` before the first check that was answered. */
  readonly headAgeMs: number | null
  /** Transactions that it refused because its pool had no room for them, since this process started. */
  readonly poolRefusals: number
}

export function stateOf(node: WatchedNode): NodeState {
  const { rpc, head, isBehind, poolRefusals } = node
  const ageMs = head && headAgeMs(head, new Date())
  return { host: rpc.host, isAnswering: isAnswering(node), isBehind, headAgeMs: ageMs, poolRefusals }
}

/** Checks one node until `signal` aborts, by itself: another that hangs must not delay it. */
export async function checkUntil(
  signal: AbortSignal,
  nodes: readonly WatchedNode[],
  node: WatchedNode,
  chainId: number,
): Promise<void> {
  for (let checks = 0; !signal.aborted; checks += 1) {
    const isChainDue = checks % CHECKS_OF_ONE_CHAIN === 0 || node.restsUntil === OF_OTHER_CHAIN
    if (isChainDue) await askForChain(node, chainId).catch(() => undefined)
    await checkHead(nodes, node).catch(() => undefined)
    await delay(CHECK_MS, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

/**
 * Reads a node's newest block and compares it with those of the others. Only blocks that these had before show that it is
 * behind, since it had time to receive them; when they have got newer ones meanwhile, it is read once more.
 */
export async function checkHead(nodes: readonly WatchedNode[], node: WatchedNode): Promise<void> {
  if (node.restsUntil > performance.now()) return
  const others = nodes.filter((other) => other !== node)
  const head = await readHead(node, headsOf(others))
  if (!node.isBehind && isBehindAny(head, headsOf(others))) await readHead(node, headsOf(others))
}

async function readHead(node: WatchedNode, known: readonly NodeHead[]): Promise<NodeHead> {
  const head = headOf(await read(node, { method: 'eth_getBlockByNumber', params: ['latest', false] }), node.head)
  node.head = head
  node.isBehind = isBehindAny(head, known)
  return head
}

function headsOf(nodes: readonly WatchedNode[]): readonly NodeHead[] {
  return nodes.flatMap(({ head }) => head ?? [])
}

function isBehindAny(head: NodeHead, others: readonly NodeHead[]): boolean {
  return others.some((other) => isBehind(head, other, new Date()))
}

/** Reads, which is what ends a node's rest. */
export async function read(node: WatchedNode, call: RpcCall): Promise<unknown> {
  try {
    const result = await ask(node, call)
    endRest(node)
    return result
  } catch (error) {
    if (!isFailure(error)) endRest(node)
    throw error
  }
}

function endRest(node: WatchedNode): void {
  if (node.restsUntil !== OF_OTHER_CHAIN) node.restsUntil = 0
}

/**
 * Asks a node, which rests when it fails. A success does not end its rest: gateways know the chain and forward transactions
 * also while the node behind them is down.
 */
async function ask(node: WatchedNode, call: RpcCall): Promise<unknown> {
  try {
    return await withBlockRetries(() => node.rpc.call(call))
  } catch (error) {
    if (isFailure(error)) rest(node)
    throw error
  }
}

/**
 * Sends a transaction. That the node takes no more of them for now, or no more calls, says nothing about reads: it does
 * not rest, and a read that is refused as well finds out.
 */
export async function send(node: WatchedNode, call: RpcCall): Promise<unknown> {
  try {
    return await withBlockRetries(() => node.rpc.call(call))
  } catch (error) {
    if (isPoolFull(error)) node.poolRefusals += 1
    if (isFailure(error) && !isRateLimit(error)) rest(node)
    throw error
  }
}

export async function askForChain(node: WatchedNode, chainId: number): Promise<void> {
  const served = Number(await ask(node, { method: 'eth_chainId' }))
  if (served === chainId) {
    if (node.restsUntil === OF_OTHER_CHAIN) node.restsUntil = 0
    return
  }
  node.restsUntil = OF_OTHER_CHAIN
  throw new OtherChain(`${node.rpc.host} serves chain ${served}, not ${chainId}`)
}

function rest(node: WatchedNode): void {
  if (node.restsUntil !== OF_OTHER_CHAIN) node.restsUntil = performance.now() + REST_MS
}

/** Returns whether the node failed, rather than answered with an error. */
function isFailure(error: unknown): boolean {
  return !(error instanceof RpcRequestError || isTooLarge(error)) || isRateLimit(error)
}

/** A node of another chain is a wrong setting, not an outage. */
export class OtherChain extends Error {}

export function isAnswering({ restsUntil }: WatchedNode): boolean {
  return restsUntil === 0
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
