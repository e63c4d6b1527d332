import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMoneyStore } from '#shared/ledger/console/money-store.ts'
import { readReviewItems } from '#shared/ledger/reports/items.ts'
import { readSettlementsByTransaction } from '#shared/ledger/reports/ledger-settlements.ts'
import { createResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { claimTestJob, completionOf, fencedWrites } from '../../support/ledger/job-in-state.ts'
import { paidAgain } from '../../support/ledger/new-test-job.ts'
import { type BatchedJob, settlingBatch } from '../../support/ledger/settling-batch.ts'
import { newTestBatch, recordingOf, renewalOf, stored, type TestBatch } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

type Hex = `0x${string}`

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const FILLER = { hash: '0xf1', raw: '0x02f1' } as const

const fail = ({ job }: BatchedJob) => fencedWrites.failSettlement.run(ledger, job)

/** Completes a job with this transaction, in block 7. */
async function complete({ job }: BatchedJob, hash: Hex, blockHash = '0x70'): Promise<void> {
  const completion = await completionOf(ledger, job)
  await ledger.settlement.completeJob(job, { ...completion, transactionHash: hash, blockHash })
}

function hashOf({ signed }: TestBatch): Hex {
  const [first] = signed
  if (!first) throw new Error('nothing was signed')
  return first.hash
}

async function queueOf({ account }: TestBatch) {
  return await ledger.settlement.readNonceQueue(account, 0n)
}

/** A transaction of the batch's first account nonce. */
function sent(hash: Hex, { account }: TestBatch) {
  return { hash, sender: account.facilitator, accountNonce: 0n }
}

async function isAbandoned(batch: TestBatch): Promise<boolean | undefined> {
  return (await queueOf(batch)).transactions[0]?.isAbandoned
}

/** Moves settlements to a new batch, which is returned. */
async function renewed(jobs: readonly BatchedJob[]): Promise<{ batch: TestBatch; jobs: readonly BatchedJob[] }> {
  const batch = newTestBatch()
  const renewals = jobs.map(({ job, settlement }) => renewalOf(job, settlement))
  const outcomes = await ledger.settlement.renewBatch(renewals, batch)
  return { batch, jobs: jobs.map((job, index) => ({ ...job, settlement: stored(outcomes[index]) })) }
}

describe('the nonce queue', () => {
  it('has one transaction for a batch, which goes on while any of its payments may succeed', async () => {
    const batch = newTestBatch()
    const [first, second] = await settlingBatch(ledger, 2, batch)
    if (!first || !second) throw new Error('two jobs')
    const { facilitator: sender } = batch.account
    const queued = { hash: hashOf(batch), sender, accountNonce: 0n, isAbandoned: false }
    expect((await queueOf(batch)).transactions).toMatchObject([queued])
    await fail(first)
    expect((await queueOf(batch)).transactions).toMatchObject([queued])
    expect(await ledger.settlement.fillGap(batch.account, 0n, FILLER)).toBe(false)
    await fail(second)
    expect((await queueOf(batch)).transactions).toMatchObject([{ ...queued, isAbandoned: true }])
    expect(await ledger.settlement.fillGap(batch.account, 0n, FILLER)).toBe(true)
    // The filler takes the place of the batch, and is kept.
    expect((await queueOf(batch)).transactions).toMatchObject([{ hash: FILLER.hash, isAbandoned: false }])
  })

  it('replaces a batch by a transaction of the same batch', async () => {
    const batch = newTestBatch()
    const [one] = await settlingBatch(ledger, 2, batch)
    if (!one) throw new Error('a job')
    await ledger.settlement.addReplacement(hashOf(batch), { hash: '0xa1', raw: '0x02a1' })
    expect((await queueOf(batch)).transactions).toMatchObject([{ hash: '0xa1', isAbandoned: false }])
    const { transactions } = await ledger.settlement.readSettlement(one.job)
    expect(transactions.map(({ hash }) => hash)).toEqual(['0xa1', hashOf(batch)])
  })

  it('stores once what a batch cost that reverted as a whole, by the transaction that was mined', async () => {
    const batch = newTestBatch()
    const [one] = await settlingBatch(ledger, 2, batch)
    await ledger.settlement.addReplacement(hashOf(batch), { hash: '0xa2', raw: '0x02a2' })
    const gas = { gasUsed: 30_000n, effectiveGasPrice: 7n, cost: atomicAmount(420n) }
    expect(await ledger.settlement.recordRevertedBatch('0xa2', gas)).toBe(true)
    expect(await ledger.settlement.recordRevertedBatch('0xa2', gas)).toBe(false)
    expect(await ledger.settlement.recordRevertedBatch(hashOf(batch), gas)).toBe(false)
    const stored = await ledger.sql(
      'SELECT reverted_gas_used AS gas_used, reverted_gas_cost AS gas_cost FROM settlement_batches WHERE id = $1',
      [one?.settlement.batch?.id],
    )
    expect(stored).toEqual([{ gas_used: '30000', gas_cost: '420' }])
  })

  it('fills the account nonce of a batch that no node takes', async () => {
    const batch = newTestBatch()
    const [one] = await settlingBatch(ledger, 2, batch)
    const id = one?.settlement.batch?.id ?? ''
    await ledger.settlement.abandonBatch(id)
    await ledger.settlement.abandonBatch(id)
    expect(await isAbandoned(batch)).toBe(true)
    const filler = { hash: '0xf2', raw: '0x02f2' } as const
    expect(await ledger.settlement.fillGap(batch.account, 0n, filler)).toBe(true)
  })

  it('fills the account nonce of a batch that all settlements have left, as after a revert of the whole', async () => {
    const batch = newTestBatch()
    const [one, other] = await settlingBatch(ledger, 2, batch)
    if (!one || !other) throw new Error('two jobs')
    await renewed([one])
    expect(await isAbandoned(batch)).toBe(false)
    await renewed([other])
    expect(await isAbandoned(batch)).toBe(true)
  })

  it('sends a batch again that a reorganization took off the chain, whatever became of it', async () => {
    const batch = newTestBatch()
    const [charged, failed, moved] = await settlingBatch(ledger, 3, batch)
    if (!charged || !failed || !moved) throw new Error('three jobs')
    await ledger.settlement.abandonBatch(charged.settlement.batch?.id ?? '')
    await renewed([charged, moved])
    // Mined after all, with one payment that failed.
    await complete(charged, hashOf(batch))
    await fail(failed)
    expect(await queueOf(batch)).toMatchObject({
      released: new Map([[0n, { hash: hashOf(batch) }]]),
      transactions: [{ hash: hashOf(batch), isAbandoned: false }],
    })
    expect(await ledger.settlement.fillGap(batch.account, 0n, FILLER)).toBe(false)
  })
})

describe('settlements of a batch, read by others', () => {
  it('are moved, lost and failed one by one after a reorganization, with every transaction of their batches', async () => {
    const [earlier, other] = [newTestBatch(), newTestBatch()]
    const { batch, jobs } = await renewed([
      ...(await settlingBatch(ledger, 2, earlier)),
      ...(await settlingBatch(ledger, 1, other)),
    ])
    const [charged, failed, charged2] = jobs
    if (!charged || !failed || !charged2) throw new Error('three jobs')
    await complete(charged, hashOf(batch), '0x07')
    await complete(charged2, hashOf(batch), '0x07')
    const judgedAt = { number: 7n, hash: '0x07' }
    await ledger.settlement.failSettlement(failed.job, { code: 'settlement_failed', reason: 'test', judgedAt })
    await ledger.settlement.removeFromBlocks(['0x07'])
    const removed = await ledger.settlement.readRemoved(100)
    const of = ({ settlement }: BatchedJob) =>
      removed.find(({ settlementId }) => settlementId === settlement.settlementId)?.transactions
    expect(of(charged)).toEqual(charged.settlement.transactions)
    expect(of(charged2)?.map(({ hash }) => hash)).toEqual([hashOf(batch), hashOf(other)])
    expect(of(charged)?.[0]).toBe(of(charged2)?.[0])
    const again = await ledger.settlement.readFailed('own_key', 7n, 100)
    expect(again.find(({ jobId }) => jobId === failed.job.id)?.transactions).toEqual(failed.settlement.transactions)
    const to = { transactionHash: hashOf(batch), blockNumber: 8n, blockHash: '0x08' }
    await ledger.settlement.moveSettlement(charged.settlement.settlementId, to)
    await ledger.settlement.loseSettlement(charged2.settlement.settlementId, 'test')
    expect(
      await ledger.sql('SELECT state, block_hash FROM settlements WHERE batch_id = $1 ORDER BY state', [
        charged.settlement.batch?.id,
      ]),
    ).toEqual([
      { state: 'confirmed', block_hash: '0x08' },
      { state: 'lost', block_hash: null },
      { state: 'reverted', block_hash: '0x07' },
    ])
    expect(await ledger.settlement.markFinal(['0x07', '0x08'])).toBe(2)
  })

  it('are looked up before another payment settles: by all of their batches and the fillers of each key', async () => {
    const [first, second] = [newTestBatch(), newTestBatch()]
    const [one, two] = await settlingBatch(ledger, 2, first)
    if (!one || !two) throw new Error('two jobs')
    await ledger.settlement.abandonBatch(one.settlement.batch?.id ?? '')
    await ledger.settlement.fillGap(first.account, 0n, { hash: '0xf3', raw: '0x02f3' })
    await ledger.settlement.renewBatch([renewalOf(one.job, one.settlement)], second)
    await fail(one)
    await ledger.settlement.fillGap(second.account, 0n, { hash: '0xf4', raw: '0x02f4' })
    const earlier = await ledger.settlement.readEarlierSettlements(one.job)
    expect(earlier).toMatchObject([
      {
        settlementId: one.settlement.settlementId,
        transactions: [sent(hashOf(second), second), sent(hashOf(first), first)],
      },
    ])
    expect(new Set(earlier[0]?.fillers)).toEqual(new Set([sent('0xf3', first), sent('0xf4', second)]))
  })

  it('stay in their batch when the worker that signs them again has lost its lease', async () => {
    const [one, two] = await settlingBatch(ledger, 2, newTestBatch())
    if (!one || !two) throw new Error('two jobs')
    await ledger.sql('UPDATE jobs SET fence = fence + 1 WHERE id = $1', [one.job.id])
    const renewals = [one, two].map(({ job, settlement }) => renewalOf(job, settlement))
    const [first, second] = await ledger.settlement.renewBatch(renewals, newTestBatch())
    expect(first).toBe('stale')
    expect(stored(second).batch).toMatchObject({ size: 1 })
    expect(stored(second).batch?.id).not.toBe(one.settlement.batch?.id)
    expect(await ledger.sql('SELECT batch_id FROM settlements WHERE job_id = $1', [one.job.id])).toEqual([
      { batch_id: one.settlement.batch?.id },
    ])
  })

  it('are found by their transaction: those of the batch and those that have left it', async () => {
    const batch = newTestBatch()
    const [stays, leaves] = await settlingBatch(ledger, 2, batch)
    if (!stays || !leaves) throw new Error('two jobs')
    const next = await renewed([leaves])
    const period = { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
    const found = async (hash: Hex) => {
      const settlements = await readSettlementsByTransaction(ledger.pool, period, [hash])
      return new Set(settlements.map(({ jobId }) => jobId))
    }
    expect(await found(hashOf(batch))).toEqual(new Set([stays.job.id, leaves.job.id]))
    expect(await found(hashOf(next.batch))).toEqual(new Set([leaves.job.id]))
    const money = createMoneyStore(ledger.pool)
    const searched = await money.findById(hashOf(batch))
    expect(new Set(searched.map(({ kind, id }) => `${kind} ${id}`))).toEqual(
      new Set([`job ${stays.job.id}`, `job ${leaves.job.id}`]),
    )
  })

  it('are shown with their batch, its other payments and every transaction', async () => {
    const batch = newTestBatch()
    const jobs = await settlingBatch(ledger, 3, batch)
    const [one, two, three] = jobs
    if (!one || !two || !three) throw new Error('three jobs')
    await fail(two)
    const next = await renewed([three])
    const money = createMoneyStore(ledger.pool)
    const shown = async ({ job }: BatchedJob) => (await money.readPayment(job.id))?.settlements
    expect(await shown(one)).toMatchObject([
      {
        facilitator: batch.account.facilitator,
        batch: {
          id: one.settlement.batch?.id,
          contract: batch.contract,
          size: 3,
          abandonedAt: null,
          others: [{ jobId: two.job.id, state: 'reverted' }],
          earlierBatches: 0,
        },
        transactions: [{ hash: hashOf(batch), sender: batch.account.facilitator }],
      },
    ])
    expect(await shown(three)).toMatchObject([
      {
        facilitator: next.batch.account.facilitator,
        batch: { size: 1, others: [], earlierBatches: 1 },
        transactions: [{ hash: hashOf(batch) }, { hash: hashOf(next.batch) }],
      },
    ])
  })

  it('are listed for review with the newest transaction of their batch', async () => {
    const batch = newTestBatch()
    const [one] = await settlingBatch(ledger, 2, batch)
    if (!one) throw new Error('a job')
    const { payer } = one.job.authorization
    await fencedWrites.markForReview.run(ledger, one.job)
    const items = (await readReviewItems(ledger.pool)).oldest
    expect(items.find(({ jobId }) => jobId === one.job.id)?.transaction).toBe(hashOf(batch))
    const page = { limit: 5, after: null }
    const open = await createResolutionStore(ledger.pool).openItems({ payer }, page)
    expect(open.entries).toMatchObject([{ jobId: one.job.id, transaction: hashOf(batch) }])
    // The others are settled as before, and the batch is not abandoned.
    expect(await isAbandoned(batch)).toBe(false)
  })
})

it('lets a withheld result of a batch be paid for again, alone in another batch', async () => {
  const batch = newTestBatch()
  const [one] = await settlingBatch(ledger, 2, batch)
  if (!one) throw new Error('a job')
  await fail(one)
  await ledger.acceptance.acceptPayment(paidAgain(one.request))
  const again = await claimTestJob(ledger, one.job.id)
  const next = newTestBatch()
  expect(await ledger.settlement.recordBatch([recordingOf(again)], next)).toEqual(['settled_before'])
  const recording = recordingOf(again, [one.settlement.settlementId])
  expect(await ledger.settlement.recordBatch([recording], next)).toMatchObject([{ batch: { size: 1 } }])
  const { transactions } = await ledger.settlement.readSettlement(again)
  expect(transactions.map(({ hash }) => hash)).toEqual([hashOf(next)])
})
