import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inParallel } from '../bench/measuring/in-parallel.ts'
import { startTestDevnet } from '../support/chain/devnet.ts'
import { startTcpFaultProxy, type TcpFault } from '../support/http/tcp-fault-proxy.ts'
import { createTestDatabase } from '../support/ledger/test-database.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  type BareProcess,
  type BareSettings,
  createBareSettings,
  type Kind,
  READY_LINES,
  type Settings,
  startBare,
} from '../support/processes/bare-process.ts'
import { haveRedis, startTestRedis } from '../support/processes/redis-server.ts'
import { until } from '../support/until.ts'

interface Program {
  readonly entry: Kind
  readonly settings?: Settings
}

const PROGRAMS = {
  API: { entry: 'api' },
  worker: { entry: 'worker', settings: { WORKER_QUEUES: 'text,images,speech,transcriptions' } },
  settler: { entry: 'worker', settings: { WORKER_QUEUES: 'settlement' } },
  console: { entry: 'console' },
} as const satisfies Readonly<Record<string, Program>>
type Name = keyof typeof PROGRAMS

type Parting = NonNullable<Extract<TcpFault, { kind: 'outage_after' }>['parting']>

/** An error of PostgreSQL's protocol. */
function postgresError(sqlState: string, message: string): Uint8Array {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlState}\0M${message}\0\0`)
  const length = Buffer.alloc(4)
  length.writeInt32BE(fields.length + 4)
  return Buffer.concat([Buffer.from('E'), length, fields])
}
const unavailable = Buffer.from('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
const loading = Buffer.from('-LOADING Redis is loading the dataset in memory\r\n')

/** What a server says as it goes away and while it is; nothing where its connections are reset. */
const PARTINGS: Readonly<Record<string, Parting | undefined>> = {
  'is reset': undefined,
  restarts: {
    toOpen: postgresError('57P01', 'terminating connection due to administrator command'),
    toNew: postgresError('57P03', 'the database system is starting up'),
  },
  loads: { toOpen: new Uint8Array(), toNew: loading },
  'answers 503': { toOpen: unavailable, toNew: unavailable },
}

/** The setting by which a program finds each server. */
const SETTINGS = { PostgreSQL: 'DATABASE_URL', Redis: 'QUEUE_URL', 'the node': 'RPC_URL' } as const
type Server = keyof typeof SETTINGS

let bare: BareSettings
let urls: Readonly<Record<Exclude<Server, 'PostgreSQL'>, string>>
const stops: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  const [redis, devnet] = await Promise.all([haveRedis() ? startTestRedis() : null, startTestDevnet()])
  bare = await createBareSettings('postgres://none')
  stops.push(
    async () => redis?.stop(),
    () => devnet.stop(),
    () => bare.remove(),
  )
  urls = { Redis: redis?.url ?? '', 'the node': devnet.rpcUrl }
})
afterAll(async () => {
  for (const stop of stops.toReversed()) await stop()
})

/** Longer than a start waits before it tries again. */
const OUTAGE_MS = 1200
/** More would measure the machine. */
const AT_A_TIME = 3

/** Starts a program whose server goes away after so many chunks, and returns whether that was before it was up. */
async function startCut(name: Name, server: Server, chunks: number, parting: Parting | undefined): Promise<boolean> {
  // A new one, whose first process imports its files.
  const database = await createTestDatabase()
  const ledger = new pg.Client({ connectionString: database.url })
  await ledger.connect()
  const url = new URL(server === 'PostgreSQL' ? database.url : urls[server])
  const proxy = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) })
  url.port = String(proxy.port)
  await proxy.setFault({ kind: 'outage_after', chunks, ...(parting && { parting }) })
  const program: Program = PROGRAMS[name]
  const run = startBare(program.entry, {
    ...bare.of[program.entry],
    ...program.settings,
    DATABASE_URL: database.url,
    [SETTINGS[server]]: url.href.replace(/\/$/, ''),
  })
  try {
    await untilOr(run, async () => proxy.hits > 0 || (await isUp(run, program, ledger)))
    const wasCut = proxy.hits > 0 && !(await isUp(run, program, ledger))
    if (wasCut) await delay(OUTAGE_MS)
    await proxy.setFault(null)
    await untilOr(run, () => isUp(run, program, ledger))
    return wasCut
  } catch (error) {
    throw new Error(`after ${chunks} chunks: ${run.lines.join('\n')}`, { cause: error })
  } finally {
    await run.stop({ graceMs: PATIENCE_MS })
    await proxy.stop()
    await ledger.end()
    await database.drop()
  }
}

/** Waits for a condition; throws as soon as the program has ended. */
async function untilOr(run: BareProcess, condition: () => Promise<boolean>): Promise<void> {
  let ended: number | null | undefined
  void run.exited.then(({ code }) => (ended = code))
  await until(async () => ended !== undefined || (await condition()))
  if (ended !== undefined) throw new Error(`it ended with ${ended}`)
}

/** Returns whether a program says so, and so does the database: each one reports itself. */
async function isUp(run: BareProcess, { entry }: Program, ledger: pg.Client): Promise<boolean> {
  if (!run.lines.some((line) => line.includes(READY_LINES[entry]))) return false
  const { rowCount } = await ledger.query('SELECT FROM process_reports WHERE instance LIKE $1', [`%-${run.pid}-%`])
  return rowCount === 1
}

const names = Object.keys(PROGRAMS) as Name[]
const cases: readonly (readonly [server: Server, how: string, of: readonly Name[]])[] = [
  ['PostgreSQL', 'is reset', names],
  ['PostgreSQL', 'restarts', names],
  ['Redis', 'is reset', ['API', 'worker', 'settler']],
  ['Redis', 'loads', ['API', 'worker', 'settler']],
  ['the node', 'is reset', names],
  ['the node', 'answers 503', names],
]

describe.skipIf(!haveRedis())('a server that goes away after any statement of a start', () => {
  it.for(cases.flatMap(([server, how, of]) => of.map((name) => [name, server, how] as const)))(
    '%s comes up although %s %s',
    async ([name, server, how], { annotate }) => {
      const parting = PARTINGS[how]
      let last = Number.POSITIVE_INFINITY
      const tries = Array.from({ length: 400 }, (_, index) => index + 1)
      await inParallel(tries, AT_A_TIME, async (chunks) => {
        if (chunks >= last) return
        if (!(await startCut(name, server, chunks, parting))) last = Math.min(last, chunks)
      })
      expect(last).toBeLessThan(tries.length)
      await annotate(`${last - 1} places`)
    },
  )
})

/** Runs a command whose database goes away for good after so many chunks; returns whether that was before it was done. */
async function runCut(entry: `infra/commands/${string}`, args: readonly string[], chunks: number): Promise<boolean> {
  const database = await createTestDatabase()
  const url = new URL(database.url)
  const proxy = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) })
  url.port = String(proxy.port)
  await proxy.setFault({ kind: 'outage_after', chunks })
  const run = startBare(entry, { ...bare.of.worker, DATABASE_URL: url.href }, { args })
  try {
    const { code } = await run.exited
    const output = run.lines.join('\n')
    const isSaid = / at postgres\S+ cannot be (reached|used): \S/.test(output) && !/^ {4}at /m.test(output)
    // The last statement may be done although its answer is lost.
    expect(code === 0 || (proxy.hits > 0 && isSaid) || output).toBe(true)
    return proxy.hits > 0
  } finally {
    await proxy.stop()
    await database.drop()
  }
}

it.for([
  ['infra/commands/migrate/main.ts', []],
  ['infra/commands/operators/main.ts', ['list']],
  ['infra/commands/deployments/main.ts', ['history']],
] as const)(
  '%s says that the database went away, after any statement, and ends',
  async ([entry, args], { annotate }) => {
    let chunks = 1
    while (await runCut(entry, args, chunks)) chunks += 1
    await annotate(`${chunks - 1} places`)
  },
)
