import { readFile, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERROR_CODES } from '#shared/errors/error-codes.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { receiptToken } from '#shared/payment/receipt.ts'
import { addReceiptRoutes } from '../../../api/routes/receipts.ts'
import { NEXT_MONTH, oldCalls } from '../../support/ledger/old-calls.ts'
import { createTestArchive, type TestArchive } from '../../support/ledger/test-archive.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { composeApp, limitRate, limitTo, signer } from '../routes/compose-app.ts'

const SECRET = { id: 'first', secret: 'a secret of receipts, which has 32 characters' }

let ledger: TestLedger
let archive: TestArchive
let jobs: readonly ClaimedJob[]
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
  return (id: string, token = receiptToken(id, SECRET)) =>
    app.inject({ url: `/v1/receipts/${id}`, headers: { authorization: `Bearer ${token}` } })
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

describe('GET /v1/receipts/{id} of an archived receipt', () => {
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
