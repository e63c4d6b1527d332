import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, type QueryResult } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { until } from '../../support/until.ts'

let directory: string
/** One cluster for all tests in turn: creating one takes longer than all that they do with it. */
let dataDirectory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-postgres-'))
  dataDirectory = join(directory, 'shared')
})
afterAll(() => rm(directory, { recursive: true, force: true }))

async function query(connectionString: string, sql: string): Promise<QueryResult['rows']> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

describe('the embedded PostgreSQL', () => {
  it('the embedded PostgreSQL keeps its data across a stop and across a SIGKILL of the postmaster', async () => {
    const first = await startPostgres({ dataDirectory })
    await query(first.connectionString, 'CREATE TABLE kept (answer int)')
    await first.stop()
    expect(await first.exited).toEqual({ code: 0, signal: null })

    const second = await startPostgres({ dataDirectory })
    await query(second.connectionString, 'INSERT INTO kept VALUES (42)')
    const [left] = await query(
      second.connectionString,
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
    )
    process.kill(left.pid, 'SIGSTOP')
    process.kill(second.pid, 'SIGKILL')
    expect(await second.exited).toEqual({ code: null, signal: 'SIGKILL' })

    // No other server may start while one of its processes is left.
    const lines: string[] = []
    const starting = startPostgres({ dataDirectory, log: (line) => lines.push(line) })
    await until(() => lines.some((line) => line.includes('pre-existing shared memory block')))
    process.kill(left.pid, 'SIGKILL')
    const third = await starting
    expect(await query(third.connectionString, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
    await third.stop()
  })

  it('the embedded PostgreSQL starts even if the crashed server’s pid now belongs to another program', async () => {
    const first = await startPostgres({ dataDirectory })
    const lockFile = join(dataDirectory, 'postmaster.pid')
    const lock = await readFile(lockFile, 'utf8')
    await first.stop()
    await writeFile(lockFile, lock.replace(/^\d+/, String(process.pid)))
    const second = await startPostgres({ dataDirectory })
    await second.stop()
  })

  it('the embedded PostgreSQL is durable, on loopback only, with a password and without a Unix socket', async () => {
    const { connectionString, stop } = await startPostgres({ dataDirectory })
    const names = ['fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses', 'unix_socket_directories']
    const settings = await query(
      connectionString,
      `SELECT ${names.map((name) => `current_setting('${name}') ${name}`).join(', ')}`,
    )
    expect(settings).toEqual([
      {
        fsync: 'on',
        synchronous_commit: 'on',
        full_page_writes: 'on',
        listen_addresses: '127.0.0.1',
        unix_socket_directories: '',
      },
    ])
    const wrong = connectionString.replace(/:[0-9a-f]+@/, ':wrong@')
    await expect(query(wrong, 'SELECT 1')).rejects.toThrow('password authentication failed')
    await stop()
  })

  it('two embedded PostgreSQL servers run concurrently, but not on the same directory', async () => {
    const left = startPostgres({ dataDirectory })
    const right = startPostgres({ dataDirectory: join(directory, 'right') })
    const servers = await Promise.all([left, right])
    expect(new Set(servers.map(({ port }) => port)).size).toBe(2)
    await expect(startPostgres({ dataDirectory })).rejects.toThrow('is in use by process')
    await Promise.all(servers.map(({ stop }) => stop()))
  })

  it('the embedded PostgreSQL never deletes a directory that contains something else', async () => {
    const foreign = join(directory, 'foreign')
    await mkdir(foreign)
    await writeFile(join(foreign, 'thesis.txt'), 'years of work')
    await expect(startPostgres({ dataDirectory: foreign })).rejects.toThrow('not a cluster of this sandbox')
    expect(await readFile(join(foreign, 'thesis.txt'), 'utf8')).toBe('years of work')
  })

  it('the embedded PostgreSQL creates its cluster again after an interrupted first start', async () => {
    const interrupted = join(directory, 'interrupted')
    await mkdir(`${interrupted}.initializing`)
    await writeFile(join(`${interrupted}.initializing`, 'PG_VERSION'), '18')
    const postgres = await startPostgres({ dataDirectory: interrupted })
    expect(await query(postgres.connectionString, 'SELECT current_database() AS name')).toEqual([{ name: 'farebox' }])
    await postgres.stop()
  })
})
