import pLimit from 'p-limit'
import { type Address, createPublicClient, type Hex, http, type PublicClient, parseAbi } from 'viem'
import { base } from '#shared/chain/network/base-chain.ts'
import { DEVNET_ADDRESSES, type Devnet, type DevnetOptions, startDevnet } from '../../../infra/sandbox/chain/devnet.ts'
import {
  createSandboxAccounts,
  fundSandboxAccounts,
  type SandboxAccounts,
} from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { waitForReceipt } from '../../../infra/sandbox/chain/wait-for-receipt.ts'
import { PATIENCE_MS } from '../patience.ts'

/** Reads of USDC and Permit2. */
const DEVNET_READ_ABI = parseAbi([
  'function balanceOf(address account) view returns (uint256)',
  'function allowance(address owner, address spender) view returns (uint256)',
  'function nonceBitmap(address owner, uint256 word) view returns (uint256)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
])

/** A USDC transfer from its event; `valueAtomic` in atomic units. */
export interface UsdcTransfer {
  from: Address
  to: Address
  valueAtomic: bigint
  transactionHash: Hex
}

/** A devnet with funded accounts and the reads that payment tests need. */
export interface TestDevnet extends Devnet {
  accounts: SandboxAccounts
  client: PublicClient
  /** Takes a snapshot of the chain; returns an id for one `revert`. */
  snapshot: () => Promise<Hex>
  /** Restores the chain; the id and all later ones are used up. */
  revert: (snapshotId: Hex) => Promise<void>
  /** Returns the USDC balance in atomic units. */
  usdcBalance: (account: Address) => Promise<bigint>
  /** Returns Permit2's allowance of an account's USDC, in atomic units. */
  permit2Allowance: (owner: Address) => Promise<bigint>
  /** Returns all USDC transfers to an account since the chain began, oldest first. */
  transfersTo: (account: Address) => Promise<UsdcTransfer[]>
  /** Returns one word of Permit2's nonce bitmap, of 256 nonces: `word = nonce >> 8`. */
  permit2NonceBitmap: (owner: Address, word: bigint) => Promise<bigint>
  /** Returns whether a Permit2 nonce was used or invalidated. */
  isPermit2NonceUsed: (owner: Address, nonce: bigint) => Promise<boolean>
}

/** Starts a devnet with freshly funded accounts; the caller stops it. Takes about 50 ms once the caches are warm. */
export async function startTestDevnet(options: DevnetOptions = {}): Promise<TestDevnet> {
  const devnet = await startDevnet(options)
  const accounts = createSandboxAccounts()
  await fundSandboxAccounts(devnet.rpcUrl, accounts)
  return { ...devnet, accounts, ...createChainReader(devnet.rpcUrl) }
}

/**
 * Leaves out events that a reorganization removed. Anvil, reorganized while it mines, still lists such a transaction in
 * its old block; but an account nonce is used once, so the transaction that was mined last with it is the one that was
 * executed.
 */
async function withoutReorganized<Event extends { readonly transactionHash: Hex; readonly blockNumber: bigint }>(
  rpcUrl: string,
  events: readonly Event[],
): Promise<readonly Event[]> {
  const limit = pLimit(CONCURRENT_LOOKUPS)
  const listed = await Promise.all(
    events.map((event) =>
      limit(async () => ({ event, useOfNonce: await useOfNonceBy(rpcUrl, event.transactionHash) })),
    ),
  )
  const last = new Map<string, bigint>()
  for (const { event, useOfNonce } of listed)
    if (event.blockNumber > (last.get(useOfNonce) ?? -1n)) last.set(useOfNonce, event.blockNumber)
  return listed.flatMap(({ event, useOfNonce }) => (last.get(useOfNonce) === event.blockNumber ? event : []))
}

const CONCURRENT_LOOKUPS = 32
/** Cached permanently by transaction hash: campaigns read the same thousands again and again. */
const usesOfNonces = new Map<Hex, string>()

async function useOfNonceBy(rpcUrl: string, hash: Hex): Promise<string> {
  const known = usesOfNonces.get(hash)
  if (known !== undefined) return known
  const { from, nonce } = await callRpc<{ from: Hex; nonce: Hex }>(rpcUrl, 'eth_getTransactionByHash', [hash])
  const useOfNonce = `${from} ${nonce}`
  usesOfNonces.set(hash, useOfNonce)
  return useOfNonce
}

/** Returns the reads of a test devnet, for a chain that is already running. */
export function createChainReader(rpcUrl: string): Omit<TestDevnet, keyof Devnet | 'accounts'> {
  const reader = createPublicClient({ chain: base, transport: http(rpcUrl, { timeout: PATIENCE_MS }) })
  const client: PublicClient = Object.assign(reader, {
    waitForTransactionReceipt: ({ hash }: { readonly hash: Hex }) => waitForReceipt(reader as never, hash),
  }) as never
  const { usdc, permit2 } = DEVNET_ADDRESSES
  const abi = DEVNET_READ_ABI
  const permit2NonceBitmap = (owner: Address, word: bigint) =>
    client.readContract({ address: permit2, abi, functionName: 'nonceBitmap', args: [owner, word] })
  return {
    client,
    permit2NonceBitmap,
    snapshot: () => callRpc<Hex>(rpcUrl, 'evm_snapshot', []),
    async revert(snapshotId) {
      if (!(await callRpc<boolean>(rpcUrl, 'evm_revert', [snapshotId]))) throw new Error(`No snapshot ${snapshotId}`)
    },
    usdcBalance: (account) => client.readContract({ address: usdc, abi, functionName: 'balanceOf', args: [account] }),
    permit2Allowance: (owner) =>
      client.readContract({ address: usdc, abi, functionName: 'allowance', args: [owner, permit2] }),
    async transfersTo(account) {
      const filter = { address: usdc, abi, eventName: 'Transfer', args: { to: account }, strict: true } as const
      const events = await client.getContractEvents({ ...filter, fromBlock: 0n })
      const executed = await withoutReorganized(rpcUrl, events)
      return executed.map(({ args, transactionHash }) => ({
        from: args.from,
        to: args.to,
        valueAtomic: args.value,
        transactionHash,
      }))
    },
    async isPermit2NonceUsed(owner, nonce) {
      const bitmap = await permit2NonceBitmap(owner, nonce >> 8n)
      return ((bitmap >> (nonce & 255n)) & 1n) === 1n
    },
  }
}
