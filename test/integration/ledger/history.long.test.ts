import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readLedgerTotals } from '#shared/adapters/postgres/reports/ledger-totals.ts'
import { receiptSchema } from '#shared/payment/receipt.ts'
import { sampleHistory, writeHistory } from '../../support/ledger/history/write-history.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'

const CALLS = 10_000

describe('a written history', () => {
  let database: TestDatabase
  let client: pg.Client
  let indexes: readonly unknown[]
  let constraints: readonly unknown[]
  const readIndexes = async () =>
    (await client.query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef")).rows
  const readConstraints = async () =>
    (
      await client.query(
        `SELECT conrelid::regclass AS "table", conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2`,
      )
    ).rows
  const count = async (statement: string) =>
    Number((await client.query<{ count: string }>(`SELECT count(*) ${statement}`)).rows[0]?.count)
  beforeAll(async () => {
    database = await createTestDatabase()
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
    indexes = await readIndexes()
    constraints = await readConstraints()
    await writeHistory(database.url, { calls: CALLS })
  })
  afterAll(async () => {
    await client.end()
    await database.drop()
  })

  it('leaves indexes and constraints as they were', async () => {
    expect(await readIndexes()).toEqual(indexes)
    expect(await readConstraints()).toEqual(constraints)
  })

  it('has receipts as they are sent to payers', async () => {
    const { rows } = await client.query<{ body: unknown }>('SELECT body FROM receipts ORDER BY id LIMIT 100')
    for (const { body } of rows) expect(receiptSchema.safeParse(body).error).toBeUndefined()
  })

  it('breaks no foreign key, although none is checked while it is written', async () => {
    const { rows } = await client.query<{ child: string; parent: string; pairs: string; columns: string }>(
      `SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent,
         string_agg(format('child.%I = parent.%I', own.attname, other.attname), ' AND ') AS pairs,
         string_agg(format('child.%I', own.attname), ', ') AS columns
       FROM pg_constraint, unnest(conkey, confkey) AS pair (own_number, other_number)
       JOIN pg_attribute AS own ON own.attnum = own_number
       JOIN pg_attribute AS other ON other.attnum = other_number
       WHERE contype = 'f' AND own.attrelid = conrelid AND other.attrelid = confrelid
       GROUP BY pg_constraint.oid, conrelid, confrelid`,
    )
    expect(rows.length).toBeGreaterThan(15)
    for (const { child, parent, pairs, columns } of rows) {
      const orphans = `FROM ${child} AS child WHERE num_nulls(${columns}) = 0
        AND NOT EXISTS (SELECT FROM ${parent} AS parent WHERE ${pairs})`
      expect([child, pairs, await count(orphans)]).toEqual([child, pairs, 0])
    }
  })

  it('settles most in batches of up to eight, each with its transactions, and some singly all the time', async () => {
    expect(await count('FROM settlements WHERE batch_id IS NOT NULL')).toBeGreaterThan(CALLS * 0.75)
    expect(await count('FROM settlement_batches WHERE size = 8')).toBeGreaterThan(CALLS * 0.06)
    const sinceBatches = 'signed_at > (SELECT min(signed_at) FROM settlements WHERE batch_id IS NOT NULL)'
    expect(await count(`FROM settlements WHERE batch_id IS NULL AND ${sinceBatches}`)).toBeGreaterThan(CALLS * 0.05)
    expect(
      await count(`FROM settlement_batches WHERE size <> (
          SELECT count(*) FROM settlements WHERE batch_id = settlement_batches.id)
        OR NOT EXISTS (SELECT FROM settlement_transactions WHERE batch_id = settlement_batches.id)`),
    ).toBe(0)
  })

  it('has every state that a finished call may have, and totals that agree with its rows', async () => {
    for (const [state, share] of Object.entries({ completed: 9650, failed: 300, settlement_failed: 47, review: 3 }))
      expect([state, await count(`FROM jobs WHERE state = '${state}'`)]).toEqual([state, share])
    expect((await readLedgerTotals(client, 3600)).charged.count).toBe(9650)
    const { rows } = await client.query<{ rolled: string; charged: string }>(
      `SELECT (SELECT sum(charged_total) FROM ledger_hours) AS rolled, sum(charge_amount) AS charged FROM jobs
       WHERE state = 'completed' AND finished_at < (SELECT max(hour) + interval '1 hour' FROM ledger_hours)`,
    )
    expect(rows[0]?.rolled).toBe(rows[0]?.charged)
  })

  it('is sampled from all of its time, with withheld results and items in review', async () => {
    const sample = await sampleHistory(database.url, 60)
    expect(new Set(sample.map(({ state }) => state))).toEqual(
      new Set(['completed', 'failed', 'settlement_failed', 'review']),
    )
  })
})
