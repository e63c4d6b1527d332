import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { shareStatement } from '#shared/adapters/postgres/batch.ts'
import { createExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import type { ClaimedJob, NewResult } from '#shared/jobs/job.ts'
import { acceptTestJob, jobInState, storedState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const LEASE_MS = 60_000
const FIVE = [0, 1, 2, 3, 4]

/** Returns jobs without uploads. */
const jobsIn = (state: 'accepted' | 'generating') =>
  Promise.all(FIVE.map(() => jobInState(ledger, state, { ...newTestJob(), stagedUpload: null } as never)))

const resultOf = (resultBody: string): NewResult => ({
  usage: { input_audio_ms: 2000 },
  chargeAmount: TEST_PRICE,
  resultBody,
  resultDigest: 'd'.repeat(64),
})

async function attemptOf({ id }: ClaimedJob): Promise<string> {
  const [row] = await ledger.sql<{ id: string }>('SELECT id FROM upstream_attempts WHERE job_id = $1', [id])
  return row?.id ?? randomUUID()
}

/** Locks the job's row until the returned function is called. */
async function lockRow({ id }: Pick<ClaimedJob, 'id'>): Promise<() => Promise<void>> {
  const holder = await ledger.pool.connect()
  await holder.query('BEGIN')
  await holder.query('SELECT FROM jobs WHERE id = $1 FOR UPDATE', [id])
  return async () => {
    await holder.query('COMMIT')
    holder.release()
  }
}

describe('jobs that are claimed at the same time', () => {
  it('gives each to one of two workers, also one that is delivered twice', async () => {
    const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
    const workers = [ledger.execution, createExecutionStore(ledger.pool, TEST_LIMITS.budget)]
    const claims = await Promise.all(
      [...ids, ...ids, ...ids].map(async (id, index) => await workers[index % 2]?.claimJob(id, LEASE_MS)),
    )
    const claimed = claims.flatMap((claim) => claim?.id ?? [])
    expect(claimed.toSorted()).toEqual(ids.toSorted())
    for (const id of ids) expect(await storedState(ledger, id)).toEqual({ state: 'accepted', fence: '1' })
  })

  it('claims the others while the row of one is locked, and that one afterwards', async () => {
    const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
    const [lockedId = '', ...others] = ids
    const unlock = await lockRow({ id: lockedId })
    const [waiting, ...claims] = ids.map((id) => ledger.execution.claimJob(id, LEASE_MS))
    expect((await Promise.all(claims)).map((claim) => claim?.id)).toEqual(others)
    await unlock()
    expect(await waiting).toMatchObject({ id: lockedId, fence: 1n })
  })

  it('claims the others when the row of one cannot be read, and reports that one', async () => {
    const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
    const [unreadable = '', ...others] = ids
    await ledger.sql(
      `UPDATE authorizations SET signed = signed || '{"nonce": "not a number"}' FROM jobs
       WHERE authorizations.id = jobs.authorization_id AND jobs.id = $1`,
      [unreadable],
    )
    const claims = await Promise.allSettled(ids.map((id) => ledger.execution.claimJob(id, LEASE_MS)))
    expect(claims.map((claim) => (claim.status === 'fulfilled' ? claim.value?.id : 'failed'))).toEqual([
      'failed',
      ...others,
    ])
  })
})

describe('jobs that are moved at the same time', () => {
  it('starts an attempt for each, but not under a stale fence', async () => {
    const jobs = await jobsIn('accepted')
    const [stale, ...current] = jobs
    if (!stale) throw new Error('no job')
    const asked = [{ ...stale, fence: stale.fence - 1n }, ...current]
    const started = await Promise.all(asked.map((job) => ledger.execution.startAttempt(job, 'one', null)))
    expect(started.map(({ written }) => written)).toEqual(['stale', ...current.map(() => 'written')])
    const attempts = await ledger.sql<{ id: string; job_id: string; authorization_id: string }>(
      'SELECT id, job_id, authorization_id FROM upstream_attempts WHERE job_id = ANY($1)',
      [jobs.map(({ id }) => id)],
    )
    expect(new Set(attempts.map((row) => `${row.id} ${row.job_id} ${row.authorization_id}`))).toEqual(
      new Set(current.map((job, index) => `${started[index + 1]?.attemptId} ${job.id} ${job.authorizationId}`)),
    )
    expect(await storedState(ledger, stale.id)).toMatchObject({ state: 'accepted' })
  })

  it('starts the others while the row of one is locked, and that one afterwards', async () => {
    const jobs = await jobsIn('accepted')
    const [locked, ...others] = jobs
    if (!locked) throw new Error('no job')
    const unlock = await lockRow(locked)
    const [waiting, ...starting] = jobs.map((job) => ledger.execution.startAttempt(job, 'one', null))
    expect((await Promise.all(starting)).map(({ written }) => written)).toEqual(others.map(() => 'written'))
    await unlock()
    expect(await waiting).toMatchObject({ written: 'written' })
  })

  it('seals each result with its own job, and fails only the one that cannot be stored', async () => {
    const jobs = await jobsIn('generating')
    const attempts = await Promise.all(jobs.map(attemptOf))
    const bodies = jobs.map(({ id }, index) => (index === 2 ? 'not \u0000 storable' : `"result of ${id}"`))
    const sealed = await Promise.allSettled(
      jobs.map((job, index) =>
        ledger.execution.sealResult(job, attempts[index] ?? '', resultOf(bodies[index] ?? ''), null),
      ),
    )
    expect(
      sealed.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as { code: string }).code)),
    ).toEqual(['written', 'written', '22021', 'written', 'written'])
    const rows = await ledger.sql<{ id: string; result_body: string; attempt: string }>(
      `SELECT jobs.id, result_body, upstream_attempts.state AS attempt
       FROM jobs JOIN upstream_attempts ON job_id = jobs.id WHERE jobs.id = ANY($1) AND jobs.state = 'generated'`,
      [jobs.map(({ id }) => id)],
    )
    expect(rows).toHaveLength(4)
    for (const { id, result_body, attempt } of rows) {
      expect(result_body).toBe(`"result of ${id}"`)
      expect(attempt).toBe('succeeded')
    }
  })

  it('reads the exposure ahead of each job by itself', async () => {
    const jobs = await jobsIn('accepted')
    const [first] = jobs
    if (!first) throw new Error('no job')
    const later = newTestJob({ authorization: { ...newTestJob().authorization, payer: first.authorization.payer } })
    const second = await jobInState(ledger, 'accepted', later)
    const read = await Promise.all(
      [...jobs, second].map((job) => ledger.execution.readExposureAhead(job, { funds: null, verifiedMsAgo: 0 })),
    )
    expect(read.map(({ open }) => open.length)).toEqual([0, 0, 0, 0, 0, 1])
    expect(read.at(-1)?.open[0]?.nonce).toBe(first.authorization.nonce)
  })
})

/** Items with the same first letter are of one turn. */
const BY_LETTER = { keyOf: (item: string) => item, turnOf: (item: string) => item.slice(0, 1) }

describe('a shared statement', () => {
  it('runs alone for a single item, and for all who wait while it runs', async () => {
    const runs: (readonly string[])[] = []
    const first = Promise.withResolvers<void>()
    const share = shareStatement<{ readonly key: string }, string>({
      keyOf: ({ key }) => key,
      together: async (items) => {
        runs.push(items.map(({ key }) => key))
        return new Map(items.map(({ key }) => [key, `shared ${key}`]))
      },
      alone: async ({ key }) => {
        runs.push([key])
        await first.promise
        return `alone ${key}`
      },
    })
    const a = share({ key: 'a' })
    await until(() => runs.length === 1)
    const others = ['b', 'c', 'b'].map((key) => share({ key }))
    first.resolve()
    expect(await Promise.all([a, ...others])).toEqual(['alone a', 'shared b', 'shared c', 'alone b'])
    expect(runs).toEqual([['a'], ['b', 'c'], ['b']])
  })

  it('takes items of one key in their order, also before those that came while it ran', async () => {
    const done: number[] = []
    const asked: Promise<number>[] = []
    const share = shareStatement<number, number>({
      keyOf: () => 'one key',
      together: async (items) => {
        done.push(...items)
        if (asked.length < 6) asked.push(share(asked.length))
        return new Map(items.map((item) => ['one key', item]))
      },
      alone: async (item) => {
        done.push(item)
        return item
      },
    })
    for (let item = 0; item < 3; item += 1) asked.push(share(item))
    await until(() => done.length === 6)
    expect(done).toEqual([0, 1, 2, 3, 4, 5])
    expect(await Promise.all(asked)).toEqual(done)
  })

  it('does one left-out item of each turn alone, and the others with the next statements, one and then more', async () => {
    const runs: string[] = []
    const share = shareStatement<string, string>({
      ...BY_LETTER,
      together: async (items) => {
        runs.push(items.join(' '))
        return new Map(items.flatMap((item) => (runs.length === 1 && item !== 'a1' ? [] : [[item, `shared ${item}`]])))
      },
      alone: async (item) => `alone ${item}`,
    })
    const items = ['a1', 'b1', 'a2', 'b2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8', 'a9']
    const done = await Promise.all(items.map((item) => share(item)))
    expect(done.filter((one) => one.startsWith('alone'))).toEqual(['alone b1', 'alone a2'])
    expect(done.slice(4)).toEqual(items.slice(4).map((item) => `shared ${item}`))
    expect(runs).toEqual([items.join(' '), 'b2 a3', 'a4 a5', 'a6 a7 a8 a9'])
    expect(await Promise.all(['a1', 'a2', 'a3'].map((item) => share(item)))).toHaveLength(3)
    expect(runs.at(-1)).toBe('a1 a2 a3')
  })

  it('fails once with an item that makes it fail, and then shares again', async () => {
    const runs: string[] = []
    const share = shareStatement<string, string>({
      ...BY_LETTER,
      together: async (items) => {
        runs.push(items.join(' '))
        if (items.includes('a2')) throw new Error('not storable')
        return new Map(items.map((item) => [item, `shared ${item}`]))
      },
      alone: async (item) => {
        if (item === 'a2') throw new Error('not storable')
        return `alone ${item}`
      },
    })
    const items = ['a1', 'a2', 'b1', 'a3', 'a4', 'a5']
    const done = await Promise.allSettled(items.map((item) => share(item)))
    expect(done.map(({ status }) => status === 'fulfilled')).toEqual(items.map((item) => item !== 'a2'))
    // The second time alone in the statement.
    expect(runs).toEqual([items.join(' '), 'a2', 'a3', 'a4 a5'])
  })

  it('does not wait for longer than a moment for a statement that hangs', async () => {
    let hasBegun = false
    const hanging = Promise.withResolvers<string>()
    const share = shareStatement<string, string>({
      keyOf: (item) => item,
      together: async () => new Map(),
      alone: (item) => {
        hasBegun = true
        return item === 'hangs' ? hanging.promise : Promise.resolve(item)
      },
    })
    const first = share('hangs')
    await until(() => hasBegun)
    expect(await share('other')).toBe('other')
    hanging.resolve('ended')
    expect(await first).toBe('ended')
  })
})
