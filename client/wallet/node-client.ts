import type { Address, PublicClient } from 'viem'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'

const TIMEOUT_MS = 15_000

/** Reads from a node of the payment network. Nothing is ever sent through it. */
export interface ChainNode {
  readonly client: PublicClient
  /** The host only: the rest of a node's URL often contains a key. */
  readonly host: string
}

/** Opens a node. viem takes most of a second to load, so it is loaded when a node is needed. */
export async function openNode(rpcUrl: string): Promise<ChainNode> {
  if (!URL.canParse(rpcUrl)) throw nodeError('The RPC URL is not a URL.')
  const { createPublicClient, http } = await import('viem')
  const client = createPublicClient({ transport: http(rpcUrl, { timeout: TIMEOUT_MS, retryCount: 2 }) })
  return { client, host: new URL(rpcUrl).host }
}

/** Runs reads of a node that must serve `network`. Throws `FareboxError` when it serves another, or none. */
export async function readNode<Result>(
  { client, host }: ChainNode,
  network: string,
  read: (client: PublicClient) => Promise<Result>,
): Promise<Result> {
  try {
    const served = `eip155:${await client.getChainId()}`
    if (served !== network) throw nodeError(`The node ${host} serves ${served}, but payments are on ${network}.`)
    return await read(client)
  } catch (error) {
    if (error instanceof FareboxError) throw error
    // Without a cause: it would quote the whole URL.
    throw nodeError(`The node ${host} does not answer (${shortMessageOf(error)}).`)
  }
}

/** What an address holds. */
export async function readHoldings(client: PublicClient, asset: Address, owner: Address, spender: Address) {
  const { erc20Abi } = await import('viem')
  const token = { address: asset, abi: erc20Abi }
  const [usdc, allowance, native] = await Promise.all([
    client.readContract({ ...token, functionName: 'balanceOf', args: [owner] }),
    client.readContract({ ...token, functionName: 'allowance', args: [owner, spender] }),
    client.getBalance({ address: owner }),
  ])
  return { usdc, allowance, native }
}

/** Reads what a permit of one owner depends on. The node is opened at the first reading. */
export function openAllowanceNode(rpcUrl: string, owner: Address, spender: Address) {
  let opened: Promise<ChainNode> | undefined
  const open = async () => (await (opened ??= openNode(rpcUrl))).client
  return {
    allowance: async (asset: string): Promise<bigint> => {
      const [client, { erc20Abi }] = await Promise.all([open(), import('viem')])
      const token = { address: asset as Address, abi: erc20Abi }
      return await client.readContract({ ...token, functionName: 'allowance', args: [owner, spender] })
    },
    permitNonce: async (asset: string): Promise<bigint> => {
      const [client, { parseAbi }] = await Promise.all([open(), import('viem')])
      const token = {
        address: asset as Address,
        abi: parseAbi(['function nonces(address owner) view returns (uint256)']),
      }
      return await client.readContract({ ...token, functionName: 'nonces', args: [owner] })
    },
  }
}

export type AllowanceNode = ReturnType<typeof openAllowanceNode>

function nodeError(problem: string): FareboxError {
  return uncharged('rpc_unavailable', problem, 'Check the RPC URL (FAREBOX_RPC_URL).')
}

/** Returns the first line of viem's messages; the following ones have URL and request. */
export function shortMessageOf(error: unknown): string {
  const { shortMessage: short } = error as { readonly shortMessage?: unknown }
  const text = typeof short === 'string' ? short : error instanceof Error ? error.message : String(error)
  return (text.split('\n')[0] ?? '').replace(/\.$/, '')
}
