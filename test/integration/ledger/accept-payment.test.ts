import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Acceptance } from '#shared/ledger/acceptance/acceptance.ts'
import { createPermitStore } from '#shared/ledger/allowances/permit-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import {
  acceptTestJob,
  bindTestKey,
  called,
  claimTestJob,
  fencedWrites,
  jobInState,
  rereadJob,
} from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, paidAgain, sentAgain } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const TWENTY = Array.from({ length: 20 }, (_, index) => index)
function outcomes(acceptances: readonly Acceptance[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { outcome } of acceptances) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}
const SETTLED_AT = { transactionHash: `0x${'a'.repeat(64)}`, blockNumber: 9n, blockHash: `0x${'b'.repeat(64)}` }
const NEEDS_PERMIT = { ...AMPLE_FUNDS, needsPermit: true }
/** Creates a payer without an allowance, who attaches a permit with the same permit nonce to every payment. */
function permitPayer() {
  const payer = randomAddress()
  const withPermit = () =>
    newTestJob({
      authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 3n) }),
      exposure: NEEDS_PERMIT,
    })
  return { payer, withPermit }
}
const jobByPermit = (payer: `0x${string}`) =>
  newTestJob({
    authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) }),
    exposure: { ...AMPLE_FUNDS, needsPermit: true },
  })

describe('accepting a job', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  async function countRows(table: string, column: string, value: string): Promise<number> {
    const [row] = await ledger.sql<{ count: number }>(`SELECT count(*)::int FROM ${table} WHERE ${column} = $1`, [
      value,
    ])
    return row?.count ?? -1
  }
  describe('simultaneous acceptance', () => {
    it('accepts one of twenty simultaneous identical requests and attaches the others to it', async () => {
      const job = newTestJob()
      await bindTestKey(ledger, job)
      const acceptances = await Promise.all(TWENTY.map(() => ledger.acceptance.acceptPayment(sentAgain(job))))
      expect(outcomes(acceptances)).toEqual({ accepted: 1, exists: 19 })
      expect(new Set(acceptances.map((one) => 'jobId' in one && one.jobId)).size).toBe(1)
      const { payer } = job.authorization
      expect(await countRows('jobs', 'payer', payer)).toBe(1)
      expect(await countRows('authorizations', 'payer', payer)).toBe(1)
    })

    it('creates one job and claims one nonce for twenty simultaneous authorizations under one key', async () => {
      const job = newTestJob()
      const { payer } = job.authorization
      await bindTestKey(ledger, job)
      const acceptances = await Promise.all(TWENTY.map(() => ledger.acceptance.acceptPayment(paidAgain(job))))
      expect(outcomes(acceptances)).toEqual({ accepted: 1, exists: 19 })
      expect(await countRows('jobs', 'payer', payer)).toBe(1)
      expect(await countRows('authorizations', 'payer', payer)).toBe(1)
    })

    it('accepts one request of twenty simultaneous ones with the same authorization under different keys', async () => {
      const authorization = testAuthorization()
      const jobs = TWENTY.map(() => newTestJob({ authorization }))
      for (const job of jobs) await bindTestKey(ledger, job)
      const acceptances = await Promise.all(jobs.map((job) => ledger.acceptance.acceptPayment(job)))
      expect(outcomes(acceptances)).toEqual({ accepted: 1, authorization_already_used: 19 })
      expect(await countRows('jobs', 'payer', authorization.payer)).toBe(1)
      expect(await countRows('staged_uploads', 'object_key', jobs[0]?.stagedUpload.objectKey ?? '')).toBeLessThan(2)
    })

    it('accepts one of twenty simultaneous payments with the same permit nonce', async () => {
      const payer = randomAddress()
      const jobs = TWENTY.map(() =>
        newTestJob({
          authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) }),
          exposure: NEEDS_PERMIT,
        }),
      )
      for (const job of jobs) await bindTestKey(ledger, job)
      const acceptances = await Promise.all(jobs.map((job) => ledger.acceptance.acceptPayment(job)))
      expect(outcomes(acceptances)).toEqual({ accepted: 1, permit_already_used: 19 })
    })

    it('accepts one of twenty simultaneous payers under the same key', async () => {
      const job = newTestJob()
      await bindTestKey(ledger, job)
      const acceptances = await Promise.all(
        TWENTY.map(() => ledger.acceptance.acceptPayment(sentAgain(job, { authorization: testAuthorization() }))),
      )
      expect(outcomes(acceptances)).toEqual({ accepted: 1, other_request: 19 })
    })

    it('reopens a failed job for one of twenty simultaneous new authorizations', async () => {
      const job = newTestJob()
      await jobInState(ledger, 'failed', job)
      const { payer } = job.authorization
      const acceptances = await Promise.all(TWENTY.map(() => ledger.acceptance.acceptPayment(paidAgain(job))))
      expect(outcomes(acceptances)).toEqual({ accepted: 1, exists: 19 })
      expect(await countRows('authorizations', 'payer', payer)).toBe(2)
    })
  })

  describe('a permit nonce', () => {
    it('releases a permit nonce for another call when its job fails', async () => {
      const { payer, withPermit } = permitPayer()
      const first = await jobInState(ledger, 'generating', withPermit())
      const second = withPermit()
      await bindTestKey(ledger, second)
      expect(await ledger.acceptance.acceptPayment(second)).toEqual({ outcome: 'permit_already_used' })
      expect(await fencedWrites.failJob.run(ledger, first)).toBe('written')
      expect(await ledger.acceptance.acceptPayment(sentAgain(second))).toMatchObject({ outcome: 'accepted' })
      expect(await countRows('jobs', 'payer', payer)).toBe(2)
    })

    it('releases a permit nonce for the same call when its settlement fails', async () => {
      const { withPermit } = permitPayer()
      const first = withPermit()
      const job = await jobInState(ledger, 'settling', first)
      expect(await fencedWrites.failSettlement.run(ledger, job)).toBe('written')
      const { authorization } = withPermit()
      expect(await ledger.acceptance.acceptPayment(sentAgain(first, { authorization }))).toEqual({
        outcome: 'settles_again',
        jobId: job.id,
      })
    })

    it('claims no permit nonce for a payment that the allowance covers', async () => {
      const payer = randomAddress()
      const gasSponsoring = testPermit(payer, 0n)
      for (let call = 0; call < 2; call += 1)
        await acceptTestJob(ledger, newTestJob({ authorization: testAuthorization({ payer, gasSponsoring }) }))
      expect(await countRows('jobs', 'payer', payer)).toBe(2)
    })

    it('claims a permit nonce for its payer only', async () => {
      for (const payer of [randomAddress(), randomAddress()])
        await acceptTestJob(
          ledger,
          newTestJob({
            authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) }),
            exposure: NEEDS_PERMIT,
          }),
        )
    })

    it('writes nothing for a payment whose permit nonce is already claimed', async () => {
      const { withPermit } = permitPayer()
      await acceptTestJob(ledger, withPermit())
      const second = withPermit()
      await bindTestKey(ledger, second)
      const before = await ledger.fingerprint()
      expect(await ledger.acceptance.acceptPayment(second)).toEqual({ outcome: 'permit_already_used' })
      expect(await ledger.fingerprint()).toBe(before)
    })
  })

  describe('a key that has a job', () => {
    it('rejects another payer under a key that has a job', async () => {
      const job = newTestJob()
      await acceptTestJob(ledger, job)
      const before = await ledger.fingerprint()
      expect(await ledger.acceptance.acceptPayment(sentAgain(job, { authorization: testAuthorization() }))).toEqual({
        outcome: 'other_request',
      })
      expect(await ledger.fingerprint()).toBe(before)
    })

    it('rejects another request under a key that has a job', async () => {
      const job = newTestJob()
      await acceptTestJob(ledger, job)
      expect(await ledger.acceptance.acceptPayment(sentAgain(job, { requestDigest: 'b'.repeat(64) }))).toEqual({
        outcome: 'other_request',
      })
    })

    it('rejects a payment under a key that was never bound', async () => {
      expect(await ledger.acceptance.acceptPayment(newTestJob({ idempotencyKey: randomUUID() }))).toEqual({
        outcome: 'other_request',
      })
    })
  })

  describe('a job that failed uncharged', () => {
    it('does not run a failed job again for the authorization of the failed attempt', async () => {
      const job = newTestJob()
      const { id } = await jobInState(ledger, 'failed', job)
      const before = await ledger.fingerprint()
      expect(await ledger.acceptance.acceptPayment(sentAgain(job))).toEqual({ outcome: 'exists', jobId: id })
      expect(await ledger.fingerprint()).toBe(before)
    })

    it('runs a failed job again with a new upload and quote for a new authorization', async () => {
      const job = newTestJob()
      const failed = await jobInState(ledger, 'failed', job)
      const fresh = sentAgain(job, {
        authorization: testAuthorization({ payer: job.authorization.payer, authorizedMaximum: atomicAmount(6000n) }),
        quote: { ...job.quote, quotedMaximum: atomicAmount(6000n), catalogVersion: 'catalog-later' },
      })
      expect(await ledger.acceptance.acceptPayment(fresh)).toEqual({ outcome: 'accepted', jobId: failed.id })
      const claimed = await claimTestJob(ledger, failed.id)
      expect(claimed).toMatchObject({
        state: 'accepted',
        quotedMaximum: 6000n,
        catalogVersion: 'catalog-later',
        stagedUploadId: fresh.stagedUpload.id,
        authorization: { nonce: fresh.authorization.nonce },
        sealed: null,
      })
      expect(claimed.fence).toBeGreaterThan(failed.fence)
      expect(await ledger.execution.startAttempt(claimed, called('elevenlabs'), null)).toMatchObject({
        written: 'written',
      })
      expect(await countRows('upstream_attempts', 'job_id', failed.id)).toBe(2)
    })

    it('does not run a failed job again for an authorization that pays for another job', async () => {
      const job = newTestJob()
      await jobInState(ledger, 'failed', job)
      const elsewhere = testAuthorization({ payer: job.authorization.payer })
      await acceptTestJob(ledger, newTestJob({ authorization: elsewhere }))
      expect(await ledger.acceptance.acceptPayment(sentAgain(job, { authorization: elsewhere }))).toEqual({
        outcome: 'authorization_already_used',
      })
    })
  })

  describe('a job whose settlement failed', () => {
    it('settles a withheld result with a new authorization, without another attempt [spec O9]', async () => {
      const job = newTestJob()
      const failed = await jobInState(ledger, 'settlement_failed', job)
      const fresh = paidAgain(job)
      expect(await ledger.acceptance.acceptPayment(fresh)).toEqual({ outcome: 'settles_again', jobId: failed.id })
      expect(await countRows('staged_uploads', 'id', fresh.stagedUpload.id)).toBe(0)

      const claimed = await claimTestJob(ledger, failed.id)
      expect(claimed).toMatchObject({ state: 'generated', sealed: failed.sealed })
      expect(claimed.authorization.nonce).toBe(fresh.authorization.nonce)
      expect(await fencedWrites.recordSettlement.run(ledger, claimed)).toBe('written')
      expect(await fencedWrites.completeJob.run(ledger, await rereadJob(ledger, claimed))).toBe('written')
      expect(await countRows('upstream_attempts', 'job_id', failed.id)).toBe(1)
      expect(await ledger.sql('SELECT state FROM settlements WHERE job_id = $1 ORDER BY state', [failed.id])).toEqual([
        { state: 'confirmed' },
        { state: 'reverted' },
      ])
    })

    it('does not settle a withheld result again with the authorization that failed [spec O8]', async () => {
      const job = newTestJob()
      const { id } = await jobInState(ledger, 'settlement_failed', job)
      const before = await ledger.fingerprint()
      expect(await ledger.acceptance.acceptPayment(sentAgain(job))).toEqual({ outcome: 'exists', jobId: id })
      expect(await ledger.fingerprint()).toBe(before)
    })

    it.each(['settling', 'completed'] as const)(
      'claims no payment for a job that is %s by the time that its payer is locked',
      async (state) => {
        const job = newTestJob()
        const { id } = await jobInState(ledger, 'settlement_failed', job)
        const [settlement] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE job_id = $1', [id])
        const { network, payer } = job.authorization
        const holder = await ledger.pool.connect()
        await holder.query('BEGIN')
        await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('farebox payer ' || $1 || ' ' || $2, 0))", [
          network,
          payer,
        ])
        const fresh = paidAgain(job)
        const acceptance = ledger.acceptance.acceptPayment(fresh)
        const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
        await until(async () => (await ledger.sql(waiting)).length === 1)
        // A reorganization lets the settlement that failed succeed after all.
        expect(await ledger.settlement.reopenSettlement(settlement?.id ?? '', SETTLED_AT)).toBe('reopened')
        if (state === 'completed') await fencedWrites.completeJob.run(ledger, await claimTestJob(ledger, id))
        const before = await ledger.fingerprint()
        await holder.query('COMMIT')
        holder.release()
        expect(await acceptance).toEqual({ outcome: 'exists', jobId: id })
        expect(await ledger.fingerprint()).toBe(before)
      },
    )

    it('never charges more for a withheld result than the new authorization allows', async () => {
      const job = newTestJob()
      const { id } = await jobInState(ledger, 'settlement_failed', job)
      const { payer } = job.authorization
      const cheaper = testAuthorization({ payer, authorizedMaximum: atomicAmount(5000n) })
      await ledger.acceptance.acceptPayment(sentAgain(job, { authorization: cheaper }))
      expect((await claimTestJob(ledger, id)).sealed?.chargeAmount).toBe(5000n)
    })
  })

  describe('a job that is not failed', () => {
    it.each(['completed', 'review', 'settling', 'generating'] as const)(
      'attaches any authorization of its payer to a %s job without changing it',
      async (state) => {
        const job = newTestJob()
        const { id } = await jobInState(ledger, state, job)
        const before = await ledger.fingerprint()
        const fresh = testAuthorization({ payer: job.authorization.payer })
        for (const authorization of [job.authorization, fresh])
          expect(await ledger.acceptance.acceptPayment(sentAgain(job, { authorization }))).toEqual({
            outcome: 'exists',
            jobId: id,
          })
        expect(await ledger.fingerprint()).toBe(before)
      },
    )
  })

  describe('what is known of a request', () => {
    it('finds the job of a key and the job of an authorization in one snapshot', async () => {
      const job = newTestJob()
      const jobId = await acceptTestJob(ledger, job)
      const { payer } = job.authorization
      const held = { jobId, payer, state: 'accepted', isReleasable: false }
      const claim = { jobId, challengeTokenSha256: job.challengeTokenSha256 }
      const binding = { requestDigest: job.requestDigest, quote: job.quote, isLive: true, description: null }
      const bound = { binding: expect.objectContaining(binding), holder: held, storedPermit: null }
      const free = { binding: null, holder: null, storedPermit: null }
      const find = ledger.acceptance.findKnownRequest
      expect(await find(job.idempotencyKey, job.authorization)).toEqual({ ...bound, claim })
      expect(await find(job.idempotencyKey, testAuthorization())).toEqual({ ...bound, claim: null })
      expect(await find(job.idempotencyKey, null)).toEqual({ ...bound, claim: null })
      expect(await find('free-key', job.authorization)).toEqual({ ...free, claim })
      expect(await find('free-key', testAuthorization())).toEqual({ ...free, claim: null })
      expect(await find('free-key', null)).toEqual({ ...free, claim: null })
      const elsewhere = { ...job.authorization, network: 'eip155:1' }
      expect(await find('free-key', elsewhere)).toEqual({ ...free, claim: null })
    })

    it('finds the stored permit of a payer until it expires', async () => {
      const { payer } = permitPayer()
      const authorization = testAuthorization({ payer })
      const permits = createPermitStore(ledger.pool)
      const permit = {
        owner: payer,
        value: 2n ** 256n - 1n,
        nonce: 3n,
        deadline: BigInt(Math.floor(Date.now() / 1000) + 60),
        signature: `0x${'7'.repeat(130)}`,
      } as const
      await permits.storePermit(permit)
      const find = async (asked: Authorization | null) =>
        (await ledger.acceptance.findKnownRequest('free-key', asked)).storedPermit
      expect(await find(authorization)).toEqual(permit)
      expect(await find(testAuthorization())).toBeNull()
      expect(await find(null)).toBeNull()
      await ledger.sql("UPDATE stored_permits SET expires_at = now() - interval '1 second' WHERE owner = $1", [payer])
      expect(await find(authorization)).toBeNull()
    })

    it('refuses a payment with a value that PostgreSQL cannot store, writes nothing, and fails no other payment', async () => {
      const { payer } = permitPayer()
      const gasSponsoring = { ...testPermit(payer, 0n), version: '1\0' }
      const unstorable = newTestJob({ authorization: testAuthorization({ payer, gasSponsoring }) })
      const others = TWENTY.map(() => newTestJob())
      for (const job of [unstorable, ...others]) await bindTestKey(ledger, job)
      const [refused, ...accepted] = await Promise.all(
        [unstorable, ...others].map((job) => ledger.acceptance.acceptPayment(job)),
      )
      expect(refused).toEqual({ outcome: 'unstorable', sqlState: '22P05' })
      expect(outcomes(accepted)).toEqual({ accepted: 20 })
      expect(await countRows('jobs', 'payer', payer)).toBe(0)
      expect(await countRows('authorizations', 'payer', payer)).toBe(0)
      const corrected = paidAgain(unstorable)
      expect(await ledger.acceptance.acceptPayment(corrected)).toMatchObject({ outcome: 'accepted' })
    })

    it('stores a signed authorization exactly, including a deadline beyond the range of timestamps', async () => {
      const payer = randomAddress()
      const authorization = testAuthorization({
        payer,
        deadline: 2n ** 256n - 1n,
        nonce: 2n ** 256n - 1n,
        gasSponsoring: testPermit(payer, 2n ** 256n - 1n),
      })
      const jobId = await acceptTestJob(ledger, newTestJob({ authorization }))
      expect((await claimTestJob(ledger, jobId)).authorization).toEqual(authorization)
    })
  })
})

describe('claims of permits', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  describe('the claim of a permit nonce', () => {
    it('releases a permit nonce when its payment is settled, as the permit may not have been used', async () => {
      const payer = randomAddress()
      await jobInState(ledger, 'completed', jobByPermit(payer))
      const next = jobByPermit(payer)
      await bindTestKey(ledger, next)
      expect(await ledger.acceptance.acceptPayment(next)).toMatchObject({ outcome: 'accepted' })
    })

    it('keeps a permit nonce claimed while its payment is settling', async () => {
      const payer = randomAddress()
      await jobInState(ledger, 'settling', jobByPermit(payer))
      const next = jobByPermit(payer)
      await bindTestKey(ledger, next)
      expect(await ledger.acceptance.acceptPayment(next)).toEqual({ outcome: 'permit_already_used' })
    })
  })

  describe('the open job that another payment by permit waits for', () => {
    it('is the oldest one of the payer that a worker has not finished', async () => {
      const payer = randomAddress()
      expect(await ledger.acceptance.findOpenJob(payer)).toBeNull()
      const job = () => newTestJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
      for (const state of ['failed', 'completed', 'review'] as const) await jobInState(ledger, state, job())
      expect(await ledger.acceptance.findOpenJob(payer)).toBeNull()
      const open = await jobInState(ledger, 'settling', job())
      expect(await ledger.acceptance.findOpenJob(payer)).toBe(open.id)
      expect(await ledger.acceptance.findOpenJob(randomAddress())).toBeNull()
    })
  })
})
