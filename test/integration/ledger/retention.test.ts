import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jobStates } from '#shared/jobs/job.ts'
import {
  acceptTestJob,
  bindTestKey,
  createTestLedger,
  EFFECTIVE,
  jobInState,
  newTestJob,
  paidAfresh,
  type TestLedger,
  testAuthorization,
} from '../../support/ledger/test-ledger.ts'

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

async function isRemembered(idempotencyKey: string): Promise<boolean> {
  const rows = await ledger.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey])
  return rows.length > 0
}

describe('the text of a request', () => {
  it.each(jobStates)('is kept in the state %s only while a provider may need it', async (state) => {
    const { id } = await jobInState(ledger, state)
    expect((await storedText(id))?.effective_request !== null).toBe(state === 'accepted' || state === 'generating')
  })

  it('comes with the request again when a failed job is paid for afresh', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'failed', request)
    expect(await ledger.admission.acceptJob(paidAfresh(request))).toMatchObject({ outcome: 'accepted', jobId: id })
    expect((await ledger.execution.claimJob(id, 60_000))?.effectiveRequest).toEqual(EFFECTIVE)
  })
})

describe('a result', () => {
  it('is erased once its retention is over and not before, and its receipt stays', async () => {
    const { id } = await jobInState(ledger, 'completed')
    await age(id, '6 days 23 hours')
    await ledger.execution.expireResults(7 * DAY_MS, 100)
    const kept = (await ledger.admission.readOutcomes([id])).get(id)
    if (kept?.state !== 'completed') throw new Error('not completed')
    await age(id, '2 hours')
    expect(await ledger.execution.expireResults(7 * DAY_MS, 100)).toBe(1)
    expect((await storedText(id))?.result_body).toBeNull()
    const { receiptId, receiptSecretId } = kept
    expect((await ledger.admission.readOutcomes([id])).get(id)).toEqual({
      state: 'expired',
      receiptId,
      receiptSecretId,
    })
    expect(await ledger.admission.findReceipt(receiptId)).toMatchObject({ id: receiptId })
  })

  it('that is withheld is erased as well; paying then takes new work', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'settlement_failed', request)
    await age(id, '8 days')
    expect(await ledger.execution.expireResults(7 * DAY_MS, 100)).toBe(1)
    expect(await ledger.admission.acceptJob(paidAfresh(request))).toEqual({ outcome: 'accepted', jobId: id })
  })

  it('that is withheld is owed for until it is erased', async () => {
    const request = newTestJob()
    const { id } = await jobInState(ledger, 'settlement_failed', request)
    const { payer } = request.authorization
    const other = newTestJob({ authorization: testAuthorization({ payer }) })
    await bindTestKey(ledger, other)
    expect(await ledger.admission.acceptJob(other)).toMatchObject({ outcome: 'unpaid_debt' })
    await age(id, '8 days')
    await ledger.execution.expireResults(7 * DAY_MS, 100)
    expect(await ledger.admission.acceptJob(other)).toMatchObject({ outcome: 'accepted' })
  })

  it.each(['generated', 'settling', 'review'] as const)('that is %s is never erased', async (state) => {
    const { id } = await jobInState(ledger, state)
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '100 days' WHERE id = $1", [id])
    await ledger.execution.expireResults(7 * DAY_MS, 100)
    expect((await storedText(id))?.result_body).not.toBeNull()
  })
})

describe('a key that was challenged', () => {
  it('is forgotten an hour after its challenge when nobody paid', async () => {
    const [old, fresh] = [newTestJob(), newTestJob()]
    await bindTestKey(ledger, old)
    await bindTestKey(ledger, fresh)
    const aged = "UPDATE idempotency_keys SET expires_at = now() - interval '61 minutes' WHERE idempotency_key = $1"
    await ledger.sql(aged, [old.idempotencyKey])
    expect(await ledger.execution.forgetExpiredChallenges(100)).toBe(1)
    expect([await isRemembered(old.idempotencyKey), await isRemembered(fresh.idempotencyKey)]).toEqual([false, true])
  })

  it('is kept for good once a job has it', async () => {
    const request = newTestJob()
    await acceptTestJob(ledger, request)
    const aged = "UPDATE idempotency_keys SET expires_at = now() - interval '1 year' WHERE idempotency_key = $1"
    await ledger.sql(aged, [request.idempotencyKey])
    await ledger.execution.forgetExpiredChallenges(100)
    expect(await isRemembered(request.idempotencyKey)).toBe(true)
  })
})

it('receipts cannot be truncated', async () => {
  await expect(ledger.sql('TRUNCATE receipts CASCADE')).rejects.toThrow('receipts are immutable')
})
