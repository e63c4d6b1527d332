import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acceptJob } from '#shared/adapters/postgres/admission/accept-job.ts'
import { createPool } from '#shared/adapters/postgres/pool.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Acceptance, ExposureTerms } from '#shared/jobs/job-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import {
  AMPLE_FUNDS,
  acceptTestJob,
  bindTestKey,
  createTestLedger,
  fencedWrites,
  jobInState,
  newTestJob,
  paidAfresh,
  randomAddress,
  rereadJob,
  type TestJob,
  type TestLedger,
  testAuthorization,
  testPermit,
} from '../../support/ledger/test-ledger.ts'

/** What every test job is signed for. */
const MAXIMUM = 5034n

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

function holding(atomic: bigint, changes: Partial<PayerFunds> = {}): ExposureTerms {
  const funds = { balance: atomicAmount(atomic), allowance: atomicAmount(atomic), blockNumber: 1n }
  return { ...AMPLE_FUNDS, funds: { ...funds, usedNonces: new Set<bigint>(), ...changes } }
}

const UNREAD: ExposureTerms = { ...AMPLE_FUNDS, funds: null }

function jobOf(payer: `0x${string}`, exposure: ExposureTerms): TestJob {
  return newTestJob({ authorization: testAuthorization({ payer }), exposure })
}

async function accept(job: TestJob): Promise<Acceptance> {
  await bindTestKey(ledger, job)
  return ledger.admission.acceptJob(job)
}

/** A payer with jobs that took these writes. */
async function payerWith(...writes: readonly (keyof typeof fencedWrites)[][]) {
  const payer = randomAddress()
  const jobs: { job: ClaimedJob; request: TestJob }[] = []
  // All accepted first: a payer in debt gets no further work.
  for (const _ of writes) {
    const request = jobOf(payer, AMPLE_FUNDS)
    jobs.push({ job: await jobInState(ledger, 'accepted', request), request })
  }
  for (const [index, path] of writes.entries()) {
    const entry = jobs[index]
    if (!entry) throw new Error('a job for each path')
    for (const write of path) {
      await fencedWrites[write].run(ledger, entry.job)
      entry.job = await rereadJob(ledger, entry.job)
    }
  }
  return { payer, jobs }
}

const SETTLING = ['startAttempt', 'sealResult', 'recordSettlement'] as const
const COMPLETED = [...SETTLING, 'completeJob'] as const
const UNPAID = [...SETTLING, 'failSettlement'] as const

describe('a payment beside other open work of its payer', () => {
  it('of twenty at once is accepted as often as the funds last, and never once more', async () => {
    const payer = randomAddress()
    const jobs = Array.from({ length: 20 }, () => jobOf(payer, holding(MAXIMUM * 7n + 5033n)))
    for (const job of jobs) await bindTestKey(ledger, job)
    const acceptances = await Promise.all(jobs.map((job) => ledger.admission.acceptJob(job)))
    expect(acceptances.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(7)
    expect(acceptances.filter(({ outcome }) => outcome === 'exceeds_funds')).toHaveLength(13)
  })

  it('is accepted without a reading of the funds only when nothing is open', async () => {
    const payer = randomAddress()
    expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'accepted' })
    expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'exceeds_funds', openTotal: MAXIMUM })
  })

  it('is refused without a trace of its claim', async () => {
    const { payer } = await payerWith([])
    const job = jobOf(payer, holding(MAXIMUM))
    await bindTestKey(ledger, job)
    const before = await ledger.fingerprint()
    expect(await ledger.admission.acceptJob(job)).toMatchObject({ outcome: 'exceeds_funds' })
    expect(await ledger.fingerprint()).toBe(before)
    expect(await ledger.admission.acceptJob({ ...job, exposure: holding(2n * MAXIMUM) })).toMatchObject({
      outcome: 'accepted',
    })
  })

  it('counts open work at its maximum until the charge is fixed, and nothing once it failed', async () => {
    const { payer, jobs } = await payerWith([], ['startAttempt'], ['startAttempt', 'sealResult'])
    const [, , sealed] = jobs
    await ledger.sql('UPDATE jobs SET charge_amount = 34 WHERE id = $1', [sealed?.job.id])
    const expected = MAXIMUM + MAXIMUM + 34n
    expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ openTotal: expected })
    const [, generating] = jobs
    if (generating) await fencedWrites.failJob.run(ledger, generating.job)
    expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ openTotal: MAXIMUM + 34n })
  })

  it('does not count a settling payment twice whose transaction the reading has seen', async () => {
    const { payer, jobs } = await payerWith([...SETTLING])
    const nonce = jobs[0]?.job.authorization.nonce ?? 0n
    const refused = await accept(jobOf(payer, holding(MAXIMUM)))
    expect(refused).toMatchObject({ outcome: 'exceeds_funds', settlingNonces: [nonce] })
    const seen = holding(MAXIMUM, { usedNonces: new Set([nonce]) })
    expect(await accept(jobOf(payer, seen))).toMatchObject({ outcome: 'accepted' })
  })

  it('counts what settled in a block after the reading, and not what settled before', async () => {
    const { payer } = await payerWith([...COMPLETED])
    // The test ledger completes in block 7.
    const before = holding(2n * MAXIMUM - 1n, { blockNumber: 6n })
    expect(await accept(jobOf(payer, before))).toMatchObject({ outcome: 'exceeds_funds', openTotal: MAXIMUM })
    const after = holding(2n * MAXIMUM - 1n, { blockNumber: 7n })
    expect(await accept(jobOf(payer, after))).toMatchObject({ outcome: 'accepted' })
  })

  it('asks for a reading when a charge settled while the payment was being verified', async () => {
    const { payer } = await payerWith([...COMPLETED])
    expect(await accept(jobOf(payer, { ...UNREAD, verifiedMsAgo: 60_000 }))).toMatchObject({ outcome: 'exceeds_funds' })
    await ledger.sql("UPDATE jobs SET finished_at = finished_at - interval '1 minute' WHERE payer = $1", [payer])
    expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'accepted' })
  })

  it('asks for a reading also when the charge settled while a connection to the ledger was waited for', async () => {
    const { payer, jobs } = await payerWith([...SETTLING])
    const [settling] = jobs
    if (!settling) throw new Error('no job')
    const next = jobOf(payer, UNREAD)
    await bindTestKey(ledger, next)
    const narrow = createPool({
      connectionString: ledger.url,
      maximumConnections: 1,
      applicationName: 'farebox ledger test',
      onError: () => undefined,
    })
    const held = await narrow.connect()
    const acceptance = acceptJob(narrow, next)
    expect(await fencedWrites.completeJob.run(ledger, settling.job)).toBe('written')
    await ledger.sql('SELECT pg_sleep(0.1)')
    held.release()
    expect(await acceptance).toMatchObject({ outcome: 'exceeds_funds' })
    await narrow.end()
  })

  it('is held to the allowance as well as to the balance', async () => {
    const { payer } = await payerWith([])
    const short = holding(10n * MAXIMUM, { allowance: atomicAmount(2n * MAXIMUM - 1n) })
    expect(await accept(jobOf(payer, short))).toMatchObject({ outcome: 'exceeds_funds' })
    const enough = holding(10n * MAXIMUM, { allowance: atomicAmount(2n * MAXIMUM) })
    expect(await accept(jobOf(payer, enough))).toMatchObject({ outcome: 'accepted' })
  })

  it('is held to the cap however much the payer holds', async () => {
    const payer = randomAddress()
    const capped = { ...AMPLE_FUNDS, maximumOpen: atomicAmount(2n * MAXIMUM) }
    for (let call = 0; call < 2; call += 1)
      expect(await accept(jobOf(payer, capped))).toMatchObject({ outcome: 'accepted' })
    expect(await accept(jobOf(payer, capped))).toEqual({ outcome: 'exceeds_open_limit', openTotal: 2n * MAXIMUM })
  })

  it('by permit waits for one without, and the other way round', async () => {
    for (const [first, second] of [
      [false, true],
      [true, false],
    ] as const) {
      const payer = randomAddress()
      const withPermit = (needsPermit: boolean) =>
        newTestJob({
          authorization: testAuthorization({ payer, gasSponsoring: needsPermit ? testPermit(payer, 0n) : null }),
          exposure: { ...AMPLE_FUNDS, needsPermit },
        })
      expect(await accept(withPermit(first))).toMatchObject({ outcome: 'accepted' })
      expect(await accept(withPermit(second))).toEqual({ outcome: 'permit_already_used' })
    }
  })

  it('of one payer says nothing about another', async () => {
    await payerWith([], [], [...UNPAID])
    expect(await accept(jobOf(randomAddress(), UNREAD))).toMatchObject({ outcome: 'accepted' })
  })
})

describe('a payer whose settlement failed', () => {
  it('is refused for every other call and told which one to pay for', async () => {
    const { payer, jobs } = await payerWith([...UNPAID])
    expect(await accept(jobOf(payer, AMPLE_FUNDS))).toEqual({
      outcome: 'unpaid_debt',
      idempotencyKey: jobs[0]?.request.idempotencyKey,
      chargeAmount: MAXIMUM,
    })
  })

  it('may pay for the withheld result, also while owing for another', async () => {
    const { jobs } = await payerWith([...UNPAID], [...UNPAID])
    for (const { request, job } of jobs)
      expect(await ledger.admission.acceptJob(paidAfresh(request))).toEqual({ outcome: 'settles_again', jobId: job.id })
  })

  it('owes nothing when it was we who let the authorization expire', async () => {
    const { payer } = await payerWith([...SETTLING])
    await ledger.sql("UPDATE authorizations SET deadline = now() - interval '1 second' WHERE payer = $1", [payer])
    const [row] = await ledger.sql<{ id: string }>('SELECT id FROM jobs WHERE payer = $1', [payer])
    await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE payer = $1', [payer])
    const late = await ledger.execution.claimJob(row?.id ?? '', 60_000)
    if (!late) throw new Error('not claimed')
    expect(await fencedWrites.failSettlement.run(ledger, late)).toBe('written')
    expect(await accept(jobOf(payer, AMPLE_FUNDS))).toMatchObject({ outcome: 'accepted' })
  })

  it('is welcome again once the withheld result is paid for', async () => {
    const { payer, jobs } = await payerWith([...UNPAID])
    const [debt] = jobs
    if (!debt) throw new Error('no job')
    expect(await ledger.admission.acceptJob(paidAfresh(debt.request))).toMatchObject({ outcome: 'settles_again' })
    expect(await accept(jobOf(payer, AMPLE_FUNDS))).toMatchObject({ outcome: 'accepted' })
  })
})

describe('before a provider is called, work counts as ahead of a job', () => {
  it('when it was accepted earlier or is under way, and not when it was accepted later', async () => {
    const { jobs } = await payerWith([], [], ['startAttempt'])
    const ahead = await Promise.all(
      jobs.map(
        async ({ job }) =>
          (await ledger.execution.readExposureAhead(job, { funds: null, verifiedMsAgo: 0 })).open.length,
      ),
    )
    expect(ahead).toEqual([1, 2, 2])
  })

  it('once its charge settled after the reading', async () => {
    const { jobs } = await payerWith([...COMPLETED], [])
    const present = jobs[1]?.job
    if (!present) throw new Error('no job')
    const { funds } = holding(1n, { blockNumber: 6n })
    expect((await ledger.execution.readExposureAhead(present, { funds, verifiedMsAgo: 0 })).settledSince).toBe(MAXIMUM)
  })
})

it('acceptance by many payers at once is not held up by anyone else’s lock', async () => {
  const jobIds = await Promise.all(Array.from({ length: 20 }, () => acceptTestJob(ledger)))
  expect(new Set(jobIds).size).toBe(20)
})
