import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { JOB_STATES, type JobState, type LeasedJob } from '#shared/jobs/job.ts'
import { type ExportedCall, exportCalls } from '#shared/ledger/console/export-calls.ts'
import type { CallFilter } from '#shared/ledger/console/list-calls.ts'
import { createMoneyStore, type MoneyStore } from '#shared/ledger/console/money-store.ts'
import type { ListPosition } from '#shared/ledger/read-list.ts'
import { readAbsorbedCost, readUnchargedFailures, readUnchargedWork } from '#shared/ledger/reports/absorbed-cost.ts'
import { readContradictions } from '#shared/ledger/reports/contradictions.ts'
import { readReviewItems } from '#shared/ledger/reports/items.ts'
import {
  readSettlementsByTransaction,
  readSettlementsInBlocks,
  readSettlementsOutsideBlocks,
} from '#shared/ledger/reports/ledger-settlements.ts'
import { readDebts, readOpenExposure, readUnfinishedJobs } from '#shared/ledger/reports/open-work.ts'
import { readPaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import { resolvePeriod } from '#shared/ledger/reports/period.ts'
import { readChargesByModel, readRevenue, readSettlingNow } from '#shared/ledger/reports/revenue.ts'
import { fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const PERIOD = { from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z' }
const WITHIN = '2026-03-01T12:00:00Z'
const BEFORE = '2026-02-28T23:59:59.999999Z'
const AFTER = PERIOD.to
/** More than a `number` represents exactly. */
const HUGE = 2n ** 70n + 1n
interface Stored {
  readonly at?: string
  readonly charge?: bigint
  readonly model?: string
  readonly operation?: string
  readonly payer?: `0x${string}`
}

describe('what the console reads', () => {
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

  it('finds what begins with a text: a call by each of its ids, and a payer', async () => {
    const request = newTestJob({ origin: { requestId: `Begun_${randomUUID()}`, traceparent: null } })
    const job = await jobInState(ledger, 'completed', request)
    const settlement = await settlementOf(job.id)
    const { payer } = request.authorization
    for (const [id, length, matched] of [
      [job.id, 24, 'job'],
      [job.id.toUpperCase(), 24, 'job'],
      [job.id.replaceAll('-', ''), 20, 'job'],
      [settlement.receipt_id, 24, 'receipt'],
      [settlement.id, 35, 'settlement'],
      [request.origin.requestId ?? '', 12, 'request'],
      [settlement.transaction_hash, 14, 'transaction'],
      [settlement.signed, 14, 'transaction'],
      [request.idempotencyKey, 6, 'key'],
    ] as const)
      expect([id, await matches(id.slice(0, length))]).toEqual([id, [['job', matched, job.id]]])
    // As the console's tables cut it off.
    expect(await matches(`${payer.slice(0, 8)}…${payer.slice(-4)}`)).toEqual([['payer', 'address', payer]])
    expect(await matches(payer.slice(0, 12).toUpperCase().replace('0X', '0x'))).toEqual([['payer', 'address', payer]])
    for (const nothing of [
      job.id.slice(0, 3),
      `${job.id.slice(0, 8)}--`,
      `${job.id.slice(0, 13)}g`,
      'Begun_%',
      'begun_',
    ])
      expect([nothing, await matches(nothing)]).toEqual([nothing, []])
  })

  it('lists no more than 20 findings of a beginning, and each payer once', async () => {
    for (let count = 0; count < 22; count += 1)
      await jobInState(ledger, 'accepted', newTestJob({ origin: { requestId: `many-${count}`, traceparent: null } }))
    expect(await matches('many')).toHaveLength(20)
    const { payer } = testAuthorization()
    for (let count = 0; count < 3; count += 1)
      await jobInState(ledger, 'failed', newTestJob({ authorization: testAuthorization({ payer }) }))
    expect(await matches(payer.slice(0, 20))).toEqual([['payer', 'address', payer]])
  })

  it('tells by no search how an idempotency key goes on behind what the console shows', async () => {
    const long = newTestJob({ idempotencyKey: `qz${randomUUID()}` })
    const short = newTestJob({ idempotencyKey: 'wxyz12345' })
    const [found] = [await jobInState(ledger, 'accepted', long), await jobInState(ledger, 'accepted', short)]
    const released = await jobInState(ledger, 'failed')
    await ledger.sql('UPDATE jobs SET released_idempotency_key = $2, idempotency_key = NULL WHERE id = $1', [
      released.id,
      'vutsrq-released',
    ])
    for (let length = 4; length <= 6; length += 1)
      expect(await matches(long.idempotencyKey.slice(0, length))).toEqual([['job', 'key', found?.id]])
    for (let length = 7; length < long.idempotencyKey.length; length += 1)
      expect(await matches(long.idempotencyKey.slice(0, length))).toEqual([])
    expect(await matches('wxyz')).toHaveLength(1)
    expect(await matches('wxyz1')).toEqual([])
    expect(await matches('vutsrq')).toEqual([['job', 'released_key', released.id]])
    expect(await matches('vutsrq-')).toEqual([])
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
    expect(text).not.toMatch(/one canary|SECRET|d{64}|"signed"/)
    expect(text).not.toContain(job.authorization.signature)
    const transactions = await ledger.sql<{ raw: string }>(
      'SELECT raw_transaction AS raw FROM settlement_transactions WHERE settlement_id IN (SELECT id FROM settlements WHERE job_id = $1)',
      [job.id],
    )
    expect(transactions).toHaveLength(1)
    for (const { raw } of transactions) expect(text).not.toContain(raw)
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
  const sorted = async (filter: CallFilter) => (await listAll(filter, 1)).toSorted()
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

  it('lists the calls of a code, model, deployment or payer, and those with at least a charge, also together', async () => {
    const [failed, other, charged] = [
      await jobInState(ledger, 'failed'),
      await jobInState(ledger, 'failed'),
      await jobInState(ledger, 'completed'),
    ]
    const changes = [failed.id, other.id, charged.id]
    await ledger.sql("UPDATE jobs SET public_model = 'rare-model' WHERE id = ANY($1)", [changes])
    await ledger.sql("UPDATE jobs SET failure_code = 'rare_code' WHERE id = $1", [failed.id])
    await ledger.sql("UPDATE upstream_attempts SET deployment = 'rare' WHERE job_id = ANY($1)", [
      [other.id, charged.id],
    ])
    expect(await sorted({ code: 'rare_code' })).toEqual([failed.id])
    expect(await sorted({ model: 'rare-model' })).toEqual(changes.toSorted())
    expect(await sorted({ deployment: 'rare' })).toEqual([other.id, charged.id].toSorted())
    expect(await sorted({ payer: other.authorization.payer })).toEqual([other.id])
    expect(await sorted({ model: 'rare-model', atLeast: TEST_PRICE })).toEqual([charged.id])
    expect(await sorted({ atLeast: TEST_PRICE + 1n })).toEqual([])
    expect(await sorted({ deployment: 'rare', state: 'failed', model: 'rare-model' })).toEqual([other.id])
    const period = { from: new Date(0), until: new Date(Date.now() + 86_400_000) }
    const exported: string[] = []
    for await (const calls of money.exportCalls({ ...period, deployment: 'rare', atLeast: 1n, state: 'completed' }))
      exported.push(...calls.map(({ jobId }) => jobId))
    expect(exported).toEqual([charged.id])
  })

  it('lists and exports the calls of a period by their end, each once and in its order', async () => {
    const period = { from: new Date('2026-01-15T00:00:00Z'), until: new Date('2026-01-16T00:00:00Z') }
    const states = ['completed', 'failed', 'settlement_failed', 'review', 'completed', 'failed'] as const
    const ended: { id: string; state: JobState }[] = []
    for (const [index, state] of states.entries()) {
      const { id } = await jobInState(ledger, state)
      // Two end in one moment; all were accepted the day before.
      await ledger.sql('UPDATE jobs SET accepted_at = $2, finished_at = $3 WHERE id = $1', [
        id,
        '2026-01-14T23:59:59Z',
        `2026-01-15T0${Math.min(index, 4)}:00:00.000001Z`,
      ])
      ended.push({ id, state })
    }
    for (const at of ['2026-01-14T23:59:59.999999Z', '2026-01-16T00:00:00Z']) {
      const { id } = await jobInState(ledger, 'completed')
      await ledger.sql("UPDATE jobs SET accepted_at = '2026-01-15T12:00:00Z', finished_at = $2 WHERE id = $1", [id, at])
    }
    const stored = await ledger.sql<{ id: string }>(
      'SELECT id FROM jobs WHERE finished_at >= $1 AND finished_at < $2 ORDER BY finished_at DESC, id DESC',
      [period.from, period.until],
    )
    expect(stored).toHaveLength(ended.length)
    const ids = stored.map(({ id }) => id)
    for (const limit of [1, 4]) expect(await listAll({ by: 'ended', ...period }, limit)).toEqual(ids)
    const last = await money.listCalls({ by: 'ended', ...period }, { limit: 5, after: null })
    const back = { limit: 5, after: null, before: last.next ?? undefined }
    expect((await money.listCalls({ by: 'ended', ...period }, back)).entries).toEqual(last.entries)
    const exported: string[] = []
    for await (const page of exportCalls(ledger.pool, { by: 'ended', ...period }, 2))
      exported.push(...page.map(({ jobId }) => jobId))
    expect(exported).toEqual(ids.toReversed())
    for (const state of [...JOB_STATES, 'open', 'uncharged'] as const) {
      const meant = ended.filter((call) => call.state === state || (state === 'uncharged' && /fail/.test(call.state)))
      const listed = await sorted({ by: 'ended', state, ...period })
      expect([state, listed]).toEqual([state, meant.map(({ id }) => id).toSorted()])
    }
    const failures = await money.readFailures(period)
    for (const { code, model, count } of failures.most)
      expect(await sorted({ by: 'ended', code, model, ...period })).toHaveLength(count)
    expect(failures.most).toHaveLength(2)
  })

  it('counts the calls that failed by code and model, and those without a provider call', async () => {
    const [day, next] = [new Date('2026-01-09T00:00:00Z'), new Date('2026-01-10T00:00:00Z')]
    const failed = [await jobInState(ledger, 'failed'), await jobInState(ledger, 'failed')]
    const withheld = await jobInState(ledger, 'settlement_failed')
    const charged = await jobInState(ledger, 'completed')
    const ids = [...failed, withheld, charged].map(({ id }) => id)
    await ledger.sql('UPDATE jobs SET finished_at = $2 WHERE id = ANY($1)', [ids, '2026-01-09T12:00:00Z'])
    await ledger.sql('DELETE FROM upstream_attempts WHERE job_id = $1', [failed[0]?.id])
    const { publicModel: model } = charged
    expect(await money.readFailures({ from: day, until: next })).toEqual({
      ended: 4,
      failed: 3,
      withoutAttempt: 1,
      most: [
        { code: 'provider_unavailable', model, count: 2, withoutAttempt: 1 },
        { code: 'settlement_failed', model, count: 1, withoutAttempt: 0 },
      ],
    })
    expect(await money.readFailures({ from: new Date(0), until: new Date(1) })).toEqual({
      ended: 0,
      failed: 0,
      withoutAttempt: 0,
      most: [],
    })
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
    const uncharged = await ledger.sql("SELECT id FROM jobs WHERE state IN ('failed', 'settlement_failed')")
    expect(await listAll({ state: 'uncharged' }, 4)).toHaveLength(uncharged.length)
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
})

describe('queries of the ledger', () => {
  let ledger: TestLedger
  beforeEach(async () => {
    ledger = await createTestLedger(4)
  })

  afterEach(() => ledger.close())

  /** Creates a job in `state`, then changes its time and charge. */
  async function stored(state: JobState, { at = WITHIN, charge, model, operation, payer }: Stored = {}) {
    const request = newTestJob({
      ...(model ? { publicModel: model } : {}),
      ...(payer ? { authorization: testAuthorization({ payer }) } : {}),
    })
    const job = await jobInState(ledger, state, request)
    await ledger.sql(
      `UPDATE jobs SET finished_at = CASE WHEN finished_at IS NULL THEN NULL ELSE $2::timestamptz END,
       quoted_maximum = GREATEST(quoted_maximum, $3::numeric), charge_amount = COALESCE($3::numeric, charge_amount), operation = COALESCE($4, operation) WHERE id = $1`,
      [job.id, at, charge?.toString() ?? null, operation ?? null],
    )
    await ledger.sql(
      `UPDATE settlements SET finished_at = CASE WHEN finished_at IS NULL THEN NULL ELSE $2::timestamptz END,
       charge_amount = COALESCE($3::numeric, charge_amount) WHERE job_id = $1`,
      [job.id, at, charge?.toString() ?? null],
    )
    await ledger.sql('UPDATE upstream_attempts SET finished_at = $2 WHERE job_id = $1 AND finished_at IS NOT NULL', [
      job.id,
      at,
    ])
    if (charge !== undefined) await setReceiptCharge(job, charge)
    return job
  }
  /** Changes an immutable receipt, as only an administrator can, who may disable triggers. */
  async function setReceiptCharge(job: LeasedJob, charge: bigint): Promise<void> {
    await ledger.sql(
      `SET session_replication_role = replica;
     UPDATE receipts SET body = jsonb_set(body, '{charge_atomic}', '"${charge}"') WHERE job_id = '${job.id}';
     RESET session_replication_role`,
    )
  }
  test('reports revenue and charges by model of a half-open period exactly, beyond the precision of numbers', async () => {
    await stored('completed', { at: PERIOD.from, charge: HUGE, model: 'a', operation: 'one' })
    await stored('completed', { charge: 2n, model: 'a', operation: 'one' })
    await stored('completed', { charge: 6n, model: 'a', operation: 'one' })
    await stored('completed', { charge: 7n, model: 'a', operation: 'two' })
    await stored('completed', { at: AFTER, charge: 1000n, model: 'a', operation: 'one' })
    await stored('completed', { at: BEFORE, charge: 1000n, model: 'a', operation: 'one' })
    expect(await readRevenue(ledger.pool, PERIOD)).toEqual({ count: 4, totalAtomic: HUGE + 15n })
    expect(await readChargesByModel(ledger.pool, PERIOD)).toEqual([
      {
        model: 'a',
        operation: 'one',
        count: 3,
        totalAtomic: HUGE + 8n,
        meanAtomic: `${(HUGE + 8n) / 3n}.33`,
        smallestAtomic: 2n,
        largestAtomic: HUGE,
      },
      {
        model: 'a',
        operation: 'two',
        count: 1,
        totalAtomic: 7n,
        meanAtomic: '7.00',
        smallestAtomic: 7n,
        largestAtomic: 7n,
      },
    ])
    expect(await readContradictions(ledger.pool, PERIOD)).toEqual([])
  })

  test('resolves a period without bounds to the last 24 hours by the database’s clock', async () => {
    const { from, to } = await resolvePeriod(ledger.pool, {})
    expect(Date.parse(to) - Date.parse(from)).toBe(24 * 3600 * 1000)
    const since = await resolvePeriod(ledger.pool, { to: '2026-03-02T01:00:00+01:00' })
    expect([Date.parse(since.from), Date.parse(since.to)]).toEqual([Date.parse(PERIOD.from), Date.parse(PERIOD.to)])
  })

  describe('reports over jobs in every state', () => {
    const largestPayer = randomAddress()
    let jobs: Record<JobState, LeasedJob>
    beforeEach(async () => {
      jobs = {
        accepted: await stored('accepted', { payer: largestPayer }),
        generating: await stored('generating', { payer: largestPayer }),
        generated: await stored('generated', { payer: largestPayer, charge: 17n }),
        settling: await stored('settling', { charge: 19n }),
        completed: await stored('completed', { charge: 23n }),
        failed: await stored('failed'),
        settlement_failed: await stored('settlement_failed', { payer: largestPayer, charge: 29n }),
        review: await stored('review', { charge: 31n }),
      }
      await stored('failed')
      await stored('settlement_failed', { charge: 37n })
      await stored('settlement_failed', { at: BEFORE, charge: 41n })
    })

    test('counts the failures of the period by error code', async () => {
      expect(await readUnchargedFailures(ledger.pool, PERIOD)).toEqual([
        { state: 'failed', code: 'provider_unavailable', count: 2 },
        { state: 'settlement_failed', code: 'settlement_failed', count: 2 },
      ])
    })

    test('reports open exposure as the charge where it is fixed, and the quoted maximum before', async () => {
      expect(await readOpenExposure(ledger.pool)).toEqual({
        count: 4,
        totalAtomic: 5034n + 5034n + 17n + 19n,
        payers: 2,
        greatest: [
          { payer: largestPayer, count: 3, totalAtomic: 5034n + 5034n + 17n },
          { payer: jobs.settling.authorization.payer, count: 1, totalAtomic: 19n },
        ],
      })
      expect(await readSettlingNow(ledger.pool)).toEqual({ count: 1, totalAtomic: 19n })
    })

    test('reports all unpaid debts, of any age', async () => {
      expect(await readDebts(ledger.pool)).toMatchObject({
        count: 3,
        totalAtomic: 29n + 37n + 41n,
        payers: 3,
        greatest: [{ totalAtomic: 41n }, { totalAtomic: 37n }, { payer: largestPayer, count: 1, totalAtomic: 29n }],
      })
    })

    test('reports absorbed cost: withheld charges exactly, unknown outcomes and replaced results at their maxima', async () => {
      await ledger.sql("UPDATE upstream_attempts SET state = 'failed_ambiguous' WHERE job_id = $1", [jobs.failed.id])
      await ledger.sql('UPDATE authorizations SET authorized_maximum = 43 WHERE id = $1', [jobs.failed.authorizationId])
      // An earlier attempt of the completed job succeeded as well, under an earlier authorization.
      await ledger.sql(
        `INSERT INTO authorizations (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed,
         challenge_token_sha256)
       SELECT gen_random_uuid(), job_id, network, payer, 1, 47, deadline, signed, challenge_token_sha256 FROM authorizations WHERE id = $1`,
        [jobs.completed.authorizationId],
      )
      await ledger.sql(
        `INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state, started_at,
         finished_at)
       SELECT gen_random_uuid(), job_id, id, 'x', 'v', 'm', 'succeeded', $2, $2 FROM authorizations WHERE job_id = $1 AND nonce = 1`,
        [jobs.completed.id, WITHIN],
      )
      const record = (kind: string, amount: bigint) =>
        ledger.sql(
          `INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, created_at)
         SELECT job_id, id, network, payer, $2, $3, false, $4 FROM authorizations WHERE id = $1`,
          [jobs.failed.authorizationId, kind, amount.toString(), WITHIN],
        )
      await record('unknown_outcome', 43n)
      await record('empty_output', 53n)
      await record('rejected_request', 59n)
      await record('reverted_settlement', 61n)
      expect(await readAbsorbedCost(ledger.pool, PERIOD)).toEqual({
        withheldCharges: { count: 2, totalAtomic: 29n + 37n },
        ambiguousAttempts: { count: 1, totalAtomic: 43n },
        emptyOutputs: { count: 1, totalAtomic: 53n },
        rejectedRequests: { count: 1, totalAtomic: 59n },
        replacedResults: { count: 1, totalAtomic: 47n },
        revertedSettlements: { count: 1, totalAtomic: 61n },
      })
      const { payer } = jobs.failed.authorization
      expect(await readUnchargedWork(ledger.pool, PERIOD)).toEqual({
        byKind: [
          { kind: 'reverted_settlement', count: 1, totalAtomic: 61n },
          { kind: 'rejected_request', count: 1, totalAtomic: 59n },
          { kind: 'empty_output', count: 1, totalAtomic: 53n },
          { kind: 'unknown_outcome', count: 1, totalAtomic: 43n },
        ],
        byPayer: { count: 4, totalAtomic: 216n, payers: 1, greatest: [{ payer, count: 4, totalAtomic: 216n }] },
      })
    })

    test('lists a job in review with its settlement and reason', async () => {
      const [{ hash } = { hash: '' }] = await ledger.sql<{ hash: string }>(
        'SELECT hash FROM settlement_transactions JOIN settlements ON settlements.id = settlement_id WHERE job_id = $1',
        [jobs.review.id],
      )
      expect(await readReviewItems(ledger.pool)).toMatchObject({
        count: 1,
        oldest: [
          {
            jobId: jobs.review.id,
            jobState: 'review',
            settlementState: 'unproven',
            transaction: hash,
            chargeAtomic: 31n,
            reason: 'test',
          },
        ],
      })
    })

    test('counts unfinished jobs by state, with the oldest of each', async () => {
      await ledger.sql("UPDATE jobs SET accepted_at = accepted_at - interval '1 hour' WHERE id = $1", [
        jobs.settling.id,
      ])
      const unfinished = await readUnfinishedJobs(ledger.pool)
      expect(unfinished.map(({ state }) => state).sort()).toEqual(['accepted', 'generated', 'generating', 'settling'])
      expect(unfinished[0]).toMatchObject({ state: 'settling', count: 1, oldestJobId: jobs.settling.id })
      expect(unfinished[0]?.oldestAgeMs).toBeGreaterThanOrEqual(3_600_000)
    })

    test('finds settlements inside of blocks, outside of blocks, and by any transaction signed for them', async () => {
      const within = await readSettlementsInBlocks(ledger.pool, PERIOD, { first: 7n, last: 7n })
      expect(within).toMatchObject([
        { jobId: jobs.completed.id, chargeAtomic: 23n, state: 'confirmed', isInPeriod: true },
      ])
      expect(await readSettlementsInBlocks(ledger.pool, PERIOD, { first: 8n, last: 99n })).toEqual([])
      const page = { after: '00000000-0000-0000-0000-000000000000', limit: 10 }
      expect(await readSettlementsOutsideBlocks(ledger.pool, PERIOD, { first: 7n, last: 7n }, page)).toEqual([])
      const outside = await readSettlementsOutsideBlocks(ledger.pool, PERIOD, { first: 8n, last: 99n }, page)
      expect(outside).toEqual(within)
      const next = { ...page, after: outside[0]?.settlementId ?? '' }
      expect(await readSettlementsOutsideBlocks(ledger.pool, PERIOD, { first: 8n, last: 99n }, next)).toEqual([])
      const signed = await ledger.sql<{ hash: string }>(
        'SELECT hash FROM settlement_transactions JOIN settlements ON settlements.id = settlement_id WHERE job_id = $1',
        [jobs.settling.id],
      )
      const hashes = [...signed.map(({ hash }) => hash), '0xunknown']
      expect(await readSettlementsByTransaction(ledger.pool, PERIOD, hashes)).toMatchObject([
        { jobId: jobs.settling.id, state: 'signed', blockNumber: null, isInPeriod: false },
      ])
    })

    test('reads the parties of payments from the authorizations', async () => {
      expect(await readPaymentParties(ledger.pool)).toEqual({
        recipients: ['0x1111111111111111111111111111111111111111'],
        facilitators: ['0x2222222222222222222222222222222222222222'],
      })
    })

    test('reports contradictions: a different charge or receipt, a missing settlement, a settlement of an unfinished job', async () => {
      const corrupt = async (statement: string, job: LeasedJob) => {
        await ledger.sql(
          `SET session_replication_role = replica; ${statement.replaceAll('$1', `'${job.id}'`)}; RESET session_replication_role`,
        )
      }
      const charge = await stored('completed', { charge: 100n })
      const receipt = await stored('completed', { charge: 100n })
      const lost = await stored('completed', { charge: 100n })
      const early = await stored('completed', { charge: 100n })
      expect(await readContradictions(ledger.pool, PERIOD)).toEqual([])
      await corrupt('UPDATE jobs SET charge_amount = 99 WHERE id = $1', charge)
      await setReceiptCharge(receipt, 101n)
      await corrupt('DELETE FROM settlements WHERE job_id = $1', lost)
      await corrupt(
        "UPDATE jobs SET state = 'settling', receipt_id = NULL, payment_response = NULL WHERE id = $1",
        early,
      )
      const found = await readContradictions(ledger.pool, PERIOD)
      expect(new Map(found.map((contradiction) => [contradiction.jobId, contradiction]))).toMatchObject(
        new Map([
          [charge.id, { chargeAtomic: 99n, settledAtomic: 100n, receiptAtomic: 100n }],
          [receipt.id, { chargeAtomic: 100n, settledAtomic: 100n, receiptAtomic: 101n }],
          [lost.id, { chargeAtomic: 100n, settledAtomic: null, receiptAtomic: 100n }],
          [early.id, { jobState: 'settling', settledAtomic: 100n }],
        ]),
      )
      expect(found).toHaveLength(4)
    })
  })
})
