import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ResolutionOutcome } from '#shared/jobs/resolution.ts'
import { readResolutions, readReviewItems, readUnknownSettlements } from '#shared/ledger/reports/items.ts'
import { readDebts } from '#shared/ledger/reports/open-work.ts'
import { resolvePeriod } from '#shared/ledger/reports/period.ts'
import { createResolutionStore, type ResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { hashMediaToken, newMediaToken } from '#shared/media/media.ts'
import type { Author } from '#shared/operators/author.ts'
import {
  allowedOutcomes,
  formatItemName,
  type ItemName,
  parseItemName,
  type Resolution,
} from '#shared/operators/item.ts'
import { bindTestKey, claimTestJob, fencedWrites, jobInState, storedState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, paidAgain } from '../../support/ledger/new-test-job.ts'
import {
  inDebt,
  inReview,
  lostSettlement,
  makeSurplus,
  type OpenItem,
  randomHash,
  requestOf,
  surplusSettlement,
  unknownSettlement,
} from '../../support/ledger/open-item.ts'
import { NETWORK, randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const ANNA: Author = { operator: 'anna', source: 'console' }
const BEN: Author = { operator: 'ben', source: 'command' }

let ledger: TestLedger
let store: ResolutionStore
beforeAll(async () => {
  ledger = await createTestLedger()
  store = createResolutionStore(ledger.pool)
})
afterAll(() => ledger.close())

function nameOf({ id }: Pick<OpenItem, 'id'>): ItemName {
  const name = parseItemName(id)
  if (!name) throw new Error(`${id} is no name of an item`)
  return name
}

async function find(item: Pick<OpenItem, 'id'>) {
  const found = await store.findItem(nameOf(item))
  if (!found) throw new Error(`there is no item ${item.id}`)
  return found
}

function decided(outcome: ResolutionOutcome, transfers?: NonNullable<Resolution['refund']>['transfers']): Resolution {
  return { outcome, reason: 'agreed with the payer', refund: transfers ? { network: NETWORK, transfers } : null }
}

function refundIn(transaction = randomHash(), logIndex = 0) {
  return { transaction, logIndex, blockNumber: 100n }
}

async function resolve(item: Pick<OpenItem, 'id'>, resolution: Resolution, author = ANNA) {
  return await store.storeResolution(nameOf(item), resolution, author)
}

async function openIdsOf(payer: string): Promise<readonly string[]> {
  const { entries } = await store.openItems({ payer }, { limit: 10, after: null })
  return entries.map(({ id }) => id)
}

const KINDS: readonly {
  readonly kind: string
  readonly state: string
  readonly amount: bigint
  readonly make: (ledger: TestLedger) => Promise<OpenItem>
  readonly outcomes: readonly ResolutionOutcome[]
}[] = [
  {
    kind: 'review',
    state: 'unproven',
    amount: 5034n,
    make: (to) => inReview(to),
    outcomes: ['refunded', 'paid_outside', 'written_off', 're_served'],
  },
  {
    kind: 'settlement',
    state: 'lost',
    amount: 5034n,
    make: (to) => lostSettlement(to),
    outcomes: ['paid_outside', 'written_off'],
  },
  {
    kind: 'settlement',
    state: 'surplus',
    amount: 5034n,
    make: (to) => surplusSettlement(to),
    outcomes: ['refunded', 'paid_outside'],
  },
  {
    kind: 'unknown_settlement',
    state: 'unknown',
    amount: 4000n,
    make: (to) => unknownSettlement(to),
    outcomes: ['refunded', 'paid_outside', 'written_off'],
  },
  {
    kind: 'debt',
    state: 'owed',
    amount: 5034n,
    make: (to) => inDebt(to),
    outcomes: ['paid_outside', 'forgiven', 'written_off'],
  },
]
const ENDINGS = KINDS.flatMap(({ outcomes, ...kind }) => outcomes.map((outcome) => ({ ...kind, outcome })))

describe('an item for a person', () => {
  it.each(KINDS)(
    '$kind $state: it is open with its amount, its evidence and the outcomes that fit',
    async (expected) => {
      const item = await expected.make(ledger)
      const found = await find(item)
      const { payer, nonce } = found
      expect(found).toMatchObject({
        id: item.id,
        kind: expected.kind,
        state: expected.state,
        amount: expected.amount,
        resolution: null,
      })
      expect(payer).toBe(item.request.authorization.payer)
      expect(found.transaction !== null).toBe(expected.state !== 'owed')
      expect(allowedOutcomes(found)).toEqual(expected.outcomes)
      expect(await openIdsOf(payer)).toEqual([item.id])
      expect((await store.openItems({ kind: found.kind, payer }, { limit: 1, after: null })).entries).toMatchObject([
        { nonce },
      ])
      const ofJob = item.job
        ? (await store.openItems({ jobId: item.job.id }, { limit: 9, after: null })).entries
        : [found]
      expect(ofJob).toEqual([found])
      expect(formatItemName(nameOf(item))).toBe(item.id)
    },
  )

  it.each(ENDINGS)(
    '$kind $state: $outcome is recorded once, with who, why and its amount, and ends it',
    async (ending) => {
      const item = await ending.make(ledger)
      const before = item.job && (await storedState(ledger, item.job.id))
      const transfer = refundIn()
      const resolution = decided(ending.outcome, ending.outcome === 'refunded' ? [transfer] : undefined)
      const stored = await resolve(item, resolution)
      const recorded = {
        outcome: ending.outcome,
        amount: ending.amount,
        reason: 'agreed with the payer',
        operator: 'anna',
        refundTransaction: ending.outcome === 'refunded' ? transfer.transaction : null,
      }
      expect(stored).toMatchObject({ outcome: 'resolved', resolution: recorded })
      expect(await openIdsOf(item.request.authorization.payer)).toEqual([])
      expect((await find(item)).resolution).toMatchObject(recorded)
      expect(item.job && (await storedState(ledger, item.job.id))).toEqual(before)
      const actions = await ledger.sql(
        'SELECT operator, source, action, reason, details FROM operator_actions WHERE subject = $1',
        [item.id],
      )
      expect(actions).toMatchObject([
        {
          operator: 'anna',
          source: 'console',
          action: 'item.resolve',
          details: { outcome: ending.outcome, amount: `${ending.amount}` },
        },
      ])
      const again = await resolve(item, resolution, BEN)
      expect(again).toMatchObject({ outcome: 'conflict', resolution: recorded })
    },
  )

  it.each(KINDS)('$kind $state: no other outcome is stored', async ({ make, outcomes }) => {
    const item = await make(ledger)
    const others = (['paid_outside', 'written_off', 'forgiven', 're_served'] as const).filter(
      (outcome) => !outcomes.includes(outcome),
    )
    for (const outcome of others)
      expect(await resolve(item, decided(outcome))).toEqual({ outcome: 'not_allowed', allowed: outcomes })
    expect((await find(item)).resolution).toBeNull()
  })

  it.each(KINDS)(
    '$kind $state: of many operators at once one ends it, and the others learn who did',
    async ({ make }) => {
      const item = await make(ledger)
      const authors = ['a', 'b', 'c', 'd', 'e', 'f'].map((operator): Author => ({ operator, source: 'console' }))
      const results = await Promise.all(authors.map((author) => resolve(item, decided('paid_outside'), author)))
      const winners = results.filter(({ outcome }) => outcome === 'resolved')
      expect(winners).toHaveLength(1)
      const [winner] = winners
      const { operator } = (winner?.outcome === 'resolved' && winner.resolution) || { operator: 'nobody' }
      const losers = results.filter((result) => result !== winner)
      expect(losers).toEqual(
        losers.map(() =>
          expect.objectContaining({ outcome: 'conflict', resolution: expect.objectContaining({ operator }) }),
        ),
      )
      const rows = await ledger.sql('SELECT 1 FROM operator_actions WHERE subject = $1', [item.id])
      expect(rows).toHaveLength(1)
    },
  )

  it('is never changed or removed once it is resolved', async () => {
    await resolve(await inReview(ledger), decided('written_off'))
    await expect(ledger.sql("UPDATE resolutions SET reason = 'other'")).rejects.toThrow(/immutable/)
    await expect(ledger.sql('DELETE FROM resolutions')).rejects.toThrow(/immutable/)
    await expect(ledger.sql('TRUNCATE resolutions')).rejects.toThrow(/immutable/)
  })

  it.each([
    'review:1',
    'review',
    'debt:',
    'job:0b7e2c14-0000-4000-8000-000000000000',
    'unknown_settlement:eip155:8453:0x12:3',
    '\0',
  ])('has no name like %j', (text) => expect(parseItemName(text)).toBeNull())

  it('is not found under the name of a job that needs no person', async () => {
    const { id } = await jobInState(ledger, 'completed')
    expect(await store.findItem({ kind: 'review', id })).toBeNull()
    expect(await store.findItem({ kind: 'debt', id })).toBeNull()
    expect(await resolve({ id: `review:${id}` }, decided('written_off'))).toEqual({ outcome: 'not_found' })
  })
})

/** Everything that shows items which wait for a person. */
async function waiting() {
  const { inReview: review } = await ledger.reports.readLedgerTotals()
  const { unproven, lost, surplus, unknown } = (await ledger.reports.readSettlementTotals()).counts
  const { count: listed } = await readReviewItems(ledger.pool)
  const { count: debts } = await readDebts(ledger.pool)
  const { count: unrecorded } = await readUnknownSettlements(ledger.pool)
  return { review, unproven, lost, surplus, unknown, listed, debts, unrecorded }
}

describe('the totals of the ledger', () => {
  it.each([
    ['in review', () => inReview(ledger), 'written_off', { review: 1, unproven: 1, listed: 1 }],
    ['lost', () => lostSettlement(ledger), 'paid_outside', { lost: 1, listed: 1 }],
    ['surplus', () => surplusSettlement(ledger), 'paid_outside', { surplus: 1, listed: 1 }],
    ['unknown', () => unknownSettlement(ledger), 'written_off', { unknown: 1, unrecorded: 1 }],
    ['owed', () => inDebt(ledger), 'written_off', { debts: 1 }],
  ] as const)(
    'have an item that is %s until it is resolved, and then among the resolved ones',
    async (_, make, outcome, added) => {
      const before = await waiting()
      const item = await make()
      const { amount } = await find(item)
      const expected = Object.fromEntries(
        Object.entries(before).map(([name, count]) => [name, count + ((added as Record<string, number>)[name] ?? 0)]),
      )
      expect(await waiting()).toEqual(expected)
      const { resolved } = await ledger.reports.readLedgerTotals()
      await resolve(item, decided(outcome))
      expect(await waiting()).toEqual(before)
      const { count, total } = resolved[outcome]
      expect((await ledger.reports.readLedgerTotals()).resolved).toEqual({
        ...resolved,
        [outcome]: { count: count + 1, total: total + amount },
      })
      const period = await resolvePeriod(ledger.pool, {})
      const { newest } = await readResolutions(ledger.pool, period)
      expect(newest[0]).toMatchObject({
        outcome,
        amountAtomic: amount,
        payer: item.request.authorization.payer,
        operator: 'anna',
      })
    },
  )

  it('count a settlement without a record with the review of its job, not twice', async () => {
    const before = await waiting()
    const request = newTestJob()
    const { job } = await inReview(ledger, request)
    if (job) await unknownSettlement(ledger, { request, job })
    const { review, unknown } = await waiting()
    expect({ review, unknown }).toEqual({ review: before.review + 1, unknown: before.unknown })
  })
})

describe('open items', () => {
  it('are listed page by page, oldest first, each once', async () => {
    const payer = randomAddress()
    const made = [
      await inReview(ledger, requestOf(payer)),
      await inReview(ledger, requestOf(payer)),
      await inReview(ledger, requestOf(payer)),
    ]
    made.push(await unknownSettlement(ledger, { request: requestOf(payer) }))
    const seen: string[] = []
    for (let after = null as Parameters<ResolutionStore['openItems']>[1]['after']; ;) {
      const page = await store.openItems({ payer: payer.toUpperCase().replace('0X', '0x') }, { limit: 1, after })
      seen.push(...page.entries.map(({ id }) => id))
      if (page.next === null) break
      after = page.next
    }
    expect(seen).toEqual(made.map(({ id }) => id))
  })
})

describe('a transfer that refunds', () => {
  it('refunds one item: another one is refused and names the first', async () => {
    const [first, second] = [await inReview(ledger), await surplusSettlement(ledger)]
    const transfer = refundIn()
    await resolve(first, decided('refunded', [transfer]))
    expect(await resolve(second, decided('refunded', [transfer]))).toEqual({
      outcome: 'refund_used',
      itemIds: [first.id],
    })
    expect((await find(second)).resolution).toBeNull()
  })

  it('refunds one of many items at once', async () => {
    const items = await Promise.all(Array.from({ length: 6 }, () => unknownSettlement(ledger)))
    const transfer = refundIn()
    const results = await Promise.all(items.map((item) => resolve(item, decided('refunded', [transfer]))))
    expect(results.map(({ outcome }) => outcome).toSorted()).toEqual([...Array(5).fill('refund_used'), 'resolved'])
  })

  it('may be in one transaction with others: each refunds its own item', async () => {
    const items = [await inReview(ledger), await inReview(ledger), await unknownSettlement(ledger)]
    const transaction = randomHash()
    const transfers = [refundIn(transaction, 3), refundIn(transaction, 5), refundIn(transaction, 8)]
    const results = await Promise.all(items.map((item) => resolve(item, decided('refunded', transfers))))
    expect(results.map(({ outcome }) => outcome)).toEqual(['resolved', 'resolved', 'resolved'])
  })
})

describe('a debt', () => {
  it.each(['paid_outside', 'forgiven'] as const)(
    'that is %s is owed no more: its payer buys again, and may still buy the result',
    async (outcome) => {
      const item = await inDebt(ledger)
      const { payer } = item.request.authorization
      const other = requestOf(payer)
      await ledger.acceptance.bindKey({ ...other, lifetimeSeconds: 600 })
      expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'unpaid_debt' })
      await resolve(item, decided(outcome))
      expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'accepted' })
      expect(await ledger.acceptance.acceptPayment(paidAgain(item.request))).toMatchObject({ outcome: 'settles_again' })
    },
  )

  it('that is written off is still to be paid before its payer buys again, and may be forgiven later', async () => {
    const item = await inDebt(ledger)
    const other = requestOf(item.request.authorization.payer)
    await ledger.acceptance.bindKey({ ...other, lifetimeSeconds: 600 })
    await resolve(item, decided('written_off'))
    expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'unpaid_debt' })
    expect(allowedOutcomes(await find(item))).toEqual(['paid_outside', 'forgiven'])
    expect(await resolve(item, decided('written_off'))).toMatchObject({ outcome: 'conflict' })
    expect(await resolve(item, decided('forgiven'), BEN)).toMatchObject({ outcome: 'resolved' })
    expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'accepted' })
  })

  it('that is paid meanwhile cannot be ended', async () => {
    const item = await inDebt(ledger)
    await ledger.acceptance.acceptPayment(paidAgain(item.request))
    expect(await resolve(item, decided('forgiven'))).toEqual({ outcome: 'not_found' })
  })

  it('is open again when the next settlement of a written-off result fails too', async () => {
    const item = await inDebt(ledger)
    await resolve(item, decided('written_off'))
    await ledger.sql("UPDATE settlements SET finished_at = now() - interval '1 day' WHERE job_id = $1", [item.job?.id])
    expect(await ledger.acceptance.acceptPayment(paidAgain(item.request))).toMatchObject({ outcome: 'settles_again' })
    const again = await claimTestJob(ledger, item.job?.id ?? '')
    await fencedWrites.failSettlement.run(ledger, again)
    expect(await openIdsOf(item.request.authorization.payer)).toEqual([item.id])
    expect(allowedOutcomes(await find(item))).toEqual(['paid_outside', 'forgiven', 'written_off'])
  })
})

/** Stores media of an item's result. Returns their token. */
async function withMedia({ job }: OpenItem): Promise<string> {
  const token = newMediaToken()
  await ledger.sql(
    `INSERT INTO media (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at)
     VALUES (gen_random_uuid(), $1, $2, $3, 'image/png', $4, 10, now() + interval '1 day')`,
    [job?.id, hashMediaToken(token), `media/images/${token}`, 'a'.repeat(64)],
  )
  return token
}

describe('a review', () => {
  it('has the settlement that was found for its payment: its amount, and one resolution for both', async () => {
    const request = newTestJob()
    const { job, id } = await inReview(ledger, request)
    if (!job) throw new Error('a review has a job')
    const found = await unknownSettlement(ledger, { request, job, blockNumber: 42n })
    expect(await openIdsOf(request.authorization.payer)).toEqual([id])
    expect(await find(found)).toMatchObject({ id, amount: 4000n, blockNumber: 42n })
    expect(await resolve(found, decided('paid_outside'))).toMatchObject({ outcome: 'resolved' })
    const [row] = await ledger.sql('SELECT resolved_at FROM unknown_settlements WHERE payer = $1', [
      request.authorization.payer,
    ])
    expect(row).toEqual({ resolved_at: expect.any(Date) })
    expect(await openIdsOf(request.authorization.payer)).toEqual([])
  })

  it('has the settlement of its payment that an API found before it, so that the payer is refunded once', async () => {
    const request = newTestJob()
    const before = (await ledger.reports.readSettlementTotals()).counts
    const found = await unknownSettlement(ledger, { request })
    const { id } = await inReview(ledger, request)
    expect(await openIdsOf(request.authorization.payer)).toEqual([id])
    expect(await find(found)).toMatchObject({ id, amount: 4000n })
    expect((await ledger.reports.readSettlementTotals()).counts.unknown).toBe(before.unknown)
    expect(await resolve(found, decided('refunded', [refundIn()]))).toMatchObject({ outcome: 'resolved' })
    expect(await openIdsOf(request.authorization.payer)).toEqual([])
  })

  it('is not found when it was closed without a resolution of its own', async () => {
    const item = await unknownSettlement(ledger)
    await ledger.sql('UPDATE unknown_settlements SET resolved_at = now() WHERE payer = $1', [
      item.request.authorization.payer,
    ])
    expect(await resolve(item, decided('refunded', [refundIn()]))).toEqual({ outcome: 'not_found' })
  })

  it('holds the permit of its payment until it is resolved, and no longer', async () => {
    const payer = randomAddress()
    const byPermit = () =>
      newTestJob({
        authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) }),
        exposure: { ...AMPLE_FUNDS, needsPermit: true },
      })
    const { id } = await inReview(ledger, byPermit())
    const next = byPermit()
    await bindTestKey(ledger, next)
    expect(await ledger.acceptance.acceptPayment(next)).toMatchObject({ outcome: 'permit_already_used' })
    await resolve({ id }, decided('written_off'))
    expect(await ledger.acceptance.acceptPayment(next)).toMatchObject({ outcome: 'accepted' })
  })

  it('releases the media of its result once it is re-served, and not before', async () => {
    const item = await inReview(ledger)
    const token = await withMedia(item)
    const find = () => ledger.acceptance.findMedia(hashMediaToken(token))
    expect(await find()).toBeNull()
    expect(await resolve(item, decided('re_served'))).toMatchObject({ outcome: 'resolved' })
    expect(await find()).toMatchObject({ objectKey: `media/images/${token}`, bytes: 10 })
  })

  it('does not release the media of a result that is written off', async () => {
    const item = await inReview(ledger)
    const token = await withMedia(item)
    await resolve(item, decided('written_off'))
    expect(await ledger.acceptance.findMedia(hashMediaToken(token))).toBeNull()
  })

  it('is never re-served without its result', async () => {
    const item = await inReview(ledger)
    await ledger.sql('UPDATE jobs SET result_body = NULL WHERE id = $1', [item.job?.id])
    expect(await resolve(item, decided('re_served'))).toEqual({
      outcome: 'not_allowed',
      allowed: ['refunded', 'paid_outside', 'written_off'],
    })
  })

  it('keeps its result until the retention after its resolution', async () => {
    const [open, ended] = [await inReview(ledger), await inReview(ledger)]
    await resolve(ended, decided('re_served'))
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '9 days' WHERE id = ANY($1)", [
      [open.job?.id, ended.job?.id],
    ])
    const hasResult = async () =>
      (
        await ledger.sql<{ id: string }>('SELECT id FROM jobs WHERE id = ANY($1) AND result_body IS NOT NULL', [
          [open.job?.id, ended.job?.id],
        ])
      ).map(({ id }) => id)
    await ledger.retention.expireResults(60_000, 1000)
    expect(await hasResult()).toHaveLength(2)
    await ledger.retention.expireResults(0, 1000)
    expect(await hasResult()).toEqual([open.job?.id])
    const outcomes = await ledger.acceptance.readOutcomes([ended.job?.id ?? ''])
    expect([...outcomes.values()]).toEqual([{ state: 're_serving_ended' }])
  })
})

describe('a surplus settlement that is resolved', () => {
  it('pays for nothing: a later settlement of its job does not take it', async () => {
    const request = newTestJob()
    const failed = await jobInState(ledger, 'settlement_failed', request)
    const [settlement] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE job_id = $1', [failed.id])
    const settlementId = settlement?.id ?? ''
    // As after another attempt that failed: there is nothing to reopen. The job is run again below.
    await ledger.sql("UPDATE jobs SET state = 'failed', is_owed = false WHERE id = $1", [failed.id])
    await makeSurplus(ledger, settlementId)
    await ledger.sql(
      "UPDATE jobs SET state = 'generated', finished_at = NULL, failure_code = NULL, lease_expires_at = NULL, run_after = now() WHERE id = $1",
      [failed.id],
    )
    const job = await claimTestJob(ledger, failed.id)
    const known = async () => (await ledger.settlement.readEarlierSettlements(job)).map((earlier) => earlier.known)
    expect(await known()).toEqual(['charged'])
    const [earlier] = await ledger.settlement.readEarlierSettlements(job)
    await resolve({ id: `settlement:${settlementId}` }, decided('refunded', [refundIn()]))
    expect(await known()).toEqual(['failed_finally'])
    if (!earlier) throw new Error('the settlement is listed')
    await expect(ledger.settlement.adoptSettlement(job, earlier)).rejects.toThrow(/no earlier settlement/)
  })

  it('is resolved while its job takes another payment, without a deadlock', async () => {
    const { job, earlier, id } = await adoptableSurplus()
    const transaction = randomHash()
    const holder = await ledger.pool.connect()
    await holder.query('BEGIN')
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('farebox refund ' || $1, 0))", [transaction])
    const resolved = resolve({ id }, decided('refunded', [refundIn(transaction)]))
    await untilWaiting(1)
    const adopted = ledger.settlement.adoptSettlement(job, earlier).catch(String)
    await untilWaiting(2)
    await holder.query('COMMIT')
    holder.release()
    expect(await resolved).toMatchObject({ outcome: 'resolved' })
    expect(await adopted).toMatch(/no earlier settlement/)
  })

  it('does not hide the review of its job from the report', async () => {
    const { job, id } = await adoptableSurplus()
    await ledger.sql("UPDATE jobs SET state = 'review', finished_at = now() WHERE id = $1", [job.id])
    const listed = async () => (await readReviewItems(ledger.pool)).oldest.filter(({ jobId }) => jobId === job.id)
    expect(await listed()).toHaveLength(1)
    await resolve({ id }, decided('paid_outside'))
    expect(await listed()).toHaveLength(1)
    await resolve({ id: `review:${job.id}` }, decided('paid_outside'))
    expect(await listed()).toEqual([])
  })
})

describe('a failed settlement that succeeds after its debt was resolved', () => {
  it.each([
    ['paid_outside', 'surplus'],
    ['forgiven', 'reopened'],
    ['written_off', 'reopened'],
  ] as const)('%s: it is %s', async (outcome, expected) => {
    const debt = await inDebt(ledger)
    await resolve(debt, decided(outcome))
    expect(await reopen(debt)).toBe(expected)
  })
})

describe('a failed settlement that succeeds after its debt was resolved, whose job failed again since', () => {
  it('pays for the new debt, whatever ended the earlier one', async () => {
    const debt = await inDebt(ledger)
    await resolve(debt, decided('paid_outside'))
    await ledger.sql('UPDATE jobs SET is_owed = true, finished_at = clock_timestamp() WHERE id = $1', [debt.job?.id])
    expect(await reopen(debt)).toBe('reopened')
  })
})

describe('a failed settlement that succeeds while its debt is resolved', () => {
  it('waits for the resolution, and does not charge what was paid outside', async () => {
    const debt = await inDebt(ledger)
    const holder = await ledger.pool.connect()
    await holder.query('BEGIN')
    // The last thing that a resolution writes.
    await holder.query('LOCK TABLE operator_actions IN SHARE MODE')
    const resolving = resolve(debt, decided('paid_outside'))
    await untilWaiting(1)
    const reopening = reopen(debt)
    await untilWaiting(2)
    await holder.query('COMMIT')
    holder.release()
    expect(await resolving).toMatchObject({ outcome: 'resolved' })
    expect(await reopening).toBe('surplus')
  })
})

/** Reports that the failed settlement of a debt succeeded after all. */
async function reopen({ job }: OpenItem) {
  const [settlement] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE job_id = $1', [job?.id])
  const settledAt = { transactionHash: randomHash(), blockNumber: 9n, blockHash: randomHash() } as const
  return await ledger.settlement.reopenSettlement(settlement?.id ?? '', settledAt)
}

/** Makes a surplus settlement of a job that waits for another payment. */
async function adoptableSurplus() {
  const failed = await jobInState(ledger, 'settlement_failed', newTestJob())
  const [settlement] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE job_id = $1', [failed.id])
  // As after another attempt that failed: there is nothing to reopen.
  await ledger.sql("UPDATE jobs SET state = 'failed', is_owed = false WHERE id = $1", [failed.id])
  await makeSurplus(ledger, settlement?.id ?? '')
  await ledger.sql(
    "UPDATE jobs SET state = 'generated', finished_at = NULL, failure_code = NULL, lease_expires_at = NULL, run_after = now() WHERE id = $1",
    [failed.id],
  )
  const job = await claimTestJob(ledger, failed.id)
  const [earlier] = await ledger.settlement.readEarlierSettlements(job)
  if (!earlier) throw new Error('the settlement is listed')
  return { job, earlier, id: `settlement:${settlement?.id}` }
}

async function untilWaiting(count: number): Promise<void> {
  await until(async () => {
    const waiting = await ledger.sql(
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    return waiting.length >= count
  })
}

describe('the answer to the next request of a resolved call', () => {
  it.each([
    ['paid_outside', { state: 'resolved', outcome: 'paid_outside' }],
    ['written_off', { state: 'resolved', outcome: 'written_off' }],
    ['re_served', { state: 're_served', resultBody: expect.any(String), catalogVersion: 'catalog-test' }],
  ] as const)('%s', async (outcome, expected) => {
    const { id, job } = await inReview(ledger)
    const read = async () => [...(await ledger.acceptance.readOutcomes([job?.id ?? ''])).values()]
    expect(await read()).toEqual([{ state: 'review' }])
    await resolve({ id }, decided(outcome))
    expect(await read()).toEqual([expected])
  })

  it('names the transaction of a refund', async () => {
    const item = await inReview(ledger)
    const transfer = refundIn()
    await resolve(item, decided('refunded', [transfer]))
    const outcomes = await ledger.acceptance.readOutcomes([item.job?.id ?? '', (await inReview(ledger)).job?.id ?? ''])
    expect([...outcomes.values()]).toEqual(
      expect.arrayContaining([
        { state: 'resolved', outcome: 'refunded', transaction: transfer.transaction },
        { state: 'review' },
      ]),
    )
  })

  it('says of a settlement without a record how it ended', async () => {
    const item = await unknownSettlement(ledger)
    const { authorization } = item.request
    expect(await ledger.acceptance.findUnknownEnding(authorization)).toBeNull()
    const transfer = refundIn()
    await resolve(item, decided('refunded', [transfer]))
    expect(await ledger.acceptance.findUnknownEnding(authorization)).toEqual({
      outcome: 'refunded',
      transaction: transfer.transaction,
    })
  })
})
