import { setTimeout as delay } from 'node:timers/promises'
import { privateKeyToAccount } from 'viem/accounts'
import { paymentPayload, paymentRequirements } from '#shared/adapters/remote-facilitator/payment-messages.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBlockReader } from '#shared/chain/reading/block-reader.ts'
import { createBlockWatch } from '#shared/chain/reading/block-watch.ts'
import { createLatestBlock } from '#shared/chain/reading/latest-block.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { createSettler, type VerifySettlement } from '#shared/chain/settlement/settler.ts'
import { createSettlementVerification } from '#shared/chain/verification/settlement-verification.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { noTracing } from '#shared/runtime/tracing.ts'
import type { JobDependencies } from '../../../workers/job/dependencies.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { runJob } from '../../../workers/job/run-job.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { replaceStuckTransactions } from '../../../workers/settlement/own-keys/replace-stuck-transactions.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-with-key.ts'
import { startSweepers } from '../../../workers/sweepers/sweeper.ts'
import { createSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { type TestLedger } from '../../support/ledger/test-ledger.ts'
import { inParallel } from '../measuring/in-parallel.ts'
import type { FreshChain } from './fresh-chain.ts'

const CHAIN_ID = 8453
/** A settlement that takes longer counts as stuck. */
const GIVE_UP_MS = 90_000
const SWEEP_MS = 1000
const LEASE_MS = 15_000
/** As in the sandbox, whose chain leaves a transaction in its pool about once in 10,000 sends. */
const FEE_BUMP_AFTER_MS = 3000

const log = () => undefined
const silent: Logger = { info: log, warn: log, error: log }

/** The default of a worker. */
const MAXIMUM_BATCH_GAS = 16_000_000n

/** The number of settlements by outcome: a job's state, or the SDK's errorReason. */
export type Outcomes = Readonly<Record<string, number>>

/**
 * What a job with a sealed result uses: all but what only a provider call needs. A dependency that is added has to be given
 * here or left out by name, or this does not compile.
 */
type SettlingDependencies = Omit<
  JobDependencies,
  | 'memory'
  | 'uploads'
  | 'media'
  | 'checkObjects'
  | 'publicBaseUrl'
  | 'executionOf'
  | 'screener'
  | 'router'
  | 'recallRemoved'
  | 'verifier'
  | 'payerFunds'
  | 'chainClock'
  | 'gas'
  | 'providerTimeoutMs'
  | 'outputTokensPerSecond'
  | 'settlementMarginMs'
  | 'now'
>

/** Prepared settlements and the function that performs them. Preparation is not measured. */
export interface Contestant {
  readonly name: string
  readonly settleAll: (concurrency: number) => Promise<Outcomes>
}

/**
 * Prepares the whole durable path of a worker, without the queue, over jobs whose results are sealed, including the
 * replacement of stuck transactions.
 */
export async function prepareOurs(
  ledger: TestLedger,
  chain: FreshChain,
  authorizations: readonly Authorization[],
): Promise<Contestant> {
  const jobIds: string[] = []
  await inParallel(authorizations, 8, async (authorization, index) => {
    const job = await jobInState(ledger, 'generated', newTestJob({ authorization }))
    await ledger.execution.releaseJob(job)
    jobIds[index] = job.id
  })
  const client = createChainClient(chain.devnet.rpcUrl)
  const settling = {
    settlementStore: ledger.settlement,
    logger: silent,
    now: () => new Date(),
    receiptSecretId: 'first',
  }
  const latest = createLatestBlock(client)
  const estimateFees = createFeeEstimator(client)
  const settlements = createSettlementVerification(client, {
    contract: chain.contract,
    readFees: estimateFees,
  })
  const verify: VerifySettlement = (...charge) => settlements.verify(...charge)
  const settler = createSettler(client, CHAIN_ID, chain.keys, { latest, verify })
  const blockWatch = createBlockWatch(latest)
  const { execution: executionStore } = ledger
  const keeping = {
    settlementStore: ledger.settlement,
    settler,
    blocks: createBlockReader(client),
    gas: createGasReader(client, estimateFees),
    nativeTokenUsd: 3000,
    accounts: createSettlementAccounts(client, CHAIN_ID, chain.keys),
    network: `eip155:${CHAIN_ID}`,
    feeBumpAfterMs: FEE_BUMP_AFTER_MS,
    logger: silent,
  }
  const batches = gatherBatches({
    ...settling,
    settler,
    accounts: keeping.accounts,
    blockWatch,
    maximumBatchGas: MAXIMUM_BATCH_GAS,
  })
  const settlingDependencies: SettlingDependencies = {
    settlementStore: ledger.settlement,
    executionStore,
    settlementSteps: createOwnKeySettlement({ ...settling, settler, blockWatch, batches }),
    longestDeferralMs: { fail: GIVE_UP_MS, owe: GIVE_UP_MS, withhold: GIVE_UP_MS, review: GIVE_UP_MS },
    queue: { enqueue: () => Promise.reject(new Error('every queue is served here')) },
    serves: new Set(QUEUE_NAMES),
    pausedQueues: new Set(),
    leases: createJobLeases({ executionStore, leaseMs: LEASE_MS, logger: silent }),
    leaseMs: LEASE_MS,
    logger: silent,
    tracer: noTracing,
  }
  const dependencies = settlingDependencies as JobDependencies
  return {
    name: 'ours',
    settleAll: async (concurrency) => {
      let replacements = 0
      const onReplacement = () => (replacements += 1)
      const keeper = startSweepers(
        [replaceStuckTransactions({ ...keeping, onUsedElsewhere: () => undefined, onReplacement })],
        SWEEP_MS,
        silent,
      )
      const giveUpAt = performance.now() + GIVE_UP_MS
      await inParallel(jobIds, concurrency, async (jobId) => {
        await runJob(dependencies, jobId)
      })
      // The sweepers would return deferred jobs to the queue; here they are run directly.
      for (;;) {
        const open = await ledger.sql<{ id: string }>(
          "SELECT id FROM jobs WHERE state IN ('generated', 'settling') AND id = ANY($1)",
          [jobIds],
        )
        if (open.length === 0 || performance.now() > giveUpAt) break
        await inParallel(open, concurrency, async ({ id }) => runJob(dependencies, id))
        await delay(100)
      }
      await keeper.stop()
      const rows = await ledger.sql<{ state: string; count: string }>(
        'SELECT state, count(*) FROM jobs WHERE id = ANY($1) GROUP BY state',
        [jobIds],
      )
      const outcomes = Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)]))
      return replacements === 0 ? outcomes : { ...outcomes, 'fee replacements': replacements }
    },
  }
}

/** Prepares the SDK's facilitator in this process, without ledger and HTTP. */
export function prepareSdk(chain: FreshChain, authorizations: readonly Authorization[]): Contestant {
  const facilitators = new Map(
    chain.keys.map((key) => [
      privateKeyToAccount(key).address.toLowerCase(),
      createSdkFacilitator(chain.devnet.rpcUrl, key),
    ]),
  )
  return {
    name: 'SDK',
    settleAll: async (concurrency) => {
      const outcomes: Record<string, number> = {}
      const count = (outcome: string) => {
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      }
      const stuck = new AbortController()
      const settled = inParallel(authorizations, concurrency, async (authorization) => {
        const facilitator = facilitators.get(authorization.facilitator)
        if (!facilitator) throw new Error(`no facilitator ${authorization.facilitator}`)
        const requirements = paymentRequirements(authorization, authorization.authorizedMaximum)
        const settling = facilitator.settle(paymentPayload(authorization), requirements)
        const answer = await Promise.race([settling, untilAborted(stuck.signal)])
        if (answer === 'stuck') count('stuck')
        else if (answer.success) count('completed')
        else count((answer.errorReason ?? 'failed').slice(0, 60))
      })
      const timer = setTimeout(() => stuck.abort(), GIVE_UP_MS)
      await settled
      clearTimeout(timer)
      return outcomes
    },
  }
}

function untilAborted(signal: AbortSignal): Promise<'stuck'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('stuck')
    else signal.addEventListener('abort', () => resolve('stuck'), { once: true })
  })
}
