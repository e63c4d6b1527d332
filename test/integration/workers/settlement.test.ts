import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { createJobSlots, type JobSlots } from '../../../workers/job/job-slots.ts'
import { handBackJobs } from '../../../workers/job/run-job.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-with-key.ts'
import { endLostCalls } from '../../../workers/sweepers/due-jobs.ts'
import { delegateTo, placeDelegate } from '../../support/chain/delegating-payer.ts'
import { createSettlementChain, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import {
  type AcceptedJob,
  startTestWorker,
  type TestWorker,
  type TestWorkerDependencies,
} from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

/** The authorized maximum and the charge of every test job. */
const PRICE = 5034n
const JOBS = 10

describe('settlements that wait', () => {
  let worker: TestWorker
  let chain: SettlementChain
  let slots: JobSlots
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  beforeEach(async () => {
    chain = await createSettlementChain(worker)
    slots = createJobSlots(worker.dependencies.logger)
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
      await slots.run((releaseSlot) => worker.run(jobId, dependencies, releaseSlot))
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
      await slots.drain(PATIENCE_MS)
    })

    it('share one poll of the chain, and each reads one receipt', async () => {
      const jobs = await waitingJobs(5)
      // Until it is known that this chain mines nothing immediately, transactions are asked for as soon as they were sent.
      await until(() => worker.proxy.calls.slice(-3).every((method) => method === 'eth_getBlockByNumber'))
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
      await slots.drain(1)
      await handBackJobs({ ...dependencies, leases })
      expect(enqueued.toSorted()).toEqual(jobs.toSorted())
      for (const jobId of jobs) expect(await worker.view(jobId)).toMatchObject({ state: 'settling', leased: false })
      const next = jobs.map((jobId) => worker.run(jobId, asking()))
      await mine()
      await Promise.all(next)
      for (const jobId of jobs)
        expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      // The first worker sees the block as well and writes nothing.
      await slots.drain(PATIENCE_MS)
    })

    it('are left alone by a worker that has lost their lease', async () => {
      const [jobId = ''] = await waitingJobs(1, asking({ leaseMs: 600 }))
      await worker.ledger.sql(
        "UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + interval '1 hour' WHERE id = $1",
        [jobId],
      )
      const before = await worker.ledger.fingerprint()
      // Ends although nothing is mined and no time limit has passed.
      await slots.drain(PATIENCE_MS)
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
})

describe('funds that were moved', () => {
  let worker: TestWorker
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  afterAll(() => worker.stop())

  afterEach(() => worker.proxy.chooseFault(() => null))

  /** Accepts jobs of a payer whose balance covered all of them at acceptance. */
  async function acceptAll(count = JOBS): Promise<{ payer: Payer; jobs: AcceptedJob[] }> {
    const payer = await createPayer(worker.devnet.rpcUrl, { usdcAtomic: PRICE * BigInt(count) })
    await payer.approve()
    const jobs: AcceptedJob[] = []
    for (let index = 0; index < count; index += 1)
      jobs.push(await worker.accept({ payer, signed: { authorizedMaximum: PRICE, gasSponsored: false } }))
    return { payer, jobs }
  }
  async function statesOf(jobs: readonly AcceptedJob[]): Promise<Record<string, number>> {
    const counts: Record<string, number> = {}
    for (const { jobId } of jobs) {
      const { state, failure_code: code } = await worker.view(jobId)
      const name = code === null ? state : `${state} ${code}`
      counts[name] = (counts[name] ?? 0) + 1
    }
    return counts
  }
  it('no provider is called for a payment whose permit would expire before the settlement', async () => {
    const now = BigInt(Math.floor(Date.now() / 1000))
    const { jobId } = await worker.accept({ signed: { deadline: now + 3600n, permitDeadline: now + 600n } })
    await worker.run(jobId, { settlementMarginMs: 1_200_000 })
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'authorization_too_short',
      attempts: [],
    })
  })

  describe('a payer who moves funds after acceptance', () => {
    it('a payer who moves funds gets as many provider calls as their balance covers, each charged', async () => {
      const { payer, jobs } = await acceptAll()
      await payer.spend(PRICE * 7n + 1n)
      const callsBefore = worker.upstream.calls.length
      await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
      expect(await statesOf(jobs)).toEqual({ completed: 2, 'failed insufficient_funds': 8 })
      expect(worker.upstream.calls.length - callsBefore).toBe(2)
      expect(await worker.devnet.usdcBalance(payer.address)).toBe(atomicAmount(PRICE - 1n))
    })

    it('a payment that was verified before earlier jobs used up the balance gets no provider call', async () => {
      const { payer, jobs } = await acceptAll(3)
      await payer.spend(PRICE)
      const [first, second, last] = jobs.map(({ jobId }) => jobId)
      if (!first || !second || !last) throw new Error('a job is missing')
      const { verifier } = worker.through(worker.proxy, worker.devnet.accounts.settlement.privateKey)
      const [verified, charged] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const verify: typeof verifier.verify = async (...payment) => {
        const verification = await verifier.verify(...payment)
        verified.resolve()
        await charged.promise
        return verification
      }
      const running = worker.run(last, { verifier: { ...verifier, verify } })
      await verified.promise
      await worker.run(first)
      await worker.run(second)
      charged.resolve()
      await running
      expect(await statesOf(jobs)).toEqual({ completed: 2, 'failed insufficient_funds': 1 })
      expect(await worker.view(last)).toMatchObject({ attempts: [] })
    })

    it('a payer who revokes the allowance gets one provider call, since permits replace each other', async () => {
      const payer = await createPayer(worker.devnet.rpcUrl, { usdcAtomic: PRICE * BigInt(JOBS) })
      await payer.approve()
      const jobs: AcceptedJob[] = []
      for (let index = 0; index < JOBS; index += 1)
        jobs.push(await worker.accept({ payer, signed: { authorizedMaximum: PRICE } }))
      await payer.approve(0n)
      const callsBefore = worker.upstream.calls.length
      await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
      // The chain rejects every job after the one that settled, also because its permit is used by then.
      const { completed, ...others } = await statesOf(jobs)
      expect(completed).toBe(1)
      for (const name of Object.keys(others))
        expect(name).toMatch(/^failed (permit2_allowance_required|payment_rejected|permit_already_used)$/)
      expect(worker.upstream.calls.length - callsBefore).toBe(1)
    })

    it('a payer whose balance covers all jobs gets all of them', async () => {
      const { payer, jobs } = await acceptAll()
      await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
      expect(await statesOf(jobs)).toEqual({ completed: JOBS })
      expect(await worker.devnet.usdcBalance(payer.address)).toBe(0n)
    })

    it('no provider is called for the other jobs of a payer who owes for one', async () => {
      const { jobs } = await acceptAll(3)
      const [unpaid, next, other] = jobs.map(({ jobId }) => jobId)
      if (!unpaid || !next || !other) throw new Error('a job is missing')
      const { settler } = worker.dependencies
      await worker.run(unpaid, {
        settler: { ...settler, prepare: async () => ({ outcome: 'refused', code: 'insufficient_funds' }) },
      })
      expect(await worker.view(unpaid)).toMatchObject({ state: 'settlement_failed' })
      const callsBefore = worker.upstream.calls.length
      await Promise.all([worker.run(next), worker.run(other)])
      for (const jobId of [next, other])
        expect(await worker.view(jobId)).toMatchObject({
          state: 'failed',
          failure_code: 'unpaid_debt',
          charge_amount: null,
          attempts: [],
        })
      expect(worker.upstream.calls).toHaveLength(callsBefore)
    })

    it('a job is deferred while the payer’s funds cannot be read', async () => {
      const { jobs } = await acceptAll()
      const [, second] = jobs
      if (!second) throw new Error('no job')
      // The simulation of the payment passes; reading the funds fails.
      let calls = 0
      worker.proxy.chooseFault(({ method }) => {
        if (method === 'eth_call') calls += 1
        return method === 'eth_call' && calls === 2 ? { kind: 'status', status: 503 } : null
      })
      await worker.run(second.jobId)
      expect(await worker.view(second.jobId)).toMatchObject({ state: 'accepted', deferred: true, attempts: [] })
      await worker.runNow(second.jobId)
      expect(await worker.view(second.jobId)).toMatchObject({ state: 'completed' })
    })
  })

  it('no provider is called for a payer whose account delegates to a contract after acceptance', async () => {
    const payer = await createPayer(worker.devnet.rpcUrl)
    const { jobId } = await worker.accept({ payer })
    await delegateTo(payer, await placeDelegate(worker.devnet.rpcUrl))
    const callsBefore = worker.upstream.calls.length
    await worker.run(jobId)
    expect(await worker.view(jobId)).toMatchObject({ state: 'failed', failure_code: 'payer_has_code', attempts: [] })
    expect(worker.upstream.calls).toHaveLength(callsBefore)
  })

  it('the gas of a settlement is stored, and that of a reverted one counted as uncharged work of its payer', async () => {
    const settledGas = async (jobId: string) => {
      const [row] = await worker.ledger.sql<{ hash: `0x${string}`; gas_used: string; price: string; cost: string }>(
        `SELECT settlement_transactions.hash, gas_used, effective_gas_price AS price, gas_cost AS cost
       FROM settlements JOIN settlement_transactions ON settlement_id = settlements.id WHERE job_id = $1`,
        [jobId],
      )
      if (!row) throw new Error('no settlement')
      const { gasUsed, effectiveGasPrice } = await worker.devnet.client.getTransactionReceipt({ hash: row.hash })
      const cost = usdcOfWei(gasUsed * effectiveGasPrice, 4000)
      expect([row.gas_used, row.price, row.cost]).toEqual([`${gasUsed}`, `${effectiveGasPrice}`, `${cost}`])
      return cost
    }
    const unchargedWork = (jobId: string) =>
      worker.ledger.sql('SELECT kind, payer, amount FROM uncharged_work WHERE job_id = $1', [jobId])
    const paid = await worker.accept()
    await worker.run(paid.jobId)
    expect(await settledGas(paid.jobId)).toBeGreaterThan(0n)
    expect(await unchargedWork(paid.jobId)).toEqual([])

    const { jobId, payer } = await worker.accept()
    const { settler } = worker.dependencies
    const broadcast: typeof settler.broadcast = async (transaction) => {
      await payer.spend(1_000_000n)
      return await settler.broadcast(transaction)
    }
    await worker.run(jobId, { settler: { ...settler, broadcast } })
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: ['reverted'] })
    const cost = await settledGas(jobId)
    expect(await unchargedWork(jobId)).toEqual([
      { kind: 'reverted_settlement', payer: payer.address, amount: `${cost}` },
    ])
  })
})
