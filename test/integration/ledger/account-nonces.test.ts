import { afterAll, beforeAll, expect, it } from 'vitest'
import { readNonceGaps } from '#shared/adapters/postgres/reports/nonce-gaps.ts'
import { createSettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { signRandomBytes } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

async function generatedJobs(count: number, facilitator: `0x${string}`): Promise<ClaimedJob[]> {
  return await Promise.all(
    Array.from({ length: count }, () =>
      jobInState(ledger, 'generated', newTestJob({ authorization: testAuthorization({ facilitator }) })),
    ),
  )
}

function record(job: ClaimedJob, minimumAccountNonce: bigint, sign = signRandomBytes, store = ledger.settlement) {
  return store.recordSettlement(job, { chargeAmount: atomicAmount(5034n), minimumAccountNonce, sign })
}

async function storedNonces(facilitator: string): Promise<number[]> {
  const rows = await ledger.sql<{ nonce: number }>(
    'SELECT account_nonce::int AS nonce FROM settlements WHERE facilitator = $1 ORDER BY account_nonce',
    [facilitator],
  )
  return rows.map(({ nonce }) => nonce)
}

it('assigns consecutive account nonces to fifty simultaneous settlements of one key by two stores', async () => {
  const facilitator = randomAddress()
  const jobs = await generatedJobs(50, facilitator)
  const stores = [ledger.settlement, createSettlementStore(ledger.pool)]
  const written = await Promise.all(jobs.map((job, index) => record(job, 7n, signRandomBytes, stores[index % 2])))
  expect(written).not.toContain('stale')
  expect(await storedNonces(facilitator)).toEqual(Array.from({ length: 50 }, (_, index) => 7 + index))
})

it('leaves no nonce gap after a settlement that rolls back or has a stale fence', async () => {
  const facilitator = randomAddress()
  const jobs = await generatedJobs(50, facilitator)
  const results = await Promise.allSettled(
    jobs.map((job, index) => {
      if (index % 5 === 0) return record(job, 0n, () => Promise.reject(new Error('the key cannot sign')))
      if (index % 5 === 1) return record({ ...job, fence: job.fence - 1n }, 0n)
      return record(job, 0n)
    }),
  )
  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(10)
  expect(await storedNonces(facilitator)).toEqual(Array.from({ length: 30 }, (_, index) => index))
  // Settlements that rolled back can be recorded afterwards.
  const [first] = jobs
  expect(first && (await record(first, 0n))).not.toBe('stale')
  expect((await storedNonces(facilitator)).at(-1)).toBe(30)
})

it('counts account nonces separately for each key', async () => {
  const [one, other] = [randomAddress(), randomAddress()]
  for (const facilitator of [one, other]) for (const job of await generatedJobs(2, facilitator)) await record(job, 0n)
  expect([await storedNonces(one), await storedNonces(other)]).toEqual([
    [0, 1],
    [0, 1],
  ])
})

it('continues from the chain’s transaction count when it is ahead, and never goes back', async () => {
  const facilitator = randomAddress()
  const minimums = [3n, 0n, 10n, 4n]
  const jobs = await generatedJobs(minimums.length, facilitator)
  for (const [index, minimum] of minimums.entries()) {
    const job = jobs[index]
    if (job) await record(job, minimum)
  }
  expect(await storedNonces(facilitator)).toEqual([3, 4, 10, 11])
})

it('stores the transaction that was signed for the taken account nonce', async () => {
  const job = await jobInState(ledger, 'generated')
  const signed: { accountNonce: bigint; hash: string; raw: string }[] = []
  const recorded = await record(job, 5n, async (accountNonce) => {
    const transaction = await signRandomBytes(accountNonce)
    signed.push({ accountNonce, ...transaction })
    return transaction
  })
  const settlement = await ledger.settlement.readSettlement(job)
  expect(signed).toHaveLength(1)
  expect(settlement).toEqual(recorded)
  const sender = job.authorization.facilitator
  expect(settlement.transactions).toEqual([{ hash: signed[0]?.hash, raw: signed[0]?.raw, sender, accountNonce: 5n }])
})

it('follows a transaction count slightly ahead of the ledger, but not one far ahead', async () => {
  const facilitator = randomAddress()
  const [first, second, third, fourth] = await generatedJobs(4, facilitator)
  if (!first || !second || !third || !fourth) throw new Error('four jobs')
  await record(first, 5n)
  await record(second, 1_000_000n)
  await record(third, 17n)
  await record(fourth, 0n)
  expect(await storedNonces(facilitator)).toEqual([5, 6, 17, 18])
})

const NETWORK = 'eip155:8453'

it.each<[string, string, number[]]>([
  ['by the worker that keeps the key', 'head_account_nonce = 9', [3, 2]],
  ['after the last worker that kept the key', 'head_account_nonce = 8', [3]],
])(
  'reports a nonce used elsewhere after the ledger’s last one for the days around it, not for every day since: noticed %s',
  async (_, head, days) => {
    const facilitator = randomAddress()
    // Nonces before the ledger's first one belong to earlier uses of the key.
    for (const job of await generatedJobs(2, facilitator)) await record(job, 6n)
    await ledger.sql(
      "UPDATE settlement_transactions SET signed_at = now() - interval '62 hours' WHERE facilitator = $1",
      [facilitator],
    )
    await ledger.sql(
      `UPDATE settlement_accounts SET ${head}, head_since = now() - interval '38 hours',
       kept_until = now() - interval '61 hours' WHERE facilitator = $1`,
      [facilitator],
    )
    const account = { network: NETWORK, facilitator }
    const found: number[] = []
    for (const day of [4, 3, 2, 1]) {
      const [period] = await ledger.sql<{ from: string; to: string }>(
        `SELECT now() - make_interval(days => $1) AS from, now() - make_interval(days => $1 - 1) AS to`,
        [day],
      )
      if (!period) throw new Error('one row')
      const gaps = await readNonceGaps(ledger.pool, account, 9n, period)
      if (gaps.length > 0) found.push(day)
      expect(gaps).toEqual(gaps.length > 0 ? [{ first: 8n, last: 8n }] : [])
    }
    expect(found).toEqual(days)
  },
)
