import { openChain } from '#shared/chain/network/open-chain.ts'
import { createListedKeys } from '#shared/chain/settlement-contract/listed-keys.ts'
import { readProcesses } from '#shared/ledger/configuration/process-report-store.ts'
import { createKeyRotationStore } from '#shared/ledger/operators/key-rotations.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { readKeyUse } from '#shared/ledger/reports/key-use.ts'
import type { KeyRotation } from '#shared/operators/key-rotation.ts'
import { isRunning, type SeenProcess } from '#shared/operators/process-report.ts'
import { apisOf, contractsOf, type KeyFacts, keysInUse, settlersOf } from './facts.ts'
import type { KeysOptions } from './options.ts'

/** Reads what is known about keys from processes, ledger and chain. */
export async function readFacts(
  sql: Sql,
  options: Pick<KeysOptions, 'rpcUrls' | 'rpcTimeoutMs' | 'challengeLifetimeSeconds'>,
  now: Date,
): Promise<KeyFacts> {
  const rotations = await createKeyRotationStore(sql).readRotations()
  const processes = (await readProcesses(sql)).filter((seen) => isRunning(seen, now))
  return {
    now,
    processes,
    rotations,
    use: await readKeyUse(sql),
    ...(await readChain(settlementKeysOf(processes, rotations), contractsOf({ processes }), options)),
    challengeSeconds: options.challengeLifetimeSeconds,
  }
}

function settlementKeysOf(processes: readonly SeenProcess[], rotations: readonly KeyRotation[]): readonly string[] {
  const replaced = rotations.filter(({ kind }) => kind === 'settlement')
  return [
    ...new Set([
      ...keysInUse(apisOf({ processes }), 'FACILITATOR_ADDRESSES'),
      ...keysInUse(settlersOf({ processes }), 'SETTLEMENT_PRIVATE_KEYS'),
      ...replaced.flatMap(({ newKey, oldKey }) => [newKey, oldKey]),
    ]),
  ]
}

async function readChain(
  keys: readonly string[],
  contracts: readonly string[],
  { rpcUrls, rpcTimeoutMs }: Pick<KeysOptions, 'rpcUrls' | 'rpcTimeoutMs'>,
): Promise<Pick<KeyFacts, 'gasWei' | 'listedKeys'>> {
  if (rpcUrls === null) return { gasWei: null, listedKeys: null }
  const { chain } = await openChain({ RPC_URL: rpcUrls, RPC_TIMEOUT_MS: rpcTimeoutMs })
  const lists = createListedKeys(chain, keys as Hex[])
  const [gas, listed] = await Promise.all([
    Promise.all(keys.map(async (key) => [key, await chain.getBalance({ address: key as Hex })] as const)),
    Promise.all(contracts.map(async (contract) => [contract, await lists.read(contract as Hex)] as const)),
  ])
  return { gasWei: Object.fromEntries(gas), listedKeys: Object.fromEntries(listed) }
}

type Hex = `0x${string}`
