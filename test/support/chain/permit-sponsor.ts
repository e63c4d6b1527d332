import { createAllowanceReader, type PermitSimulation } from '#shared/chain/allowance/allowance-reader.ts'
import { createPermitSubmitter } from '#shared/chain/allowance/permit-submitter.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBlockReader } from '#shared/chain/reading/block-reader.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { AllowanceOutcome } from '#shared/ledger/allowances/request-allowance.ts'
import type { SponsoringLimits } from '#shared/ledger/allowances/sponsoring-limits.ts'
import {
  type AllowanceDependencies,
  createAllowanceRunner,
  watchAllowanceFinality,
} from '../../../workers/allowances/run-allowances.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { RequestedPermit } from '../payer/allowance-permit.ts'
import type { TestWorker } from '../processes/test-worker.ts'
import type { SettlementChain } from './settlement-chain.ts'

/** A row of the ledger as tests read it. */
export interface PermitRow {
  readonly state: string
  readonly failure_code: string | null
  readonly failure_reason: string | null
  readonly transaction_hash: `0x${string}` | null
  readonly account_nonce: number | null
  readonly gas_used: number | null
  readonly gas_wei: string | null
  readonly gas_cost: number | null
  readonly reserved_gas_wei: string
  readonly is_final: boolean
  readonly block_hash: string | null
  /** Of all transactions that submit it, oldest first. */
  readonly hashes: readonly `0x${string}`[]
}

/** Sponsors permits with the key of a settlement chain, through the worker's fault proxy. */
export interface PermitSponsor {
  readonly dependencies: AllowanceDependencies
  /** Simulates a permit as the API does. */
  simulate(permit: RequestedPermit): Promise<PermitSimulation>
  /** Stores a permit with limits that forbid nothing, but for `changes`. Returns its id. */
  request(permit: RequestedPermit, changes?: Partial<SponsoringLimits>): Promise<string>
  /** Works on everything that is due until nothing is left to do now. */
  run(changes?: Partial<AllowanceDependencies>): Promise<void>
  /** Runs as a process that is killed at the port call that throws `killed`, and lets its lease expire. */
  runKilled(changes: Partial<AllowanceDependencies>): Promise<void>
  /** Makes everything that is open due now. */
  makeDue(): Promise<void>
  /** Runs the finality watch once. */
  watch(): Promise<number>
  outcome(allowanceId: string): Promise<AllowanceOutcome | undefined>
  row(allowanceId: string): Promise<PermitRow>
}

/** The most that a permit costs on the devnet, several times over: a stuck one may be replaced. */
const RESERVED_WEI = 10n ** 16n

export function createPermitSponsor(worker: TestWorker, chain: SettlementChain): PermitSponsor {
  const { allowances: store, settlement: settlementStore } = worker.ledger
  const { logger } = worker.dependencies
  const client = createChainClient(worker.proxy.url, PATIENCE_MS)
  const estimateFees = createFeeEstimator(client)
  const allowances = createAllowanceReader(client, estimateFees)
  const dependencies: AllowanceDependencies = {
    allowanceStore: store,
    settlementStore,
    allowances,
    permits: createPermitSubmitter(client, [chain.privateKey], { estimateFees }),
    accounts: createSettlementAccounts(client, 8453, [chain.privateKey], { estimateFees }),
    gas: chain.chain.gas,
    gasWarningSettlements: 1,
    blockWatch: chain.chain.blockWatch,
    leaseMs: PATIENCE_MS,
    // A chain whose answers a test changes is asked often.
    unaskedMs: 50,
    evidenceAfterMs: 200,
    logger,
  }
  const run = async (changes: Partial<AllowanceDependencies> = {}) => {
    const runner = createAllowanceRunner({ ...dependencies, ...changes })
    await runner.sweep.run()
    await runner.settled()
  }
  const makeDue = async () => {
    await worker.ledger.sql(
      `UPDATE sponsored_permits SET run_after = now(), lease_expires_at = now() - interval '1 second'
       WHERE state IN ('requested', 'signed')`,
    )
  }
  return {
    dependencies,
    simulate: (permit) => allowances.simulatePermit(permit, [chain.facilitator]),
    request: async (permit, changes) => {
      const requested = await store.requestAllowance(permit, {
        perOwnerSeconds: 86_400,
        dailyGasWei: 10n ** 24n,
        reservedGasWei: RESERVED_WEI,
        expectedGasWei: RESERVED_WEI,
        clientNetwork: null,
        minimumBalance: 100_000n,
        ...changes,
      })
      if (!('allowanceId' in requested)) throw new Error(requested.outcome)
      return requested.allowanceId
    },
    run,
    runKilled: async (changes) => {
      await run(changes)
      await makeDue()
    },
    makeDue,
    watch: () => watchAllowanceFinality({ allowanceStore: store, blocks: createBlockReader(client), logger }).run(),
    outcome: async (allowanceId) => (await store.readAllowanceOutcomes([allowanceId])).get(allowanceId),
    row: async (allowanceId) => {
      const [row] = await worker.ledger.sql<PermitRow>(
        `SELECT state, failure_code, failure_reason, transaction_hash, account_nonce::int, gas_used::int, gas_wei,
           gas_cost::int, reserved_gas_wei, finalized_at IS NOT NULL AS is_final, block_hash,
           ARRAY(SELECT hash FROM settlement_transactions WHERE sponsored_permit_id = sponsored_permits.id
             ORDER BY signed_at) AS hashes
         FROM sponsored_permits WHERE id = $1`,
        [allowanceId],
      )
      if (!row) throw new Error(`no permit ${allowanceId}`)
      return row
    },
  }
}
