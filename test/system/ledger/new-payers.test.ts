import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type AcceptanceOptions, createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Acceptance, NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { ExposureTerms } from '#shared/payment/exposure.ts'
import { bindTestKey, claimTestJob, jobInState, moveToState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, paidAgain, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

type Payer = `0x${string}`
const prices = (count: number) => atomicAmount(TEST_PRICE * BigInt(count))
/** A call of the highest price costs as much as three test jobs. */
const TERMS: ExposureTerms = { ...AMPLE_FUNDS, highestPrice: prices(3) }
const [HOME, OTHER] = ['198.51.100.0/24', '2001:db8:1::/48']

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
beforeEach(async () => {
  await ledger.sql('DELETE FROM uncharged_work')
  await ledger.sql('UPDATE jobs SET is_new_payer = false')
})
afterAll(() => ledger.close())

/** A request that payments in parallel may be accepted with together, since it has no upload. */
async function bound(payer: Payer, changes: Partial<NewJob> = {}): Promise<NewJob> {
  const { stagedUpload: _, ...job } = newTestJob({ authorization: testAuthorization({ payer }) })
  await bindTestKey(ledger, newTestJob({ idempotencyKey: job.idempotencyKey }))
  return { ...job, stagedUpload: null, exposure: TERMS, clientNetwork: HOME, ...changes }
}
async function accept(payer: Payer, changes: Partial<NewJob> = {}): Promise<Acceptance> {
  return await ledger.acceptance.acceptPayment(await bound(payer, changes))
}
/** Accepts payments that arrive at the same time at two processes. Returns how many had each outcome. */
async function acceptAll(jobs: readonly NewJob[], limits = TEST_LIMITS): Promise<Record<string, number>> {
  const processes = [0, 1].map(() => createAcceptanceStore(ledger.pool, limits))
  const acceptances = await Promise.all(jobs.map(async (job, index) => await processes[index % 2]?.acceptPayment(job)))
  const counts: Record<string, number> = {}
  for (const one of acceptances) counts[one?.outcome ?? 'none'] = (counts[one?.outcome ?? 'none'] ?? 0) + 1
  return counts
}
async function complete(acceptance: Acceptance): Promise<void> {
  const { jobId } = acceptance as { jobId: string }
  await moveToState(ledger, await claimTestJob(ledger, jobId), 'completed')
}
async function lose(payer: Payer, changes: Partial<NewJob> = {}, hoursAgo = 0): Promise<void> {
  const { jobId } = (await accept(payer, changes)) as { jobId: string }
  const job = await moveToState(ledger, await claimTestJob(ledger, jobId), 'generating')
  await ledger.execution.failJob(job, { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' })
  await ledger.sql('UPDATE uncharged_work SET created_at = now() - make_interval(hours => $2) WHERE job_id = $1', [
    jobId,
    hoursAgo,
  ])
}
/** Payments of different payers without a history. */
const strangers = (count: number, clientNetwork = HOME) =>
  Promise.all(
    Array.from({ length: count }, () =>
      bound(randomAddress(), { clientNetwork, exposure: { ...TERMS, highestPrice: TEST_PRICE } }),
    ),
  )
const limitOf = (count: number): AcceptanceOptions => ({ ...TEST_LIMITS, newPayers: prices(count) })

describe('what a payer may have open', () => {
  it('is the highest price of one call before the payer has paid anything, however the payments arrive', async () => {
    const payer = randomAddress()
    const jobs = await Promise.all(Array.from({ length: 20 }, () => bound(payer)))
    expect(await acceptAll(jobs)).toEqual({ accepted: 3, exceeds_trust: 17 })
    expect(await accept(payer)).toEqual({
      outcome: 'exceeds_trust',
      open: prices(3),
      lost: 0n,
      allowed: prices(3),
      retryAfterSeconds: 2,
    })
  })

  it('grows by what the payer has settled, at every process', async () => {
    const payer = randomAddress()
    await complete(await accept(payer))
    await complete(await accept(payer))
    const jobs = await Promise.all(Array.from({ length: 20 }, () => bound(payer)))
    expect(await acceptAll(jobs)).toEqual({ accepted: 5, exceeds_trust: 15 })
  })

  it('is one call at any price when nothing else is open, as the price may have been lowered since its quote', async () => {
    const payer = randomAddress()
    const exposure = { ...TERMS, highestPrice: atomicAmount(1n) }
    expect(await accept(payer, { exposure })).toMatchObject({ outcome: 'accepted' })
    expect(await accept(payer, { exposure })).toMatchObject({ outcome: 'exceeds_trust', allowed: 1n })
  })

  it('is less for a day by what ended without a charge, and the answer says until when', async () => {
    const payer = randomAddress()
    await lose(payer, {}, 22)
    await lose(payer, {}, 5)
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
    expect(await accept(payer)).toMatchObject({ outcome: 'exceeds_trust', lost: prices(2), retryAfterSeconds: 2 })
    const other = randomAddress()
    for (const hours of [22, 5, 4]) await lose(other, {}, hours)
    const refused = (await accept(other)) as { retryAfterSeconds: number }
    expect(Math.round(refused.retryAfterSeconds / 3600)).toBe(2)
  })

  it('is never asked for a withheld result', async () => {
    const request = newTestJob({ exposure: { ...TERMS, highestPrice: atomicAmount(1n) } })
    const { id } = await jobInState(ledger, 'settlement_failed')
    const [owed] = await ledger.sql<{ idempotency_key: string; request_digest: string; payer: Payer }>(
      'SELECT idempotency_key, request_digest, payer FROM jobs WHERE id = $1',
      [id],
    )
    if (!owed) throw new Error('no job')
    const again = paidAgain({
      ...request,
      idempotencyKey: owed.idempotency_key,
      requestDigest: owed.request_digest,
      authorization: testAuthorization({ payer: owed.payer }),
    })
    expect(await ledger.acceptance.acceptPayment(again)).toEqual({ outcome: 'settles_again', jobId: id })
  })
})

describe('the limit of losses, divided by network', () => {
  it('gives each network a tenth of what the others have left, at several processes', async () => {
    const limits = limitOf(50)
    expect(await acceptAll(await strangers(20), limits)).toEqual({ accepted: 5, new_payer_limit: 15 })
    // A tenth of 45.
    expect(await acceptAll(await strangers(20, OTHER), limits)).toEqual({ accepted: 4, new_payer_limit: 16 })
  })

  it('gives each network one call of the highest price while the limit lasts, and never exceeds it', async () => {
    const networks = Array.from({ length: 30 }, (_, index) => `203.0.${index}.0/24`)
    const jobs = (await Promise.all(networks.map((network) => strangers(3, network)))).flat()
    expect(await acceptAll(jobs, limitOf(20))).toEqual({ accepted: 20, new_payer_limit: 70 })
  })

  it('closes the share of the network that losses come from, and says when it opens', async () => {
    const store = createAcceptanceStore(ledger.pool, limitOf(20))
    for (const hours of [23, 1]) await lose(randomAddress(), {}, hours)
    const [refused, accepted] = [...(await strangers(1)), ...(await strangers(1, OTHER))]
    if (!refused || !accepted) throw new Error('no jobs')
    const answer = (await store.acceptPayment(refused)) as { retryAfterSeconds: number }
    expect(answer).toMatchObject({ outcome: 'new_payer_limit', limit: 'network' })
    expect(Math.round(answer.retryAfterSeconds / 60)).toBe(60)
    expect(await store.acceptPayment(accepted)).toMatchObject({ outcome: 'accepted' })
  })

  it('forgets the network of a call that failed at once, and that of a loss when it no longer counts', async () => {
    const failed = await jobInState(ledger, 'generating', newTestJob({ exposure: TERMS, clientNetwork: HOME }))
    const networksOf = async (table: string, column: string) =>
      (
        await ledger.sql<{ network: string | null }>(
          `SELECT client_network AS network FROM ${table} WHERE ${column} = $1`,
          [failed.id],
        )
      ).map(({ network }) => network)
    await ledger.execution.failJob(failed, { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' })
    expect(await networksOf('jobs', 'id')).toEqual([null])
    await ledger.retention.forgetNetworks(10)
    expect(await networksOf('uncharged_work', 'job_id')).toEqual([HOME])
    await ledger.sql("UPDATE uncharged_work SET created_at = now() - interval '25 hours' WHERE job_id = $1", [
      failed.id,
    ])
    expect(await ledger.retention.forgetNetworks(10)).toBe(1)
    expect(await networksOf('uncharged_work', 'job_id')).toEqual([null])
  })

  it('keeps the network of a loss when the call is run again from another one', async () => {
    const request = newTestJob({ exposure: TERMS, clientNetwork: HOME })
    const failed = await jobInState(ledger, 'generating', request)
    await ledger.execution.failJob(failed, { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' })
    const again = { ...paidAgain(request), clientNetwork: OTHER }
    expect(await ledger.acceptance.acceptPayment(again)).toMatchObject({ outcome: 'accepted' })
    expect(await ledger.sql('SELECT client_network FROM uncharged_work')).toEqual([{ client_network: HOME }])
    expect(await ledger.sql('SELECT client_network FROM jobs WHERE id = $1', [failed.id])).toEqual([
      { client_network: OTHER },
    ])
  })

  it('lets only new payers wait for a process that has their turn, and these not for long', async () => {
    const payer = randomAddress()
    await complete(await accept(payer))
    const [covered, stranger] = [await bound(payer), ...(await strangers(1))]
    if (!stranger) throw new Error('no job')
    const holder = await ledger.pool.connect()
    await holder.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('farebox new payers', 0))")
    const waiting = ledger.acceptance.acceptPayment(stranger)
    await until(async () => {
      const rows = await ledger.sql(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'",
      )
      return rows.length === 1
    })
    expect(await ledger.acceptance.acceptPayment(covered)).toMatchObject({ outcome: 'accepted' })
    expect(await waiting).toEqual({ outcome: 'new_payer_limit', limit: 'all', retryAfterSeconds: 2 })
    await holder.query('ROLLBACK')
    holder.release()
    expect(await ledger.acceptance.acceptPayment(stranger)).toMatchObject({ outcome: 'accepted' })
  })
})
