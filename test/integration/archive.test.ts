import { readFile, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callLine, transactionLine } from '#shared/archive/archived-line.ts'
import { packObject } from '#shared/archive/archived-object.ts'
import { ERROR_CODES } from '#shared/errors/error-codes.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { type ArchiveRun, type ArchiveStore, createArchiveStore } from '#shared/ledger/archive/archive-store.ts'
import type { Documents } from '#shared/ledger/archive/read-documents.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { receiptToken } from '#shared/payment/receipt.ts'
import { addReceiptRoutes } from '../../api/routes/receipts.ts'
import { NEXT_MONTH, OLD_MONTH, oldCalls } from '../support/ledger/old-calls.ts'
import { createTestArchive, type TestArchive } from '../support/ledger/test-archive.ts'
import { createTestLedger, type TestLedger } from '../support/ledger/test-ledger.ts'
import { composeApp, limitRate, limitTo, signer } from './routes/compose-app.ts'

async function pack({ calls, transactions }: Documents) {
  const { bytes, ...object } = await packObject(OLD_MONTH, [
    ...calls.map(callLine),
    ...transactions.map(transactionLine),
  ])
  return { ...object, bytes: bytes.length }
}
const idsOf = (jobs: readonly LeasedJob[]) => jobs.map(({ id }) => id)
const SECRET = { id: 'first', secret: 'a secret of receipts, which has 32 characters' }

describe('erasing documents', () => {
  let ledger: TestLedger
  let archive: TestArchive
  let store: ArchiveStore
  beforeAll(async () => {
    ledger = await createTestLedger(8)
    archive = await createTestArchive(ledger)
    store = createArchiveStore(ledger.pool)
  })

  afterAll(async () => {
    await archive.close()
    await ledger.close()
  })

  async function begin(): Promise<ArchiveRun> {
    const run = await store.begin()
    if (!run) throw new Error('another run is under way')
    return run
  }
  async function archived(jobs: readonly LeasedJob[]): Promise<number> {
    const rows = await ledger.sql('SELECT FROM receipts WHERE job_id = ANY($1) AND archive_object IS NOT NULL', [
      idsOf(jobs),
    ])
    return rows.length
  }
  const archiveOld = () => archive.run('--before', NEXT_MONTH)
  const countObjects = async () => (await ledger.sql('SELECT FROM archive_objects')).length
  describe('the erasure of archived documents', () => {
    it('happens once when two runs have read the same calls, and records one object', async () => {
      const jobs = await oldCalls(ledger, 4)
      await using run = await begin()
      const before = await countObjects()
      // As if the second run had not noticed the first: each has another selection of the same calls.
      const [all, some] = [await run.readDocuments(idsOf(jobs)), await run.readDocuments(idsOf(jobs.slice(1)))]
      const done = await Promise.all([
        run.erase(OLD_MONTH, await pack(all), all),
        run.erase(OLD_MONTH, await pack(some), some),
      ])
      expect(done.filter(Boolean)).toHaveLength(1)
      expect(await countObjects()).toBe(before + 1)
    })

    it('waits for a change of a call, and keeps what is not over any more', async () => {
      const jobs = await oldCalls(ledger, 2)
      await using run = await begin()
      const documents = await run.readDocuments(idsOf(jobs))
      const before = await countObjects()
      const client = await ledger.pool.connect()
      await client.query('BEGIN')
      await client.query("UPDATE jobs SET result_body = '{}', result_expired_at = NULL WHERE id = $1", [jobs[1]?.id])
      const erasing = run.erase(OLD_MONTH, await pack(documents), documents)
      await client.query('COMMIT')
      client.release()
      expect([await erasing, await archived(jobs), await countObjects()]).toEqual([false, 0, before])
    })

    it('leaves the terms of a challenge alone that its key got meanwhile', async () => {
      const [job] = await oldCalls(ledger, 1)
      if (!job) throw new Error('no call')
      await using run = await begin()
      const documents = await run.readDocuments([job.id])
      const client = await ledger.pool.connect()
      await client.query('BEGIN')
      await client.query(
        `UPDATE idempotency_keys SET terms = '{"new": 1}', expires_at = now() + interval '1 minute' WHERE job_id = $1`,
        [job.id],
      )
      const erasing = run.erase(OLD_MONTH, await pack(documents), documents)
      await client.query('COMMIT')
      client.release()
      await erasing
      const [key] = await ledger.sql<{ terms: object }>('SELECT terms FROM idempotency_keys WHERE job_id = $1', [
        job.id,
      ])
      expect(key?.terms).toEqual({ new: 1 })
    })

    it.each([
      ['a receipt', 'UPDATE receipts SET body = kept_of_receipt(body) WHERE job_id = $1', 'receipts are immutable'],
      [
        'a receipt into an object that is not recorded',
        'UPDATE receipts SET body = kept_of_receipt(body), archive_object = 1000000 WHERE job_id = $1',
        'receipts are immutable',
      ],
      [
        'a signed authorization',
        'UPDATE authorizations SET signed = kept_of_authorization(signed) WHERE job_id = $1',
        'a document of authorizations is erased without being archived',
      ],
      [
        'a signed transaction',
        `UPDATE settlement_transactions SET raw_transaction = '' FROM settlements
       WHERE settlements.id = settlement_id AND job_id = $1`,
        'signed transactions are immutable',
      ],
      [
        'the terms of a job',
        "UPDATE jobs SET terms = '{}' WHERE id = $1",
        'a document of jobs is erased without being archived',
      ],
      [
        'the terms of a key',
        "UPDATE idempotency_keys SET terms = '{}' WHERE job_id = $1",
        'a document of idempotency_keys is erased without being archived',
      ],
    ])('refuses to erase %s without an archive record', async (_, statement, message) => {
      const [job] = await oldCalls(ledger, 1)
      await expect(ledger.sql(statement, [job?.id])).rejects.toThrow(message)
    })

    it.each([
      [
        'what stays of an archived receipt',
        'UPDATE receipts SET body = $2 WHERE job_id = $1',
        'receipts are immutable',
      ],
      [
        'where an archived receipt is',
        'UPDATE receipts SET archive_object = archive_object + length($2) WHERE job_id = $1',
        'receipts are immutable',
      ],
      [
        'an archived receipt into no receipt',
        'DELETE FROM receipts WHERE job_id = $1 AND $2 IS NOT NULL',
        'receipts are immutable',
      ],
      [
        'the record of an object',
        'UPDATE archive_objects SET sha256 = $2 WHERE id = (SELECT archive_object FROM receipts WHERE job_id = $1)',
        'rows of archive_objects are immutable',
      ],
      [
        'the record of an object into none',
        `DELETE FROM archive_objects WHERE $2 IS NOT NULL
         AND id = (SELECT archive_object FROM receipts WHERE job_id = $1)`,
        'rows of archive_objects are immutable',
      ],
    ])('refuses to change %s', async (_, statement, message) => {
      const [job] = await oldCalls(ledger, 1)
      if (!job) throw new Error('no call')
      await using run = await begin()
      const documents = await run.readDocuments([job.id])
      expect(await run.erase(OLD_MONTH, await pack(documents), documents)).toBe(true)
      const value = statement.includes('sha256') ? 'f'.repeat(64) : '{}'
      const typed = statement.includes('length') || statement.includes('IS NOT NULL') ? '$2::text' : '$2'
      await expect(ledger.sql(statement.replace('$2', typed), [job.id, value])).rejects.toThrow(message)
    })
  })

  /** Writes what a process says of itself. */
  async function reportProcess(version: string, seenSecondsAgo: number): Promise<void> {
    await ledger.sql(
      `INSERT INTO process_reports (instance, kind, started_at, seen_at, report)
     VALUES ('old', 'api', now(), now() - make_interval(secs => $2), jsonb_build_object('version', $1::text))
     ON CONFLICT (instance) DO UPDATE SET seen_at = EXCLUDED.seen_at`,
      [version, seenSecondsAgo],
    )
  }
  describe('npm run archive beside others', () => {
    it('does nothing while another run is under way, and works once that has ended', async () => {
      const jobs = await oldCalls(ledger, 1)
      const other = await begin()
      const refused = await archiveOld()
      expect([refused.exitCode, refused.errors]).toEqual([1, 'Nothing was archived: another run is under way.\n'])
      expect(await archived(jobs)).toBe(0)
      await other[Symbol.asyncDispose]()
      // PostgreSQL frees the lock of a connection some time after its client has left.
      await expect.poll(async () => (await archiveOld()).exitCode).toBe(0)
      expect(await archived(jobs)).toBe(1)
    })

    it('does nothing while a process of another version runs', async () => {
      const jobs = await oldCalls(ledger, 1)
      await reportProcess('0.1.9', 1)
      const refused = await archiveOld()
      expect(refused.exitCode).toBe(1)
      expect(refused.errors).toMatch(
        /^Nothing was archived: these processes are not of version .*\n {2}api old: 0\.1\.9$/m,
      )
      expect(await archived(jobs)).toBe(0)
      await reportProcess('0.1.9', 120)
      expect([(await archiveOld()).exitCode, await archived(jobs)]).toEqual([0, 1])
    })
  })
})

describe('GET /v1/receipts/{id} of an archived receipt', () => {
  let ledger: TestLedger
  let archive: TestArchive
  let jobs: readonly LeasedJob[]
  let receiptIds: readonly string[]
  let bodies: readonly string[]
  beforeAll(async () => {
    ledger = await createTestLedger(8)
    archive = await createTestArchive(ledger)
    jobs = await oldCalls(ledger, 6)
    const rows = await ledger.sql<{ id: string }>('SELECT id FROM receipts')
    receiptIds = rows.map(({ id }) => id)
    const get = await openRoute(archive.objects)
    bodies = await Promise.all(receiptIds.map(async (id) => (await get(id)).body))
    await archive.run('--before', NEXT_MONTH)
  })
  afterAll(async () => {
    await archive.close()
    await ledger.close()
  })
  /** Returns a request to the route of an API process that has read no object. */
  async function openRoute(objects: Pick<ObjectStore, 'get'>, limit = limitRate) {
    const store = archive.openReader(objects)
    const app = await composeApp((composed) =>
      addReceiptRoutes(composed, { store, receiptSecrets: [SECRET], signer, limitRate: limit }),
    )
    return (id: string, token = receiptToken(id.toLowerCase(), SECRET), scheme = 'Bearer ') =>
      app.inject({ url: `/v1/receipts/${id}`, headers: { authorization: `${scheme}${token}` } })
  }
  /** Notes what is read from the archive. */
  function counted() {
    const keys: string[] = []
    const get = async (key: string) => {
      keys.push(key)
      return await archive.objects.get(key)
    }
    return { keys, objects: { get } }
  }

  it('returns the same bytes as before, signature included, and reads their object once', async () => {
    expect(await archive.files()).toHaveLength(1)
    const { keys, objects } = counted()
    const get = await openRoute(objects)
    const answers = await Promise.all(receiptIds.map((id) => get(id)))
    expect(answers.map(({ statusCode, body }) => [statusCode, body])).toEqual(bodies.map((body) => [200, body]))
    expect(bodies.filter((body) => body.includes('"signature"'))).toHaveLength(jobs.length)
    for (const id of receiptIds) expect((await get(id)).statusCode).toBe(200)
    expect(keys).toHaveLength(1)
  })

  it('is found under its id in capitals, and with several blanks before the token (RFC 9110, 11.4)', async () => {
    const get = await openRoute(archive.objects)
    const [id = ''] = receiptIds
    expect((await get(id.toUpperCase())).body).toBe(bodies[0])
    expect((await get(id, receiptToken(id, SECRET), 'bearer   ')).body).toBe(bodies[0])
  })

  it('reads nothing from the store for an unknown receipt or a wrong token', async () => {
    const { keys, objects } = counted()
    const get = await openRoute(objects)
    const [known = ''] = receiptIds
    const unknown = '11111111-1111-4111-8111-111111111111'
    expect((await get(unknown)).statusCode).toBe(404)
    expect((await get(known, receiptToken(unknown, SECRET))).statusCode).toBe(404)
    expect(keys).toEqual([])
  })

  it('answers 503 during an outage of the store, saying that nothing is lost, and again 200 afterwards', async () => {
    let isDown = true
    const get = await openRoute({
      get: async (key) => {
        if (isDown) throw new Error('connect ECONNREFUSED')
        return await archive.objects.get(key)
      },
    })
    const [id = ''] = receiptIds
    const answer = await get(id)
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '30'])
    expect(answer.json()).toMatchObject({
      error: { code: 'receipt_unavailable', payment: 'none', message: ERROR_CODES.receipt_unavailable.message },
    })
    expect(ERROR_CODES.receipt_unavailable.message).toContain('Nothing is lost and no money moved')
    isDown = false
    expect((await get(id)).body).toBe(bodies[0])
  })

  it('never returns what is in a damaged object', async () => {
    const [path = ''] = await archive.files()
    const bytes = await readFile(path)
    const changed = Buffer.from(bytes)
    changed.writeUInt8((changed.at(-1) ?? 0) ^ 1, changed.length - 1)
    await writeFile(path, changed)
    const get = await openRoute(archive.objects)
    const [id = ''] = receiptIds
    expect((await get(id)).json()).toMatchObject({ error: { code: 'receipt_unavailable' } })
    await writeFile(path, bytes)
    expect((await get(id)).body).toBe(bodies[0])
  })

  it('is limited by client like other free routes', async () => {
    const get = await openRoute(archive.objects, limitTo(2))
    const [id = ''] = receiptIds
    const statuses = [await get(id), await get(id), await get(id)].map(({ statusCode }) => statusCode)
    expect(statuses).toEqual([200, 200, 429])
  })
})
