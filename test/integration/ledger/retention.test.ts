import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAccountStore } from '#shared/adapters/postgres/account/account-store.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { acceptTestJob, bindTestKey, jobInState } from '../../support/ledger/job-in-state.ts'
import { EFFECTIVE_REQUEST, newTestJob, paidAgain } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const DAY_MS = 24 * 3600 * 1000

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

async function age(jobId: string, interval: string): Promise<void> {
  await ledger.sql('UPDATE jobs SET finished_at = finished_at - $2::interval WHERE id = $1', [jobId, interval])
}

async function storedText(jobId: string) {
  const [row] = await ledger.sql<{ effective_request: string | null; result_body: string | null }>(
    'SELECT effective_request, result_body FROM jobs WHERE id = $1',
    [jobId],
  )
  return row
}

async function isStored(idempotencyKey: string): Promise<boolean> {
  const rows = await ledger.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey])
  return rows.length > 0
}

describe('the text of a request', () => {
  it.each(JOB_STATES)('stores the request of a %s job only while a provider may need it', async (state) => {
    const { id } = await jobInState(ledger, state)
    expect((await storedText(id))?.effective_request !== null).toBe(state === 'accepted' || state === 'generating')
  })

  it('stores the request again when a failed job is paid for again', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'failed', request)
    expect(await ledger.admission.acceptJob(paidAgain(request))).toMatchObject({ outcome: 'accepted', jobId: id })
    expect((await ledger.execution.claimJob(id, 60_000))?.effectiveRequest).toEqual(EFFECTIVE_REQUEST)
  })
})

describe('a result', () => {
  it('erases a result after its retention, not before, and keeps its receipt', async () => {
    const { id } = await jobInState(ledger, 'completed')
    await age(id, '6 days 23 hours')
    await ledger.retention.expireResults(7 * DAY_MS, 100)
    const kept = (await ledger.admission.readOutcomes([id])).get(id)
    if (kept?.state !== 'completed') throw new Error('not completed')
    await age(id, '2 hours')
    expect(await ledger.retention.expireResults(7 * DAY_MS, 100)).toBe(1)
    expect((await storedText(id))?.result_body).toBeNull()
    const { receiptId } = kept
    expect((await ledger.admission.readOutcomes([id])).get(id)).toEqual({ state: 'expired', receiptId })
    expect(await ledger.admission.findReceipt(receiptId)).toMatchObject({ id: receiptId })
  })

  it('erases a withheld result as well; a later payment then runs the job again', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'settlement_failed', request)
    await age(id, '8 days')
    expect(await ledger.retention.expireResults(7 * DAY_MS, 100)).toBe(1)
    expect(await ledger.admission.acceptJob(paidAgain(request))).toEqual({ outcome: 'accepted', jobId: id })
  })

  it('records a debt for a withheld result until it is erased', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'settlement_failed', request)
    const { payer } = request.authorization
    const other = newTestJob({ authorization: testAuthorization({ payer }) })
    await bindTestKey(ledger, other)
    expect(await ledger.admission.acceptJob(other)).toMatchObject({ outcome: 'unpaid_debt' })
    await age(id, '8 days')
    await ledger.retention.expireResults(7 * DAY_MS, 100)
    expect(await ledger.admission.acceptJob(other)).toMatchObject({ outcome: 'accepted' })
  })

  it.each(['generated', 'settling', 'review'] as const)('never erases the result of a %s job', async (state) => {
    const { id } = await jobInState(ledger, state)
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '100 days' WHERE id = $1", [id])
    await ledger.retention.expireResults(7 * DAY_MS, 100)
    expect((await storedText(id))?.result_body).not.toBeNull()
  })
})

describe('a key that was challenged', () => {
  it('deletes an unpaid key minutes after its challenge expired, so that free requests cannot pile up', async () => {
    const [old, fresh] = [newTestJob(), newTestJob()]
    await bindTestKey(ledger, old)
    await bindTestKey(ledger, fresh)
    const age = 'UPDATE idempotency_keys SET expires_at = now() - $2::interval WHERE idempotency_key = $1'
    await ledger.sql(age, [old.idempotencyKey, '3 minutes'])
    await ledger.sql(age, [fresh.idempotencyKey, '1 minute'])
    expect(await ledger.retention.forgetExpiredChallenges(100)).toBe(1)
    expect([await isStored(old.idempotencyKey), await isStored(fresh.idempotencyKey)]).toEqual([false, true])
  })

  it('keeps a key with a job permanently', async () => {
    const request = newTestJob()
    await acceptTestJob(ledger, request)
    const aged = "UPDATE idempotency_keys SET expires_at = now() - interval '1 year' WHERE idempotency_key = $1"
    await ledger.sql(aged, [request.idempotencyKey])
    await ledger.retention.forgetExpiredChallenges(100)
    expect(await isStored(request.idempotencyKey)).toBe(true)
  })
})

it('deletes the nonce of a sign-in minutes after its challenge expired, when no process accepts it any more', async () => {
  const store = createAccountStore(ledger.pool)
  for (const [nonce, minutes] of [
    ['old', 3],
    ['recent', 1],
    ['valid', -5],
  ] as const)
    expect(await store.useSignIn(nonce, minutesAgo(minutes))).toBe(true)
  expect(await ledger.retention.forgetUsedSignIns(100)).toBe(1)
  expect(await store.useSignIn('recent', minutesAgo(1))).toBe(false)
  expect(await store.useSignIn('valid', minutesAgo(-5))).toBe(false)
})

it('rejects truncating the receipts', async () => {
  await expect(ledger.sql('TRUNCATE receipts CASCADE')).rejects.toThrow('receipts are immutable')
})

function minutesAgo(minutes: number): Date {
  return new Date(Date.now() - minutes * 60_000)
}
