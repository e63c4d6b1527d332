import { toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, vi } from 'vitest'
import { createBlockReader } from '#shared/adapters/chain/block-reader.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createFeeEstimator } from '#shared/adapters/chain/fee-estimator.ts'
import { createSettlementAccounts } from '#shared/adapters/chain/settlement-accounts.ts'
import { createSettlementStore } from '#shared/adapters/postgres/stores.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import {
  type KeeperDependencies,
  replaceStuckTransactions,
} from '../../../workers/settlement/own-keys/replace-stuck-transactions.ts'
import { watchFinality } from '../../../workers/settlement/own-keys/watch-finality.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { AuthorizationChanges } from '../payer/chain-payer.ts'
import type { AcceptedJob, TestWorker, TestWorkerDependencies } from '../processes/test-worker.ts'
import { until } from '../until.ts'

type Hex = `0x${string}`

/** A settlement key of one test's own, with the sweeps that look after its line. */
export interface SettlementChain {
  readonly privateKey: Hex
  readonly facilitator: Hex
  readonly chain: Pick<TestWorkerDependencies, 'verifier' | 'settler' | 'chainClock' | 'gas'>
  /** One round of the nonce keeper; gives how much it moved. */
  keep(changes?: Partial<KeeperDependencies>): Promise<number>
  /** One round of the finality watcher. */
  watch(): Promise<number>
  accept(signed?: AuthorizationChanges): Promise<AcceptedJob>
  /** Sends something else with the settlement key, as somebody who has it too would; it is mined unless mining is off. */
  useNonceElsewhere(nonce: number): Promise<void>
  /** Stores a replacement of a transaction, with a higher fee; nobody sends it. */
  signReplacement(hash: Hex): Promise<void>
  /** Waits until a transaction is mined: anvil answers a moment before. */
  untilMined(hash: Hex): Promise<void>
  /** How many account nonces the chain has used. */
  count(): Promise<number>
  /** All hashes that were signed for a job, oldest first. */
  hashes(jobId: string): Promise<Hex[]>
  rpc<T = unknown>(method: string, ...parameters: unknown[]): Promise<T>
}

const NETWORK = 'eip155:8453'
/** Far longer than any test takes, so that only {@link age} makes a transaction late. */
const FEE_BUMP_AFTER_MS = 3_600_000

/** A key with 1 ETH behind the worker's own proxy. */
export async function createSettlementChain(worker: TestWorker): Promise<SettlementChain> {
  const { rpcUrl, client } = worker.devnet
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  const facilitator = account.address.toLowerCase() as Hex
  const rpc = <T = unknown>(method: string, ...parameters: unknown[]) => callRpc<T>(rpcUrl, method, parameters)
  await rpc('anvil_setBalance', facilitator, toHex(10n ** 18n))
  const count = () => client.getTransactionCount({ address: facilitator })
  const through = createChainClient(worker.proxy.url, PATIENCE_MS)
  const chain = worker.through(worker.proxy, privateKey)
  const settlements = createSettlementStore(worker.ledger.pool)
  const { logger } = worker.dependencies
  const watcher = watchFinality({ settlements, blocks: createBlockReader(through), settler: chain.settler, logger })
  return {
    privateKey,
    facilitator,
    chain,
    keep: (changes = {}) =>
      replaceStuckTransactions({
        settlements,
        // No estimate is kept from one round to the next: tests change the base fee in between.
        accounts: createSettlementAccounts(through, 8453, [privateKey], { estimateFees: createFeeEstimator(through) }),
        network: NETWORK,
        feeBumpAfterMs: FEE_BUMP_AFTER_MS,
        onReplacement: () => undefined,
        onUsedElsewhere: () => undefined,
        logger,
        ...changes,
      }).run(),
    watch: () => watcher.run(),
    accept: (signed) => worker.accept({ signed: { facilitator, ...signed } }),
    useNonceElsewhere: async (nonce) => {
      const raw = await account.signTransaction({
        type: 'eip1559',
        chainId: 8453,
        nonce,
        gas: 21_000n,
        to: facilitator,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 10n ** 10n,
      })
      await rpc('eth_sendRawTransaction', raw)
      if (await rpc<boolean>('anvil_getAutomine')) await until(async () => (await count()) > nonce)
    },
    signReplacement: async (hash) => {
      const [row] = await worker.ledger.sql<{ raw: Hex }>(
        'SELECT raw_transaction AS raw FROM settlement_transactions WHERE hash = $1',
        [hash],
      )
      if (!row) throw new Error(`nothing is signed as ${hash}`)
      const replacement = await createSettlementAccounts(through, 8453, [privateKey]).replace(facilitator, row.raw)
      if (!replacement) throw new Error('no higher fee is allowed')
      await settlements.addReplacement(hash, replacement)
    },
    untilMined: async (hash) => {
      await client.waitForTransactionReceipt({ hash })
    },
    count,
    hashes: async (jobId) => {
      const rows = await worker.ledger.sql<{ hash: Hex }>(
        `SELECT hash FROM settlement_transactions JOIN settlements ON settlements.id = settlement_id
         WHERE job_id = $1 ORDER BY settlement_transactions.signed_at`,
        [jobId],
      )
      return rows.map(({ hash }) => hash)
    },
    rpc,
  }
}

/**
 * Stops the clock by which workers of this process watch the chain and keep what they read of it, for all tests of a file.
 * Returns what lets time pass.
 */
export function stopChainWatch(): (milliseconds: number) => void {
  let now = performance.now()
  let clock: { mockRestore(): void } | undefined
  beforeAll(() => {
    clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  })
  afterAll(() => clock?.mockRestore())
  return (milliseconds) => {
    now += milliseconds
  }
}

/** How a head that is due for a higher fee is aged. */
export const LATE_SECONDS = FEE_BUMP_AFTER_MS / 1000 + 1

/** Makes the ledger see this much time gone by for a key's line, instead of waiting. */
export async function age(worker: TestWorker, facilitator: Hex, seconds: number): Promise<void> {
  const parameters = [facilitator, seconds]
  await worker.ledger.sql(
    'UPDATE settlement_accounts SET head_since = head_since - make_interval(secs => $2) WHERE facilitator = $1',
    parameters,
  )
  await worker.ledger.sql(
    'UPDATE settlement_transactions SET signed_at = signed_at - make_interval(secs => $2) WHERE facilitator = $1',
    parameters,
  )
}
