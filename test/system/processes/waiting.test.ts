import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inParallel } from '../../bench/measuring/in-parallel.ts'
import { createTestDatabase } from '../../support/ledger/test-database.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import {
  type BareProcess,
  createBareSettings,
  type Kind,
  READY_LINES,
  type Settings,
  startBare,
} from '../../support/processes/bare-process.ts'
import { until } from '../../support/until.ts'

interface Program {
  readonly entry: Parameters<typeof startBare>[0]
  readonly args?: readonly string[]
  readonly settings?: Settings
}

/** Every program that uses the ledger or the queue. */
const PROGRAMS: Readonly<Record<string, Program>> = {
  API: { entry: 'api' },
  worker: { entry: 'worker' },
  settler: { entry: 'worker', settings: { WORKER_QUEUES: 'settlement' } },
  console: { entry: 'console' },
  ledger: { entry: 'infra/commands/ledger/main.ts', args: ['--no-chain'] },
  archive: { entry: 'infra/commands/archive/main.ts' },
  'archive --dry-run': { entry: 'infra/commands/archive/main.ts', args: ['--dry-run'] },
  catalog: { entry: 'infra/commands/catalog/main.ts', args: ['history'] },
  deployments: { entry: 'infra/commands/deployments/main.ts', args: ['list'] },
  operators: { entry: 'infra/commands/operators/main.ts', args: ['list'] },
  payers: { entry: 'infra/commands/payers/main.ts', args: ['list'] },
  resolve: { entry: 'infra/commands/resolve/main.ts' },
  preflight: { entry: 'infra/commands/preflight/main.ts' },
  // The last one, as the pauses between its attempts grow.
  migrate: { entry: 'infra/commands/migrate/main.ts' },
}
/** Those that wait until the lock is free. The others end, preflight once each of its checks has. */
const WAITING = new Set(['API', 'worker', 'settler', 'console', 'migrate'])

/** How soon after its beginning a wait is said. */
const SAID_WITHIN_MS = 5000
/** Programs that start at the same time: more would measure the machine. */
const STARTING = 4

interface Started extends BareProcess {
  readonly program: Program
  /** What was said about waits, and how long after their beginning. */
  readonly waits: readonly Wait[]
}
interface Wait {
  readonly line: string
  readonly saidAfterMs: number
}

/** Starts a program and measures when it says what it waits for. */
function startWatched(program: Program, settings: Settings): Started {
  const waits: Wait[] = []
  const onLine = (line: string) => {
    const [, since] = /waiting since (20\S+Z) for /.exec(line) ?? []
    if (since !== undefined) waits.push({ line, saidAfterMs: Date.now() - Date.parse(since) })
  }
  const { entry, args = [] } = program
  return { ...startBare(entry, { ...settings, ...program.settings }, { args, onLine }), program, waits }
}

/** Waits until a program has named what it waits for, and returns that. */
async function untilSaid(run: Started, isNamed: (line: string) => boolean): Promise<Wait> {
  const find = () => run.waits.find(({ line }) => isNamed(line))
  await until(() => find() !== undefined)
  return find() as Wait
}

/**
 * Starts every program beside a session that has done something to every table in a transaction that is still open. Some
 * at a time, each until it says that it waits or, where `isWaited` is false, until it is started.
 */
async function startBeside(statementOn: (tables: readonly string[]) => string, isWaited: boolean) {
  const database = await createTestDatabase()
  const other = new pg.Client({ connectionString: database.url, application_name: 'somebody else' })
  await other.connect()
  const { rows } = await other.query<{ name: string }>(
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname IN ('public', 'farebox_queue')",
  )
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await other.query(statementOn(rows.map(({ name }) => name)))
  const bare = await createBareSettings(database.url)
  const runs = new Map<string, Started>()
  await inParallel(Object.entries(PROGRAMS), STARTING, async ([name, program]) => {
    const { entry } = program
    const own = entry in bare.of ? bare.of[entry as Kind] : { ...bare.of.api, ...bare.of.worker }
    const run = startWatched(program, own)
    runs.set(name, run)
    if (isWaited) await untilSaid(run, () => true)
  })
  return {
    of: (name: string) => {
      const run = runs.get(name)
      if (!run) throw new Error(`there is no program ${name}`)
      return run
    },
    letGo: async () => void (await other.query('ROLLBACK')),
    stop: async () => {
      await Promise.all([...runs.values()].map((run) => run.stop()))
      await other.end()
      await bare.remove()
      await database.drop()
    },
  }
}
type Runs = Awaited<ReturnType<typeof startBeside>>

/** Waits until a service serves, and ends it, or until a command has ended. Returns the exit code. */
async function untilDone(run: Started): Promise<number | null> {
  const { entry } = run.program
  if (entry in READY_LINES) {
    await until(() => run.lines.some((line) => line.includes(READY_LINES[entry as Kind])))
    await run.stop({ graceMs: PATIENCE_MS })
  }
  return (await run.exited).code
}

const names = Object.keys(PROGRAMS)

describe('beside a lock on every table', () => {
  let runs: Runs
  beforeAll(async () => {
    runs = await startBeside((tables) => `LOCK TABLE ${tables.join(', ')} IN ACCESS EXCLUSIVE MODE`, true)
  })
  afterAll(() => runs.stop())

  it.for(names)('%s says which table it waits for, and who holds it since when', async (name, { annotate }) => {
    const named =
      /waiting since 20\S+Z for the table \S+, held by \W+somebody else\W+ \(pid \d+, in a transaction since 20/
    const { line, saidAfterMs } = await untilSaid(runs.of(name), (said) => named.test(said))
    await annotate(`after ${saidAfterMs} ms: ${line}`)
    expect(saidAfterMs).toBeLessThan(SAID_WITHIN_MS)
  })

  it.each(names.filter((name) => !WAITING.has(name) && name !== 'preflight'))(
    '%s ends, and says what it waited for',
    async (name) => {
      const run = runs.of(name)
      expect((await run.exited).code).not.toBe(0)
      await until(() => run.lines.some((line) => /gave up waiting since .* for the table .*somebody else/.test(line)))
      expect(run.lines.join('\n')).not.toContain('canceling')
    },
  )

  it('the others go on once the lock is free', async () => {
    await runs.letGo()
    const codes = await Promise.all([...WAITING].map(async (name) => [name, await untilDone(runs.of(name))]))
    expect(codes).toEqual([...WAITING].map((name) => [name, 0]))
  })
})

describe('beside an open snapshot that has read every table', () => {
  let runs: Runs
  beforeAll(async () => {
    runs = await startBeside((tables) => tables.map((table) => `SELECT count(*) FROM ${table}`).join('; '), false)
  })
  afterAll(() => runs.stop())

  it.each(names)('%s waits for nothing', async (name) => {
    const run = runs.of(name)
    const code = await untilDone(run)
    // Some commands end with 1, since there is nothing to list or to check.
    expect(WAITING.has(name) ? [0] : [0, 1]).toContain(code)
    // For no table: a database that answers late says something about the machine.
    expect(run.lines.join('\n')).not.toMatch(/waiting since \S+ for the table|: blocked|gave up/)
  })
})

/** What to set so that the server at `hole` is waited for: the setting's own form of the address. */
const SERVERS = {
  DATABASE_URL: (hole: string) => ({ DATABASE_URL: `postgres://farebox:correct-horse@${hole}/farebox` }),
  'QUEUE_URL of PostgreSQL': (hole: string) => ({ QUEUE_URL: `postgres://farebox:correct-horse@${hole}/farebox` }),
  'QUEUE_URL of Redis': (hole: string) => ({ QUEUE_URL: `redis://:correct-horse@${hole}` }),
  RPC_URL: (hole: string) => ({ RPC_URL: `http://${hole}/correct-horse` }),
  FACILITATOR_URL: (hole: string) => ({ FACILITATOR_ADDRESSES: undefined, FACILITATOR_URL: `http://${hole}` }),
  S3_ENDPOINT: (hole: string) => ({
    OBJECT_STORE_DIRECTORY: undefined,
    S3_BUCKET: 'a-bucket',
    S3_ENDPOINT: `http://${hole}`,
    S3_ACCESS_KEY_ID: 'an-id',
    S3_SECRET_ACCESS_KEY: 'correct-horse',
    S3_FORCE_PATH_STYLE: 'true',
  }),
} as const satisfies Readonly<Record<string, (hole: string) => Settings>>

const REDIS = 'QUEUE_URL of Redis'

const command = (name: string, ...args: string[]): Program => ({ entry: `infra/commands/${name}/main.ts`, args })
const account = `0x${'4'.repeat(40)}`
const WAITED_FOR: readonly (readonly [name: string, server: keyof typeof SERVERS, program: Program])[] = [
  ...(['api', 'worker'] as const).flatMap((entry) =>
    (['DATABASE_URL', 'QUEUE_URL of PostgreSQL', 'QUEUE_URL of Redis', 'RPC_URL', 'S3_ENDPOINT'] as const).map(
      (server) => [entry, server, { entry }] as const,
    ),
  ),
  ['api', 'FACILITATOR_URL', { entry: 'api' }],
  ['console', 'DATABASE_URL', { entry: 'console' }],
  ['migrate', 'DATABASE_URL', command('migrate')],
  ['migrate', 'QUEUE_URL of PostgreSQL', command('migrate')],
  ['ledger', 'DATABASE_URL', command('ledger', '--no-chain')],
  ['ledger', 'RPC_URL', command('ledger')],
  ['archive', 'S3_ENDPOINT', command('archive')],
  ['bucket-init', 'S3_ENDPOINT', command('bucket-init')],
  ['preflight', 'S3_ENDPOINT', command('preflight')],
  ['deploy', 'RPC_URL', command('deploy-settlement-contract', '--owner', account, '--keys', account, '--dry-run')],
]

describe('in front of a server that accepts connections and never answers', () => {
  let hole: Server
  let address: string
  const runs: Started[] = []
  const stops: (() => Promise<void>)[] = []
  beforeAll(async () => {
    hole = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(hole, 'listening')
    address = `127.0.0.1:${(hole.address() as AddressInfo).port}`
    const database = await createTestDatabase()
    const bare = await createBareSettings(database.url)
    stops.push(
      () => bare.remove(),
      () => database.drop(),
    )
    const all = { ...bare.of.api, ...bare.of.worker, ...bare.of.console }
    await inParallel(WAITED_FOR, STARTING, async ([, server, { entry, args = [] }], index) => {
      const known = args.at(-1) === '--url' ? [...args, `http://${address}`] : args
      const run = startWatched({ entry, args: known }, { ...all, ...SERVERS[server](address) })
      runs[index] = run
      await until(() => run.lines.some((line) => line.includes(address)))
    })
  })
  afterAll(async () => {
    await Promise.all(runs.map((run) => run.stop()))
    hole.close()
    for (const stop of stops) await stop()
  })

  const watched = WAITED_FOR.map(([name, server], index) => [name, server, index] as const)
  const runAt = (index: number) => {
    const run = runs[index]
    if (!run) throw new Error('it was not started')
    return run
  }
  const isNamed = (line: string, words: string) => line.includes(address) && line.includes(words)

  it.for(watched.filter(([, server]) => server !== REDIS))('%s names it (%s)', async ([, , index], { annotate }) => {
    const { line, saidAfterMs } = await untilSaid(runAt(index), (said) => isNamed(said, 'which does not answer'))
    await annotate(`after ${saidAfterMs} ms: ${line}`)
    expect(saidAfterMs).toBeLessThan(SAID_WITHIN_MS)
  })

  it.for(watched.filter(([, server]) => server === REDIS))('%s names it (%s)', async ([, , index]) => {
    await until(() => runAt(index).lines.some((line) => isNamed(line, 'no answer in time')))
  })

  const services = watched.filter(([name]) => ['api', 'worker', 'console'].includes(name))
  it.for(services)('%s ends by a handler of its own on SIGTERM, as a container needs (%s)', async ([, , index]) => {
    const run = runAt(index)
    await run.stop({ graceMs: PATIENCE_MS })
    expect((await run.exited).signal).toBeNull()
  })

  it('none shows a password', () => {
    expect(runs.flatMap(({ lines }) => lines).join('\n')).not.toContain('correct-horse')
  })
})
