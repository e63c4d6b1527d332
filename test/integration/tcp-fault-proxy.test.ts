import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startTcpFaultProxy, type TcpFaultProxy } from '../support/http/tcp-fault-proxy.ts'
import { createTestDatabase, type TestDatabase } from '../support/ledger/test-database.ts'

let database: TestDatabase
let databaseProxy: TcpFaultProxy
let proxiedUrl: string
let server: Server
let serverProxy: TcpFaultProxy
const bodies: string[] = []
beforeAll(async () => {
  database = await createTestDatabase()
  const url = new URL(database.url)
  databaseProxy = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) })
  url.port = String(databaseProxy.port)
  proxiedUrl = url.href
  server = createServer((incoming, response) => {
    let body = ''
    incoming.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    incoming.on('end', () => {
      bodies.push(body)
      response.end(`answer to ${body}${'.'.repeat(2000)}`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  serverProxy = await startTcpFaultProxy({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  await query('CREATE TABLE marks (mark text)')
})
afterEach(() => Promise.all([databaseProxy.setFault(null), serverProxy.setFault(null)]))
afterAll(async () => {
  await databaseProxy.stop()
  await serverProxy.stop()
  server.closeAllConnections()
  server.close()
  await database.drop()
})
/** Runs one statement on its own connection, without a pool. */
async function query(statement: string, url = proxiedUrl): Promise<pg.QueryResultRow[]> {
  const client = new pg.Client({ connectionString: url })
  // A cut connection is also reported here, not only to the waiting query.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return (await client.query(statement)).rows
  } finally {
    void client.end().catch(() => undefined)
  }
}
function post(body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ port: serverProxy.port, method: 'POST', agent: false }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
async function isSettled(promise: Promise<unknown>, withinMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  )
  return await Promise.race([settled, delay(withinMs, false)])
}
test('the proxy passes everything unchanged without a fault', async () => {
  expect(await query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  const large = 'x'.repeat(3_000_000)
  expect(await post(large)).toBe(`answer to ${large}${'.'.repeat(2000)}`)
})
test('latency delays each chunk and changes none', async () => {
  await serverProxy.setFault({ kind: 'latency', delayMs: 60 })
  const startedAt = performance.now()
  expect(await post('late')).toMatch(/^answer to late/)
  // Request and response are each delayed once.
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(115)
  await databaseProxy.setFault({ kind: 'latency', delayMs: 20 })
  expect(await query('SELECT 2 AS two')).toEqual([{ two: 2 }])
})
test('a blackhole accepts connections, passes nothing, and delivers what was sent once it is healed', async () => {
  await serverProxy.setFault({ kind: 'blackhole' })
  const waiting = post('through the blackhole')
  expect(await isSettled(waiting, 150)).toBe(false)
  expect(bodies).not.toContain('through the blackhole')
  await serverProxy.setFault(null)
  expect(await waiting).toMatch(/^answer to through the blackhole/)
})
test('a blackhole also stops an open connection', async () => {
  const client = new pg.Client({ connectionString: proxiedUrl })
  await client.connect()
  await databaseProxy.setFault({ kind: 'blackhole' })
  const waiting = client.query('SELECT 3 AS three')
  expect(await isSettled(waiting, 150)).toBe(false)
  await databaseProxy.setFault(null)
  expect((await waiting).rows).toEqual([{ three: 3 }])
  await client.end()
})
test('refuse resets open connections and refuses new ones until it is healed', async () => {
  const client = new pg.Client({ connectionString: proxiedUrl })
  const lost = new Promise((resolve) => client.on('error', resolve))
  await client.connect()
  await databaseProxy.setFault({ kind: 'refuse' })
  await expect(lost).resolves.toMatchObject({ code: 'ECONNRESET' })
  await expect(query('SELECT 4')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await databaseProxy.setFault(null)
  expect(await query('SELECT 5 AS five')).toEqual([{ five: 5 }])
})
test('a reset within the request leaves the target without the whole request', async () => {
  await serverProxy.setFault({ kind: 'reset', afterBytes: 1000, direction: 'to_target' })
  await expect(post(`cut-request${'-'.repeat(5000)}`)).rejects.toMatchObject({ code: 'ECONNRESET' })
  await delay(50)
  expect(bodies.filter((body) => body.startsWith('cut-request'))).toEqual([])
  expect(serverProxy.hits).toBe(1)
  await serverProxy.setFault(null)
  expect(await post('whole')).toMatch(/^answer to whole/)
})
test('a reset within the response comes after the target has acted', async () => {
  await serverProxy.setFault({ kind: 'reset', afterBytes: 500, direction: 'to_client' })
  await expect(post('cut-answer')).rejects.toThrow(/aborted|ECONNRESET|socket hang up/)
  expect(bodies).toContain('cut-answer')
})
test('a lost answer leaves the statement committed and the client without a result', async () => {
  const client = new pg.Client({ connectionString: proxiedUrl })
  client.on('error', () => undefined)
  await client.connect()
  await databaseProxy.setFault({ kind: 'lost_answer' })
  await expect(client.query(`INSERT INTO marks VALUES ('done')`)).rejects.toThrow(/terminated|ECONNRESET/)
  expect(databaseProxy.hits).toBe(1)
  await expect.poll(() => query('SELECT mark FROM marks', database.url)).toEqual([{ mark: 'done' }])
  await databaseProxy.setFault(null)
  expect(await query('SELECT mark FROM marks')).toEqual([{ mark: 'done' }])
})
