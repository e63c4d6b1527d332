import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createSettler } from '#shared/adapters/chain/settlement/settler.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { createJobPlaces, type JobPlaces } from '../../../workers/job/job-places.ts'
import { handBackJobs } from '../../../workers/job/run-job.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/gather-batches.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-charge.ts'
import { endLostCalls } from '../../../workers/sweepers/end-lost-calls.ts'
import { createSettlementChain, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { startTestWorker, type TestWorker, type TestWorkerDependencies } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

let worker: TestWorker
let chain: SettlementChain
let places: JobPlaces
beforeAll(async () => {
  worker = await startTestWorker()
})
beforeEach(async () => {
  chain = await createSettlementChain(worker)
  places = createJobPlaces(worker.dependencies.logger)
})
afterEach(async () => {
  worker.proxy.setFault(null)
  await chain.rpc('evm_setAutomine', true)
})
afterAll(() => worker.stop())

const mine = (blocks = 1) => chain.rpc('anvil_mine', `0x${blocks.toString(16)}`)
const stateOf = async (jobId: string) => (await worker.view(jobId)).state

async function blockOf(jobId: string): Promise<{ number: string; hash: string }> {
  const [row] = await worker.ledger.sql<{ number: string; hash: string }>(
    'SELECT block_number AS number, block_hash AS hash FROM settlements WHERE job_id = $1',
    [jobId],
  )
  if (!row) throw new Error(`job ${jobId} has no settlement`)
  return row
}

/** Returns the dependencies of a worker that asks for no receipt unless a block brings news of it. */
function asking(changes: Partial<TestWorkerDependencies> = {}): TestWorkerDependencies {
  const dependencies = { ...worker.dependencies, ...chain.chain, unaskedMs: PATIENCE_MS, ...changes }
  // One limit of reads for all settlements, as in a process.
  const batches = gatherBatches(dependencies)
  return { ...dependencies, settlementSteps: createOwnKeySettlement({ ...dependencies, batches }) }
}

/** Creates jobs whose settlements are sent, one after the other, on a chain that mines only when it is told to. */
async function waitingJobs(count: number, dependencies = asking()): Promise<string[]> {
  const jobs: string[] = []
  while (jobs.length < count) jobs.push((await chain.accept()).jobId)
  await chain.rpc('evm_setAutomine', false)
  for (const jobId of jobs) {
    await places.run((releasePlace) => worker.run(jobId, dependencies, releasePlace))
    expect(await worker.view(jobId)).toMatchObject({ state: 'settling', leased: true })
  }
  return jobs
}

describe('settlements that wait for a block', () => {
  it('give up their place, so that jobs which run one after the other are settled in the same block', async () => {
    const [one = '', other = ''] = await waitingJobs(2)
    await mine()
    for (const jobId of [one, other]) await expect.poll(() => stateOf(jobId)).toBe('completed')
    expect(await blockOf(one)).toEqual(await blockOf(other))
    await places.drain(PATIENCE_MS)
  })

  it('share one poll of the chain, and each reads one receipt', async () => {
    const jobs = await waitingJobs(5)
    const held = Promise.withResolvers<void>()
    const before = worker.proxy.calls.length
    worker.proxy.setFault({ kind: 'held', until: held.promise }, 'eth_getBlockByNumber')
    await until(() => worker.proxy.calls.length > before)
    // No other poll starts while one has no answer.
    await mine()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(worker.proxy.calls.slice(before)).toEqual(['eth_getBlockByNumber'])
    worker.proxy.setFault(null)
    held.resolve()
    for (const jobId of jobs) await expect.poll(() => stateOf(jobId)).toBe('completed')
    const receipts = worker.proxy.calls.slice(before).filter((method) => method === 'eth_getTransactionReceipt')
    expect(receipts).toHaveLength(jobs.length)
  })

  it('are handed back by a worker that stops, and completed by the next one', async () => {
    const enqueued: string[] = []
    const dependencies = asking({
      serves: new Set(QUEUE_NAMES),
      leases: createJobLeases(worker.dependencies),
      queue: { enqueue: async (jobId) => void enqueued.push(jobId) },
    })
    const { leases = createJobLeases(dependencies) } = dependencies
    const jobs = await waitingJobs(2, dependencies)
    await places.drain(1)
    await handBackJobs({ ...dependencies, leases })
    expect(enqueued.toSorted()).toEqual(jobs.toSorted())
    for (const jobId of jobs) expect(await worker.view(jobId)).toMatchObject({ state: 'settling', leased: false })
    const next = jobs.map((jobId) => worker.run(jobId, asking()))
    await mine()
    await Promise.all(next)
    for (const jobId of jobs)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    // The first worker sees the block as well and writes nothing.
    await places.drain(PATIENCE_MS)
  })

  it('are left alone by a worker that has lost their lease', async () => {
    const [jobId = ''] = await waitingJobs(1, asking({ leaseMs: 600 }))
    await worker.ledger.sql(
      "UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + interval '1 hour' WHERE id = $1",
      [jobId],
    )
    const before = await worker.ledger.fingerprint()
    // Ends although nothing is mined and no time limit has passed.
    await places.drain(PATIENCE_MS)
    await mine()
    expect(await worker.ledger.fingerprint()).toBe(before)
  })

  it('complete in the block that is final when a reorganization removes their first one', async () => {
    const client = createChainClient(worker.proxy.url, PATIENCE_MS)
    const settler = createSettler(client, 8453, [chain.privateKey], { confirmations: 2 })
    const [jobId = ''] = await waitingJobs(1, asking({ settler }))
    const [hash] = await chain.hashes(jobId)
    const raw = await chain.rpc<string>('eth_getRawTransactionByHash', hash)
    await mine()
    await until(() => worker.proxy.calls.includes('eth_getTransactionReceipt'))
    const { hash: removed } = await chain.rpc<{ hash: string }>('eth_getBlockByNumber', 'latest', false)
    await chain.rpc('anvil_rollback', 1)
    await mine(2)
    await chain.rpc('eth_sendRawTransaction', raw).catch(() => undefined)
    await mine(2)
    await expect.poll(() => stateOf(jobId)).toBe('completed')
    const { transactionHash, blockHash } = await chain.rpc<{ transactionHash: string; blockHash: string }>(
      'eth_getTransactionReceipt',
      hash,
    )
    expect(transactionHash).toBe(hash)
    expect(await blockOf(jobId)).toMatchObject({ hash: blockHash })
    expect(blockHash).not.toBe(removed)
  })
})

it('a provider call whose worker was lost is ended without the queue, once the last moment of its worker is over', async () => {
  const lost = await jobInState(worker.ledger, 'generating')
  const expire = () =>
    worker.ledger.sql(
      `UPDATE jobs SET lease_expires_at = now() - interval '1 second', enqueued_at = now() - interval '2 seconds'
       WHERE id = $1`,
      [lost.id],
    )
  const sweep = endLostCalls({
    executionStore: worker.dependencies.executionStore,
    // A process that only settles ends it too.
    run: (jobId) => worker.run(jobId, { serves: new Set(['settlement'] as const) }),
  })
  await expire()
  await sweep.run()
  expect(await worker.view(lost.id)).toMatchObject({ state: 'generating', leased: true })
  await expire()
  await sweep.run()
  expect(await worker.view(lost.id)).toMatchObject({
    state: 'failed',
    failure_code: 'provider_outcome_unknown',
    attempts: ['failed_ambiguous'],
  })
})
