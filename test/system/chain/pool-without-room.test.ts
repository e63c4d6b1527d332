import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-with-key.ts'
import type { SettlementBatches } from '../../../workers/settlement/own-keys/settlement-batches.ts'
import { type LimitedPool, limitPool, RETH_SLOTS } from '../../support/chain/limited-pool.ts'
import {
  BOTH_WAYS,
  createSettlementChain,
  type SettlementChain,
  stopChainWatch,
} from '../../support/chain/settlement-chain.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { startTestWorker, type TestWorker, type TestWorkerDependencies } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

/** Longer than the pause after which a transaction is sent again that no node took. */
const LONGER_THAN_A_RESEND_MS = 1500

// Evidence is read, and so a transaction sent again, only when a test says so.
stopChainWatch()

describe.each(BOTH_WAYS)('a pool without room for more transactions of a key, settling $way', ({ throughContract }) => {
  let worker: TestWorker
  let chain: SettlementChain
  let batches: SettlementBatches
  let dependencies: TestWorkerDependencies
  let running: Promise<void>[]
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  beforeEach(async () => {
    chain = await createSettlementChain(worker, { throughContract })
    const changed = { ...worker.dependencies, ...chain.chain, unaskedMs: PATIENCE_MS }
    batches = gatherBatches(changed)
    dependencies = { ...changed, batches, settlementSteps: createOwnKeySettlement({ ...changed, batches }) }
    running = []
  })

  afterAll(() => worker.stop())

  const accept = async () => {
    const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
    return (await chain.accept({ gasSponsored: false }, payer)).jobId
  }
  const settle = (jobId: string) => void running.push(worker.run(jobId, dependencies))
  const statesOf = async (jobs: readonly string[]) =>
    await Promise.all(jobs.map(async (jobId) => (await worker.view(jobId)).state))
  const mineUntilCompleted = async (jobs: readonly string[]) => {
    await until(async () => {
      await chain.rpc('anvil_mine', '0x1')
      return (await statesOf(jobs)).every((state) => state === 'completed')
    })
    await Promise.all(running)
    await chain.rpc('evm_setAutomine', true)
  }
  /** Settles each in a transaction of its own, on a chain that mines only when it is told to. */
  async function settleOneByOne(count: number, pool: LimitedPool): Promise<string[]> {
    const jobs: string[] = []
    while (jobs.length < count) jobs.push(await accept())
    await chain.rpc('evm_setAutomine', false)
    for (const [index, jobId] of jobs.entries()) {
      settle(jobId)
      await until(() => pool.sends > index)
    }
    return jobs
  }

  it('is never met: the seventeenth waits for a block, and those that wait then go together', async () => {
    const pool = limitPool(worker.proxy, worker.devnet.rpcUrl)
    const late = [await accept(), await accept(), await accept()]
    const jobs = await settleOneByOne(RETH_SLOTS, pool)
    for (const jobId of late) settle(jobId)
    await until(() => batches.readState().withoutNonce === late.length)
    expect(await statesOf(late)).toEqual(late.map(() => 'generated'))
    expect(pool).toMatchObject({ sends: RETH_SLOTS, refusals: 0, mostHeld: RETH_SLOTS })
    await mineUntilCompleted([...jobs, ...late])
    expect(pool).toMatchObject({ sends: RETH_SLOTS + (throughContract ? 1 : late.length), refusals: 0 })
    expect(batches.readState().withoutNonce).toBe(0)
  })

  it('is asked again after a block and not before', async () => {
    // Another client uses the same key, or the operator of the node allows less.
    const pool = limitPool(worker.proxy, worker.devnet.rpcUrl, { slots: 1 })
    const jobs = await settleOneByOne(4, pool)
    await new Promise((resolve) => setTimeout(resolve, LONGER_THAN_A_RESEND_MS))
    // Through the contract the stream of batches sends each once, and so does its job.
    expect(pool.sends).toBeLessThanOrEqual(throughContract ? 8 : 4)
    expect(pool.refusals).toBeGreaterThanOrEqual(3)
    await mineUntilCompleted(jobs)
  })
})
