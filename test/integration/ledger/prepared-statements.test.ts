import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestLedger, jobInState, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger

beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

test('a statement with parameters is planned once for each connection', async () => {
  const client = await ledger.pool.connect()
  try {
    for (const value of [1, 2, 3]) {
      const { rows } = await client.query<{ doubled: number }>('SELECT $1::int * 2 AS doubled', [value])
      expect(rows).toEqual([{ doubled: value * 2 }])
    }
    const { rows: prepared } = await client.query(
      `SELECT (generic_plans + custom_plans)::int AS runs FROM pg_prepared_statements WHERE statement = 'SELECT $1::int * 2 AS doubled'`,
    )
    expect(prepared).toEqual([{ runs: 3 }])
  } finally {
    client.release()
  }
})

test('a column that a later migration adds stops no claim of a process that runs since before', async () => {
  const before = await jobInState(ledger, 'generated')
  await ledger.execution.releaseJob(before, 0)
  expect(await ledger.execution.claimJob(before.id, 15_000)).toMatchObject({ state: 'generated' })
  await ledger.sql('ALTER TABLE jobs ADD COLUMN of_a_later_migration text')
  // One after the other, so that each uses the connection that planned before.
  const after = await jobInState(ledger, 'generated')
  await ledger.execution.releaseJob(after, 0)
  const claimed = await ledger.execution.claimJob(after.id, 15_000)
  expect(claimed).toMatchObject({ id: after.id, state: 'generated' })
})
