import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { exportCalls } from '#shared/adapters/postgres/console/export-calls.ts'
import { createMoneyStore } from '#shared/adapters/postgres/console/money-store.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import type { CallFilter, ExportedCall, ListPosition, MoneyStore } from '#shared/operators/money-store.ts'
import { fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
let money: MoneyStore
beforeAll(async () => {
  ledger = await createTestLedger()
  money = createMoneyStore(ledger.pool)
})
afterAll(() => ledger.close())

async function settlementOf(jobId: string) {
  const [row] = await ledger.sql<{ id: string; transaction_hash: string; receipt_id: string; signed: string }>(
    `SELECT settlements.id, settlements.transaction_hash, jobs.receipt_id,
       (SELECT hash FROM settlement_transactions WHERE settlement_id = settlements.id) AS signed
     FROM settlements JOIN jobs ON jobs.id = job_id WHERE job_id = $1`,
    [jobId],
  )
  if (!row) throw new Error('the job has no settlement')
  return row
}

const matches = async (id: string) => (await money.findById(id)).map(({ kind, matched, id }) => [kind, matched, id])

it('finds a call by its id, request, key, receipt, settlement and every transaction', async () => {
  const request = newTestJob()
  const job = await jobInState(ledger, 'completed', request)
  const settlement = await settlementOf(job.id)
  expect(await matches(job.id)).toEqual([['job', 'job', job.id]])
  expect(await matches(job.id.toUpperCase())).toEqual([['job', 'job', job.id]])
  expect(await matches(request.origin.requestId ?? '')).toEqual([['job', 'request', job.id]])
  expect(await matches(request.idempotencyKey)).toEqual([['job', 'key', job.id]])
  expect(await matches(settlement.receipt_id)).toEqual([['job', 'receipt', job.id]])
  expect(await matches(settlement.id)).toEqual([['job', 'settlement', job.id]])
  expect(await matches(settlement.transaction_hash)).toEqual([['job', 'transaction', job.id]])
  expect(await matches(settlement.signed)).toEqual([['job', 'transaction', job.id]])
  const { payer } = request.authorization
  expect(await matches(payer.toUpperCase().replace('0X', '0x'))).toEqual([['payer', 'address', payer]])
})

it('finds nothing by a part of an idempotency key, or by text that is no id', async () => {
  const request = newTestJob({ idempotencyKey: `key-${randomUUID()}` })
  await jobInState(ledger, 'accepted', request)
  const key = request.idempotencyKey
  for (const id of [
    key.slice(0, -1),
    key.slice(1),
    `${key} `,
    key.toUpperCase(),
    '%',
    '_',
    '\0',
    '\ud800',
    'x'.repeat(5000),
  ])
    expect([id, await money.findById(id)]).toEqual([id, []])
  expect(await money.findById(randomAddress())).toEqual([])
  expect(await money.findById(`0x${'ab'.repeat(32)}`)).toEqual([])
})

it('finds a call by the key that it released, and by the transaction of its refund', async () => {
  const released = await jobInState(ledger, 'failed')
  const key = `released-${randomUUID()}`
  await ledger.sql('UPDATE jobs SET released_idempotency_key = $2, idempotency_key = NULL WHERE id = $1', [
    released.id,
    key,
  ])
  expect(await money.findById(key)).toEqual([{ kind: 'job', matched: 'released_key', id: released.id }])
  expect(await money.readPayment(released.id)).toMatchObject({ idempotencyKey: key, isKeyReleased: true })

  const reviewed = await jobInState(ledger, 'review')
  const refund = `0x${'7e'.repeat(32)}`
  await ledger.sql(
    `INSERT INTO resolutions (item, job_id, payer, outcome, amount, reason, operator, refund_network, refund_transaction,
       refund_log_index, refund_block)
     VALUES ('review', $1, $2, 'refunded', 5034, 'paid back', 'ada', 'eip155:8453', $3, 0, 9)`,
    [reviewed.id, reviewed.authorization.payer, refund],
  )
  expect(await money.findById(refund)).toEqual([{ kind: 'job', matched: 'refund', id: reviewed.id }])
  expect((await money.readPayment(reviewed.id))?.resolutions).toMatchObject([
    { item: 'review', outcome: 'refunded', amount: 5034n, operator: 'ada', refundTransaction: refund },
  ])
})

it('reads a payment in every state', async () => {
  for (const state of JOB_STATES) {
    const job = await jobInState(ledger, state)
    expect(await money.readPayment(job.id)).toMatchObject({ jobId: job.id, state })
  }
  expect(await money.readPayment(randomUUID())).toBeNull()
})

it('reads attempts, settlements with replaced transactions, and the receipt of a payment', async () => {
  const job = await jobInState(ledger, 'generating')
  await fencedWrites.startAttempt.run(ledger, job)
  expect((await money.readPayment(job.id))?.attempts).toMatchObject([
    { deployment: 'elevenlabs', state: 'failed_definite', reason: 'test' },
    { deployment: 'elevenlabs', state: 'open', finishedAt: null },
  ])

  const paid = await jobInState(ledger, 'completed')
  const settlement = await settlementOf(paid.id)
  const replacement = `0x${'c3'.repeat(32)}`
  await ledger.sql(
    `INSERT INTO settlement_transactions
       (hash, settlement_id, raw_transaction, network, facilitator, account_nonce, signed_at)
     SELECT $2, settlement_id, 'SECRET-RAW', network, facilitator, account_nonce, signed_at + interval '1 minute'
     FROM settlement_transactions WHERE settlement_id = $1`,
    [settlement.id, replacement],
  )
  const payment = await money.readPayment(paid.id)
  expect(payment).toMatchObject({
    charge: 5034n,
    result: 'stored',
    receipt: { id: settlement.receipt_id, charge: 5034n },
    authorizations: [{ authorizedMaximum: 5034n, payTo: '0x1111111111111111111111111111111111111111' }],
    settlements: [
      {
        state: 'confirmed',
        transaction: settlement.transaction_hash,
        blockNumber: 7n,
        finalizedAt: null,
        transactions: [{ hash: settlement.signed }, { hash: replacement }],
      },
    ],
  })
})

it('reads no prompt, result, signature, raw transaction, token or key of an upload', async () => {
  const job = await jobInState(ledger, 'completed')
  await ledger.sql(
    `INSERT INTO media (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at)
     VALUES (gen_random_uuid(), $1, $2, 'SECRET-OBJECT', 'image/png', $2, 10, now())`,
    [job.id, 'd'.repeat(64)],
  )
  const text = JSON.stringify(await money.readPayment(job.id), (_, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
  expect(text).toContain('image/png')
  expect(text).not.toMatch(/one canary|SECRET|dddddd|"signed"|"0x02/)
  expect(text).not.toContain(job.authorization.signature)
})

async function listAll(filter: CallFilter, limit: number): Promise<string[]> {
  const ids: string[] = []
  let after: ListPosition | null = null
  do {
    const page = await money.listCalls(filter, { limit, after })
    ids.push(...page.entries.map(({ jobId }) => jobId))
    after = page.next
  } while (after !== null)
  return ids
}

it('lists every call once, newest first, page by page, also when many were accepted in one moment', async () => {
  await ledger.sql("UPDATE jobs SET accepted_at = '2026-01-05T10:00:00.123456Z'")
  const newest = await jobInState(ledger, 'accepted')
  const stored = await ledger.sql<{ id: string }>('SELECT id FROM jobs ORDER BY accepted_at DESC, id DESC')
  expect(await listAll({}, 3)).toEqual(stored.map(({ id }) => id))
  expect(stored[0]?.id).toBe(newest.id)
  const before = new Date('2026-01-05T10:00:01Z')
  expect(await listAll({ until: before }, 50)).toHaveLength(stored.length - 1)
  expect(await listAll({ from: before }, 50)).toEqual([newest.id])
})

it('lists the calls of each state', async () => {
  for (const state of JOB_STATES) {
    const rows = await ledger.sql<{ id: string }>(
      'SELECT id FROM jobs WHERE state = $1 ORDER BY accepted_at DESC, id DESC',
      [state],
    )
    expect(rows.length).toBeGreaterThan(0)
    expect([state, await listAll({ state }, 2)]).toEqual([state, rows.map(({ id }) => id)])
  }
  const open = await ledger.sql(
    "SELECT id FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')",
  )
  expect(await listAll({ state: 'open' }, 4)).toHaveLength(open.length)
})

it('reads what a payer has open, owes and spent, and their ended calls page by page', async () => {
  const { payer } = testAuthorization()
  const own = () => newTestJob({ authorization: testAuthorization({ payer }) })
  const paid = [await jobInState(ledger, 'completed', own()), await jobInState(ledger, 'completed', own())]
  const open = await jobInState(ledger, 'generating', own())
  const owed = await jobInState(ledger, 'settlement_failed', own())
  await ledger.sql("UPDATE jobs SET finished_at = '2026-01-01T00:00:00Z' WHERE id = $1", [paid[0]?.id])
  await ledger.sql(
    `INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer)
     SELECT id, authorization_id, 'eip155:8453', payer, 'empty_output', 700, true FROM jobs WHERE id = $1`,
    [owed.id],
  )
  expect(await money.readPayer(payer)).toMatchObject({
    payer,
    open: [{ jobId: open.id }],
    exposure: { count: 1, amount: 5034n },
    owed: [{ jobId: owed.id, isOwed: true }],
    debts: { count: 1, amount: 5034n },
    spentToday: { count: 1, amount: 5034n },
    spentLately: { count: 1, amount: 5034n },
    isSpendCut: false,
    uncharged: [{ kind: 'empty_output', count: 1, amount: 700n }],
    permits: [],
    resolutions: [],
  })
  const first = await money.listPayerCalls(payer, { limit: 2, after: null })
  const second = await money.listPayerCalls(payer, { limit: 2, after: first.next })
  const ids = [...first.entries, ...second.entries].map(({ jobId }) => jobId)
  expect(ids).toEqual([owed.id, paid[1]?.id, paid[0]?.id])
  expect(second.next).toBeNull()
  expect(await money.readPayer(randomAddress())).toBeNull()
})

it('exports every call of a period once, oldest first, with the settlement that charged it', async () => {
  const job = await jobInState(ledger, 'completed')
  await ledger.sql("UPDATE jobs SET accepted_at = '2026-02-03T00:00:00Z' WHERE id = $1", [job.id])
  const exported = async (from: string, until: string) => {
    const period = { from: new Date(from), until: new Date(until) }
    const calls: ExportedCall[] = []
    for await (const page of exportCalls(ledger.pool, period, 3)) calls.push(...page)
    return calls
  }
  const { transaction_hash: transaction, receipt_id: receiptId } = await settlementOf(job.id)
  expect(await exported('2026-02-03T00:00:00Z', '2026-02-04T00:00:00Z')).toMatchObject([
    { jobId: job.id, charge: 5034n, transaction, receiptId, blockNumber: 7n, network: 'eip155:8453' },
  ])
  expect(await exported('2026-02-02T00:00:00Z', '2026-02-03T00:00:00Z')).toEqual([])
  const all = await exported('2026-01-01T00:00:00Z', '2100-01-01T00:00:00Z')
  const stored = await ledger.sql<{ id: string }>('SELECT id FROM jobs ORDER BY accepted_at, id')
  expect(all.map(({ jobId }) => jobId)).toEqual(stored.map(({ id }) => id))
})
