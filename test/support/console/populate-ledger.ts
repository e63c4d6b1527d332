import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { sandboxDeployments, UPSTREAM_KEY } from '../../../infra/sandbox/deployments.ts'
import { writeHistory } from '../ledger/history/write-history.ts'
import { jobInState } from '../ledger/job-in-state.ts'
import { NETWORK } from '../ledger/test-authorization.ts'
import type { TestLedger } from '../ledger/test-ledger.ts'

/** The states that a worker leaves alone. */
const ENDED: readonly JobState[] = ['completed', 'failed', 'settlement_failed', 'review']
const OPEN: readonly JobState[] = ['accepted', 'generating', 'generated', 'settling']

const AUTHOR = { operator: 'populate', source: 'command' } as const

export interface Population {
  /** Of 10,000 calls, some fail and some need review; fewer are all completed. */
  readonly calls: number
  /** Adds a job in each state that only a worker would move on, for consoles without a worker. */
  readonly withOpenJobs: boolean
}

/** Fills an empty ledger with two weeks of calls, a job in each state and an open item of each kind. */
export async function populateLedger(ledger: TestLedger, { calls, withOpenJobs }: Population): Promise<void> {
  await writeHistory(ledger.url, { calls, days: 14, payers: 40 })
  for (const state of [...ENDED, ...(withOpenJobs ? OPEN : [])]) await jobInState(ledger, state)
  const [removed, paidLate, owed] = await Promise.all(
    (['completed', 'settlement_failed', 'settlement_failed'] as const).map((state) => jobInState(ledger, state)),
  )
  await ledger.sql(
    `UPDATE settlements SET state = 'lost', failure_reason = 'a reorganization removed it', finalized_at = NULL
     WHERE job_id = $1`,
    [removed?.id],
  )
  await ledger.sql(
    `UPDATE settlements SET state = 'surplus', failure_reason = 'a later payment had settled the job',
       transaction_hash = '0x' || repeat('5a', 32), block_number = 5, finished_at = now(), finalized_at = NULL
     WHERE job_id = $1`,
    [paidLate?.id],
  )
  await ledger.sql('UPDATE jobs SET is_owed = true WHERE id = $1', [owed?.id])
  await ledger.sql(
    `INSERT INTO unknown_settlements
       (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number, amount, request_id)
     VALUES ($1, '0x' || repeat('7e', 20), 77, '0x' || repeat('11', 20), 5034, '0x' || repeat('6b', 32), 6, 5034,
       gen_random_uuid())`,
    [NETWORK],
  )
}

/** Publishes the sandbox's deployments, begins a draft of each kind, drains a deployment, pauses a queue and blocks the payer of the oldest review. */
export async function populateConfiguration({ pool }: Pick<TestLedger, 'pool'>, upstreamUrl: string): Promise<void> {
  const [configuration, controls] = [createConfigurationStore(pool), createControlStore(pool)]
  const deployments = sandboxDeployments({
    upstreamUrl,
    apiKeyEnv: UPSTREAM_KEY,
    models: publishedCatalog.models,
    voices: publishedCatalog.voices.map(({ id }) => id),
  })
  const [first = { name: '' }] = deployments.deployments
  const reason = 'An example'
  for (const [kind, content] of [
    ['deployments', deployments as unknown as JsonValue],
    ['catalog', { models: {} }],
  ] as const) {
    const { number: basedOn } = await configuration.importFile(AUTHOR, { kind, content, reason })
    await configuration.saveDraft(AUTHOR, { kind, content, edited: null, basedOn })
  }
  await controls.controlDeployment(AUTHOR, { deployment: first.name, isDrained: true, reason })
  await controls.controlQueue(AUTHOR, { queue: 'images', isPaused: true, reason })
  const { rows } = await pool.query<{ payer: string }>(
    "SELECT payer FROM jobs WHERE state = 'review' ORDER BY finished_at LIMIT 1",
  )
  for (const { payer } of rows) await controls.controlPayer(AUTHOR, { payer, isBlocked: true, until: null, reason })
}
