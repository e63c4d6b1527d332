import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Hex, numberToHex } from 'viem'
import { replaceFile } from '../replace-file.ts'
import { startAnvil } from './anvil.ts'
import { exitStateFile, keepChainState, recoverChainState } from './chain-state.ts'
import { compileContracts, type SandboxContracts } from './contracts/compile.ts'
import { callRpc } from './json-rpc.ts'

/** How often anvil's queue is looked at. */
const LOOK_EVERY_MS = 1000

interface TransactionPool {
  /** Transactions that wait for an earlier account nonce, by sender and nonce. */
  readonly queued: Readonly<Record<Hex, Readonly<Record<string, { readonly hash: Hex }>>>>
}

/** The running code of contracts that exist at one address on every chain. */
interface CanonicalContracts {
  permit2: Hex
  multicall3: Hex
}

/** Base's chain id, so that a client signs the same as in production. */
export const DEVNET_CHAIN_ID = 8453

/** Production addresses on eip155:8453, at which the sandbox places its contracts. */
export const DEVNET_ADDRESSES = {
  usdc: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  permit2: '0x000000000022D473030F116dDEE9F6B43aC78BA3',
  uptoProxy: '0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002',
  multicall3: '0xcA11bde05977b3631167028862bE2a173976CA11',
} as const

/** Of the first block: Base's lowest base fee (docs.base.org, configuration changelog, 19 February 2026). */
const BASE_FEE_WEI = 5_000_000

/** Contracts depend only on the repository: only the very first start compiles them. */
const CONTRACTS_CACHE = fileURLToPath(new URL('../../../node_modules/.cache/farebox-contracts', import.meta.url))

/** How to start a devnet. */
export interface DevnetOptions {
  /** Caches compiled contracts and canonical code; by default one cache for the whole repository. */
  directory?: string
  /** A free port by default. */
  port?: number
  /** Keeps the chain between starts in this file and a few next to it; without it the chain is not kept. */
  stateFile?: string
  /** Mines a block at this interval; without it each transaction is mined immediately. */
  blockTimeSeconds?: number | undefined
  /** The number of the first block; default 0. */
  firstBlock?: number | undefined
  /** Receives anvil's output and notes about the state file, one line at a time. */
  log?: (line: string) => void
}

/** A running local chain. */
export type Devnet = Awaited<ReturnType<typeof startDevnet>>

/**
 * Starts a local chain that carries USDC, Permit2, the x402 upto proxy and Multicall3 at their production addresses.
 *
 * Anvil ends together with this process, even on SIGKILL.
 */
export async function startDevnet(options: DevnetOptions) {
  const { directory = CONTRACTS_CACHE, port, stateFile, blockTimeSeconds, firstBlock, log } = options
  const [contracts, canonical, resumed] = await Promise.all([
    compileContracts(directory),
    readCanonicalContracts(directory),
    stateFile === undefined ? false : recoverChainState(stateFile, log),
  ])
  const anvil = await startAnvil({
    port,
    log,
    args: [
      `--chain-id=${DEVNET_CHAIN_ID}`,
      // With all historical states, a call takes ten times longer after 500 blocks.
      '--prune-history=50',
      `--block-base-fee-per-gas=${BASE_FEE_WEI}`,
      // The default accounts have published keys, on which nothing in the sandbox may depend.
      '--accounts=0',
      ...(firstBlock === undefined ? [] : [`--number=${firstBlock}`]),
      ...(blockTimeSeconds === undefined ? [] : [`--block-time=${blockTimeSeconds}`]),
      ...(stateFile === undefined ? [] : ['--dump-state', exitStateFile(stateFile), '--state-interval', '31536000']),
      ...(stateFile !== undefined && resumed ? ['--load-state', stateFile] : []),
    ],
  })
  let waitForLastSave = noSave
  try {
    if (stateFile !== undefined) waitForLastSave = await keepChainState(anvil, stateFile)
    await placeContracts(anvil.rpcUrl, contracts, canonical)
  } catch (cause) {
    await anvil.stop()
    await waitForLastSave()
    throw cause
  }
  const stopWatching = watchStrandedTransactions(anvil.rpcUrl)
  anvil.exited.then(stopWatching, stopWatching)
  return {
    rpcUrl: anvil.rpcUrl,
    /** Anvil's own process id. */
    pid: anvil.pid,
    /** Whether the chain of an earlier run was resumed. */
    resumed,
    /** Resolves when anvil has ended, for any reason. */
    exited: anvil.exited,
    /** Saves a kept chain and stops anvil. Safe to repeat. */
    stop: async () => {
      stopWatching()
      // Writing the state of a long chain takes time.
      await anvil.stop({ signal: 'SIGTERM', graceMs: 15_000 })
      await waitForLastSave()
    },
  }
}

const noSave = (): Promise<void> => Promise.resolve()

const ZERO_WORD = numberToHex(0, { size: 32 })

/** Places the contracts, even on a resumed chain, so that a change to the stand-ins takes effect. */
async function placeContracts(
  rpcUrl: string,
  contracts: SandboxContracts,
  canonical: CanonicalContracts,
): Promise<void> {
  await Promise.all([
    callRpc(rpcUrl, 'anvil_setCode', [DEVNET_ADDRESSES.usdc, contracts.usdc.runtimeBytecode]),
    callRpc(rpcUrl, 'anvil_setCode', [DEVNET_ADDRESSES.uptoProxy, contracts.uptoProxy.runtimeBytecode]),
    // What the constructor of the published proxy leaves in its guard; a settlement's gas depends on it.
    callRpc(rpcUrl, 'anvil_setStorageAt', [DEVNET_ADDRESSES.uptoProxy, ZERO_WORD, numberToHex(1, { size: 32 })]),
    callRpc(rpcUrl, 'anvil_setCode', [DEVNET_ADDRESSES.permit2, canonical.permit2]),
    callRpc(rpcUrl, 'anvil_setCode', [DEVNET_ADDRESSES.multicall3, canonical.multicall3]),
  ])
}

/**
 * Returns the code of Permit2 and Multicall3 from `cacheDirectory`, or else from a short-lived anvil.
 *
 * Anvil's Tempo network has both at their canonical addresses, so no chain has to be reached and no source is needed. The
 * code works on any chain: Permit2 recomputes its domain separator when the chain id differs from that of its deployment.
 */
async function readCanonicalContracts(cacheDirectory: string): Promise<CanonicalContracts> {
  const { version } = createRequire(import.meta.url)('@foundry-rs/anvil/package.json') as { version: string }
  const cacheFile = `${cacheDirectory}/canonical-contracts-anvil-${version}.json`
  const cached = await readFile(cacheFile, 'utf8').catch(() => undefined)
  if (cached !== undefined) return JSON.parse(cached) as CanonicalContracts
  const contracts = await readFromTempo()
  // Without a writable cache, the next start repeats the work.
  await replaceFile(cacheFile, JSON.stringify(contracts)).catch(() => undefined)
  return contracts
}

async function readFromTempo(): Promise<CanonicalContracts> {
  const tempo = await startAnvil({ args: ['--network', 'tempo'] })
  try {
    const [permit2, multicall3] = await Promise.all([
      readCode(tempo.rpcUrl, DEVNET_ADDRESSES.permit2),
      readCode(tempo.rpcUrl, DEVNET_ADDRESSES.multicall3),
    ])
    return { permit2, multicall3 }
  } finally {
    await tempo.stop()
  }
}

async function readCode(rpcUrl: string, address: string): Promise<Hex> {
  const code = await callRpc<Hex>(rpcUrl, 'eth_getCode', [address, 'latest'])
  if (code === '0x') throw new Error(`This version of anvil has no code at ${address} on its Tempo network`)
  return code
}

/**
 * Mines transactions that anvil forgot, until the returned function is called.
 *
 * When anvil mines an account nonce while it adds the next one, the next one waits in the queue permanently for a
 * predecessor that is already mined, and every later nonce of the account waits behind it. Sending it again has no
 * effect ("already imported"). A real node promotes it with the next block.
 */
function watchStrandedTransactions(rpcUrl: string): () => void {
  let isLooking = false
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    resendStrandedTransactions(rpcUrl)
      // The chain has stopped, or answers again at the next look.
      .catch(() => undefined)
      .finally(() => {
        isLooking = false
      })
  }, LOOK_EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}

async function resendStrandedTransactions(rpcUrl: string): Promise<void> {
  const { queued } = await callRpc<{ queued: Hex }>(rpcUrl, 'txpool_status', [])
  if (Number(queued) === 0) return
  const pool = await callRpc<TransactionPool>(rpcUrl, 'txpool_content', [])
  for (const [sender, transactions] of Object.entries(pool.queued)) {
    const nonces = Object.keys(transactions).toSorted((one, other) => Number(one) - Number(other))
    const count = await callRpc<Hex>(rpcUrl, 'eth_getTransactionCount', [sender, 'latest'])
    // Otherwise a nonce is missing, and the queue is the right place.
    if (Number(nonces[0]) !== Number(count)) continue
    const hashes = nonces.map((nonce) => transactions[nonce]?.hash)
    const raws = await Promise.all(hashes.map((hash) => callRpc<Hex>(rpcUrl, 'eth_getRawTransactionByHash', [hash])))
    await callRpc(rpcUrl, 'anvil_removePoolTransactions', [sender])
    // Its sender may have sent one again in the meantime, which anvil refuses. The others must not be lost with it.
    for (const raw of raws) await callRpc(rpcUrl, 'eth_sendRawTransaction', [raw]).catch(() => undefined)
  }
}
