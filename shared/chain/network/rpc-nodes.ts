import { RpcRequestError } from 'viem'
import { isAccountNonceUsed, isAlreadySent, isFeeRefusal, isPoolFull, isRevert, isTooLarge } from './rpc-failure.ts'
import { openRpcNode, type RpcCall } from './rpc-node.ts'
import {
  askForChain,
  checkHead,
  checkUntil,
  isAnswering,
  type NodeState,
  OtherChain,
  read,
  send,
  stateOf,
  type WatchedNode,
} from './watched-node.ts'

/** The nodes of one chain. */
export interface RpcNodes {
  /** Sends transactions to every node, and everything else to the first node that answers and is not behind another. */
  call(call: RpcCall): Promise<unknown>
  /** Returns what is known of each node, in the order of the settings. */
  readStates(): readonly NodeState[]
  /** Asks every node and throws `OtherChain` when one serves another chain. Nodes that do not answer are ignored. */
  refuseOtherChains(chainId: number): Promise<void>
  /** Checks every node that does not rest: whether it answers, and with which newest block. */
  check(): Promise<void>
  /** Checks every node again and again until the returned function is called. No request waits for it. */
  watch(chainId: number): () => void
}

/** Opens the nodes at `rpcUrls`. Reads prefer the earlier ones; a call takes at most `timeoutMs` at each. */
export function openRpcNodes(rpcUrls: readonly string[], timeoutMs: number): RpcNodes {
  const nodes = rpcUrls.map((url): WatchedNode => ({
    rpc: openRpcNode(url, timeoutMs),
    restsUntil: 0,
    head: null,
    isBehind: false,
    poolRefusals: 0,
  }))
  return {
    call: (call) =>
      call.method === 'eth_sendRawTransaction' ? sendToAll(nodes, call) : readFromFirst(inOrder(nodes), call),
    readStates: () => nodes.map(stateOf),
    refuseOtherChains: async (chainId) => {
      const asked = await Promise.allSettled(nodes.map((node) => askForChain(node, chainId)))
      for (const answer of asked)
        if (answer.status === 'rejected' && answer.reason instanceof OtherChain) throw answer.reason
    },
    check: async () => void (await Promise.allSettled(nodes.map((node) => checkHead(nodes, node)))),
    watch: (chainId) => {
      const stopping = new AbortController()
      for (const node of nodes) void checkUntil(stopping.signal, nodes, node, chainId)
      return () => stopping.abort()
    },
  }
}

/** Returns the nodes in the order in which reads ask them: those behind after the others, those that failed last. */
function inOrder(nodes: readonly WatchedNode[]): readonly WatchedNode[] {
  return nodes.toSorted((one, other) => rankOf(one) - rankOf(other))
}

function rankOf(node: WatchedNode): number {
  return isAnswering(node) ? Number(node.isBehind) : 2
}

/** Returns the first answer. How a contract's execution ends is an answer, too, and is thrown. */
async function readFromFirst(nodes: readonly WatchedNode[], call: RpcCall): Promise<unknown> {
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
async function sendToAll(nodes: readonly WatchedNode[], call: RpcCall): Promise<unknown> {
  try {
    return await Promise.any(nodes.map((node) => send(node, call)))
  } catch (error) {
    throw error instanceof AggregateError ? mostSpecific(error.errors) : error
  }
}

/**
 * Returns what a node knows of a transaction rather than its other errors, and those rather than a failure to reach one.
 * That a transaction is too large counts only when every node that answered says so: another one may still take it.
 */
function mostSpecific(failures: readonly unknown[]): unknown {
  for (const isSpecific of [isAlreadySent, isAccountNonceUsed, isPoolFull, isOtherAnswer, isTooLarge]) {
    const found = failures.find(isSpecific)
    if (found !== undefined) return found
  }
  return failures[0]
}

function isOtherAnswer(failure: unknown): boolean {
  return failure instanceof RpcRequestError && !isTooLarge(failure)
}
