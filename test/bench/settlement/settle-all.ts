import { setTimeout as delay } from 'node:timers/promises'
import { privateKeyToAccount } from 'viem/accounts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createSettlementAccounts } from '#shared/adapters/chain/settlement-accounts.ts'
import { createSettler } from '#shared/adapters/chain/settler.ts'
import { createSettlementStore } from '#shared/adapters/postgres/stores.ts'
import { paymentPayload, paymentRequirements } from '#shared/adapters/remote-facilitator/payment-messages.ts'
import { queueNames } from '#shared/jobs/job-queue.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { noTracing } from '#shared/runtime/tracing.ts'
import { type RunJobDependencies, runJob } from '../../../workers/job/run-job.ts'
import { replaceStuckTransactions } from '../../../workers/settlement/own-keys/replace-stuck-transactions.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/settlement-steps.ts'
import { startSweepers } from '../../../workers/sweepers/sweeper.ts'
import { createSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { jobInState, newTestJob, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { inParallel } from '../measuring/in-parallel.ts'
import type { FreshChain } from './fresh-chain.ts'

const CHAIN_ID = 8453
/** Where a settlement that is not through by then is counted as stuck. */
const GIVE_UP_MS = 90_000
const SWEEP_MS = 1000
/** As in the sandbox, whose chain leaves a transaction in its queue about once in 10,000 sends. */
const FEE_BUMP_AFTER_MS = 3000

const log = () => undefined
const silent: Logger = { info: log, warn: log, error: log }

/** How many ended in which way; a state of ours or an errorReason of the SDK. */
export type Outcomes = Readonly<Record<string, number>>

/** Everything that is to be settled, and the act. Preparation is not measured. */
export interface Contestant {
  readonly name: string
  readonly settleAll: (concurrency: number) => Promise<Outcomes>
}

/**
 * The whole durable path of a worker over jobs whose results are sealed, with the keeper of its account nonces: nothing of it is
 * left out but the queue.
 */
export async function prepareOurs(
  ledger: TestLedger,
  chain: FreshChain,
  authorizations: readonly Authorization[],
): Promise<Contestant> {
  const jobIds: string[] = []
  await inParallel(authorizations, 8, async (authorization, index) => {
    const job = await jobInState(ledger, 'generated', newTestJob({ authorization }))
    await ledger.execution.releaseJob(job, 0)
    jobIds[index] = job.id
  })
  const client = createChainClient(chain.devnet.rpcUrl)
  const settling = { store: ledger.execution, logger: silent, now: () => new Date(), receiptSecretId: 'first' }
  const settler = createSettler(client, CHAIN_ID, chain.keys)
  const keeping = {
    settlements: createSettlementStore(ledger.pool),
    accounts: createSettlementAccounts(client, CHAIN_ID, chain.keys),
    network: `eip155:${CHAIN_ID}`,
    feeBumpAfterMs: FEE_BUMP_AFTER_MS,
    logger: silent,
  }
  // Of a generated job only the settlementSteps and the ledger are used.
  const dependencies = {
    ...settling,
    serves: new Set(queueNames),
    held: new Set(),
    verifier: createAuthorizationVerifier(client, CHAIN_ID),
    settlementSteps: createOwnKeySettlement({ ...settling, settler }),
    tracer: noTracing,
    leaseMs: 15_000,
  } as unknown as RunJobDependencies
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
      // What was put off comes back through the sweepers; here it is asked for by hand.
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

/** The SDK's facilitator in this process, with nothing around it: no ledger, no HTTP. */
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
        const answer = await Promise.race([settling, afterwards(stuck.signal)])
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

function afterwards(signal: AbortSignal): Promise<'stuck'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('stuck')
    else signal.addEventListener('abort', () => resolve('stuck'), { once: true })
  })
}
