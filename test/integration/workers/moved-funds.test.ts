import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { type ChainPayer, createChainPayer } from '../../support/payer/chain-payer.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

/** What every test job is signed for and charged. */
const PRICE = 5034n
const JOBS = 10

let worker: TestWorker
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())
afterEach(() => worker.proxy.chooseFault(() => null))

/** A payer who could pay for all of his accepted jobs when they were accepted. */
async function acceptAll(count = JOBS): Promise<{ payer: ChainPayer; jobs: AcceptedJob[] }> {
  const payer = await createChainPayer(worker.devnet, PRICE * BigInt(count))
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

it('a payment by permit is not worked for when the permit would expire before the settlement', async () => {
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
  it('gets as many provider calls as what he still holds can pay for, and each of them is charged', async () => {
    const { payer, jobs } = await acceptAll()
    await payer.spend(PRICE * 7n + 1n)
    const callsBefore = worker.upstream.calls.length
    await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
    expect(await statesOf(jobs)).toEqual({ completed: 2, 'failed insufficient_funds': 8 })
    expect(worker.upstream.calls.length - callsBefore).toBe(2)
    expect(await worker.devnet.usdcBalance(payer.address)).toBe(atomicAmount(PRICE - 1n))
  })

  it('gets none for a payment that was verified before earlier work took what he still held', async () => {
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

  it('by taking the allowance back gets one provider call, since his permits replace each other', async () => {
    const payer = await createChainPayer(worker.devnet, PRICE * BigInt(JOBS))
    await payer.approve()
    const jobs: AcceptedJob[] = []
    for (let index = 0; index < JOBS; index += 1)
      jobs.push(await worker.accept({ payer, signed: { authorizedMaximum: PRICE } }))
    await payer.approve(0n)
    const callsBefore = worker.upstream.calls.length
    await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
    // Whoever comes after the one settlement is told so by the chain.
    const { completed, ...others } = await statesOf(jobs)
    expect(completed).toBe(1)
    for (const name of Object.keys(others))
      expect(name).toMatch(/^failed (permit2_allowance_required|payment_rejected)$/)
    expect(worker.upstream.calls.length - callsBefore).toBe(1)
  })

  it('who leaves enough for everything gets everything', async () => {
    const { payer, jobs } = await acceptAll()
    await Promise.all(jobs.map(({ jobId }) => worker.run(jobId)))
    expect(await statesOf(jobs)).toEqual({ completed: JOBS })
    expect(await worker.devnet.usdcBalance(payer.address)).toBe(0n)
  })

  it('is not judged while the chain cannot be asked: the job is put off', async () => {
    const { jobs } = await acceptAll()
    const [, second] = jobs
    if (!second) throw new Error('no job')
    // The simulation of the payment passes; the reading of the funds meets the fault.
    let calls = 0
    worker.proxy.chooseFault(({ method }) => {
      if (method === 'eth_call') calls += 1
      return method === 'eth_call' && calls === 2 ? { kind: 'status', status: 503 } : null
    })
    await worker.run(second.jobId)
    expect(await worker.view(second.jobId)).toMatchObject({ state: 'accepted', put_off: true, attempts: [] })
    await worker.runNow(second.jobId)
    expect(await worker.view(second.jobId)).toMatchObject({ state: 'completed' })
  })
})
