import { fileURLToPath } from 'node:url'
import { numberToHex } from 'viem'
import type { ProcessExit } from '../processes/guarded-process.ts'
import { startAnvil } from './anvil.ts'
import {
  type CanonicalContracts,
  MULTICALL3_ADDRESS,
  PERMIT2_ADDRESS,
  readCanonicalContracts,
} from './canonical-contracts.ts'
import { exitStateFile, keepChainState, recoverChainState } from './chain-state.ts'
import { compileContracts, type SandboxContracts } from './contracts/compile.ts'
import { callRpc } from './json-rpc.ts'
import { watchStrandedTransactions } from './stranded-transactions.ts'

/** Base's chain id, so that a client signs the same as in production. */
export const DEVNET_CHAIN_ID = 8453

/** Production addresses on eip155:8453, at which the sandbox places its contracts. */
export const DEVNET_ADDRESSES = {
  usdc: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  permit2: PERMIT2_ADDRESS,
  uptoProxy: '0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002',
  multicall3: MULTICALL3_ADDRESS,
} as const

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
  blockTimeSeconds?: number
  /** The number of the first block; default 0. */
  firstBlock?: number
  /** Receives anvil's output and notes about the state file, one line at a time. */
  log?: (line: string) => void
}

/** A running local chain. */
export interface Devnet {
  rpcUrl: string
  /** Anvil's own process id. */
  pid: number
  /** Whether the chain of an earlier run was resumed. */
  resumed: boolean
  /** Saves a kept chain and stops anvil. Safe to repeat. */
  stop: () => Promise<void>
  /** Resolves when anvil has ended, for any reason. */
  exited: Promise<ProcessExit>
}

/**
 * Starts a local chain that carries USDC, Permit2, the x402 upto proxy and Multicall3 at their production addresses.
 *
 * Anvil ends together with this process, even on SIGKILL.
 */
export async function startDevnet(options: DevnetOptions): Promise<Devnet> {
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
    pid: anvil.pid,
    resumed,
    exited: anvil.exited,
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
