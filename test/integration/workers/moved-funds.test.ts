import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

/** The authorized maximum and the charge of every test job. */
const PRICE = 5034n
const JOBS = 10

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
    // The chain rejects every job after the one that settled.
    const { completed, ...others } = await statesOf(jobs)
    expect(completed).toBe(1)
    for (const name of Object.keys(others))
      expect(name).toMatch(/^failed (permit2_allowance_required|payment_rejected)$/)
    expect(worker.upstream.calls.length - callsBefore).toBe(1)
  })

  it('a payer whose balance covers all jobs gets all of them', async () => {
    const { payer, jobs } = await acceptAll()
    await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
    expect(await statesOf(jobs)).toEqual({ completed: JOBS })
    expect(await worker.devnet.usdcBalance(payer.address)).toBe(0n)
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
