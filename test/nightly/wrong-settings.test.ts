import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS } from '#shared/chain/network/contracts.ts'
import { startAnvil } from '../../infra/sandbox/chain/anvil.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { findFreePort } from '../../infra/sandbox/processes/free-port.ts'
import { ERROR_BODIES, ERROR_STATUSES } from '../support/http/error-pages.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../support/http/tcp-fault-proxy.ts'
import { createTestDatabase, type TestDatabase } from '../support/ledger/test-database.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  type BareProcess,
  type BareSettings,
  createBareSettings,
  READY_LINES,
  SETTLEMENT_KEY,
  type Settings,
  startBare,
} from '../support/processes/bare-process.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../support/processes/redis-server.ts'
import { haveS3, startTestS3, type TestS3 } from '../support/processes/s3-server.ts'
import { until } from '../support/until.ts'

const SHIFTED_CLOCK = new URL('../support/processes/shifted-clock.ts', import.meta.url).href
const PASSWORD = 'correct-horse-battery'
type Kind = 'api' | 'worker'
/** Services and files that the cases refer to; they exist only once the tests run. */
interface Services {
  readonly databases: Readonly<Record<'right' | 'empty' | 'older' | 'newer' | 'changed' | 'beforeOne', string>>
  readonly redis: Readonly<Record<'right' | 'evicting' | 'locked', TestRedis>>
  readonly s3: TestS3
  /** Keys of a user of `s3` who may do nothing. */
  readonly stranger: Settings
  readonly bare: BareSettings
  readonly closedPort: number
  /** Address of a server that answers with the status and the body that its path names. */
  readonly errorPages: string
  /** A chain with a pending transaction of SETTLEMENT_KEY that this database does not know. */
  readonly rpcUrl: string
}
let services: Services
const stops: (() => Promise<void>)[] = []
async function openDatabase(statement: string | null): Promise<string> {
  const database: TestDatabase = await createTestDatabase()
  stops.push(() => database.drop())
  if (statement !== null) {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    await client.query(statement)
    await client.end()
  }
  return database.url
}
async function openRedis(...options: string[]): Promise<TestRedis> {
  const redis = await startTestRedis(options)
  stops.push(() => redis.stop())
  return redis
}
async function openChainInUse(): Promise<string> {
  const anvil = await startAnvil({ args: ['--chain-id', '8453'] })
  stops.push(() => anvil.stop())
  const account = privateKeyToAccount(SETTLEMENT_KEY)
  await callRpc(anvil.rpcUrl, 'anvil_setBalance', [account.address, toHex(10n ** 18n)])
  // Without code at these addresses no start goes on to other settings.
  for (const address of [PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS])
    await callRpc(anvil.rpcUrl, 'anvil_setCode', [address, '0x00'])
  await callRpc(anvil.rpcUrl, 'evm_setAutomine', [false])
  const transaction = { type: 'eip1559', chainId: 8453, nonce: 0, gas: 21_000n, to: account.address } as const
  const fees = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 9n }
  const raw = await account.signTransaction({ ...transaction, ...fees })
  await callRpc(anvil.rpcUrl, 'eth_sendRawTransaction', [raw])
  return anvil.rpcUrl
}
async function openErrorPages(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    const [, status, body] = new URL(request.url ?? '', 'http://page').pathname.split('/').map(decodeURIComponent)
    const page = ERROR_BODIES[body as keyof typeof ERROR_BODIES]
    response.writeHead(Number(status), { 'content-type': page.type }).end(page.body(Number(status)))
  }).listen(0, '127.0.0.1')
  stops.push(async () => void server.close())
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
async function openServices(): Promise<void> {
  const s3 = await startTestS3()
  stops.push(() => s3.stop())
  const right = await openDatabase(null)
  const bare = await createBareSettings(right)
  stops.push(() => bare.remove())
  await writeFile(join(bare.folder, 'not-json'), 'deployments: []')
  const drop = 'DROP SCHEMA public CASCADE; CREATE SCHEMA public'
  const forget = 'DELETE FROM schema_migrations WHERE name = (SELECT max(name) FROM schema_migrations)'
  const ofEarlierVersion = 'ALTER TABLE schema_migrations DROP COLUMN compatible_from'
  services = {
    bare,
    s3,
    stranger: { ...(await s3.addUser('stranger')) },
    closedPort: await findFreePort(),
    errorPages: await openErrorPages(),
    rpcUrl: await openChainInUse(),
    databases: {
      right,
      empty: await openDatabase(drop),
      older: await openDatabase(forget),
      newer: await openDatabase("INSERT INTO schema_migrations (name, digest) VALUES ('9999-of-tomorrow.sql', 'x')"),
      changed: await openDatabase("UPDATE schema_migrations SET digest = 'x' WHERE name LIKE '0001-%'"),
      beforeOne: await openDatabase(ofEarlierVersion),
    },
    redis: {
      right: await openRedis(),
      evicting: await openRedis('maxmemory 50mb', 'maxmemory-policy allkeys-lru'),
      locked: await openRedis('requirepass something-else'),
    },
  }
}
function start(kind: Kind, changes: Settings, onLine: (line: string) => void = () => undefined): BareProcess {
  return startBare(kind, { ...services.bare.of[kind], ...changes }, { onLine })
}
/** Starts a proxy that refuses connections until it is healed. */
async function startFaultyAt(url: string): Promise<TcpFaultProxy> {
  const { hostname, port } = new URL(url)
  const proxy = await startTcpFaultProxy({ host: hostname, port: Number(port) })
  stops.push(() => proxy.stop())
  await proxy.setFault({ kind: 'refuse' })
  return proxy
}
const NAMES = { api: 'API', worker: 'worker' } as const
/** Starts a process that must fail and returns its exit code and output. One that starts nevertheless is stopped. */
async function failToStart(kind: Kind, changes: Settings): Promise<{ code: number | null; output: string }> {
  const run = start(kind, changes, (line) => {
    if (line.includes(READY_LINES[kind])) void run.stop()
  })
  const { code } = await run.exited
  // The last lines may arrive after the exit.
  await untilLogged(run, `The ${NAMES[kind]} did not start.`)
  return { code, output: run.lines.join('\n') }
}
function untilLogged(run: BareProcess, text: string): Promise<string> {
  return until(() => run.lines.find((line) => line.includes(text)))
}
const database = (which: keyof Services['databases']) => () => ({ DATABASE_URL: services.databases[which] })
const withUser = (url: string, user: string) => url.replace(/\/\/[^@]*@?(?=[^@/]*\/)/, `//${user}@`)
const withBucket = (changes: Settings) => (): Settings => ({
  OBJECT_STORE_DIRECTORY: undefined,
  ...services.s3.environment(),
  ...changes,
})
const clockShiftedBy = (seconds: number) => () => ({
  NODE_OPTIONS: `--import ${SHIFTED_CLOCK}`,
  CLOCK_SHIFT_MS: String(seconds * 1000),
})
/** One wrong setting of a process; every expected text must appear in the output. */
type Case = readonly [fault: string, kind: Kind, changes: () => Settings, expected: readonly (string | RegExp)[]]
/** Returns a case for each process, to show that both run the check; its other findings are tested with one of them. */
const forBoth = (fault: string, changes: () => Settings, ...expected: (string | RegExp)[]): readonly Case[] => [
  [fault, 'api', changes, expected],
  [fault, 'worker', changes, expected],
]
const forOne = (kind: Kind, fault: string, changes: () => Settings, ...expected: (string | RegExp)[]): Case => [
  fault,
  kind,
  changes,
  expected,
]
const cases: readonly Case[] = [
  forOne(
    'api',
    'unknown kinds of queue and database',
    () => ({
      QUEUE_URL: `amqp://user:${PASSWORD}@host`,
      DATABASE_URL: 'mysql://host/farebox',
    }),
    'QUEUE_URL',
    'DATABASE_URL',
  ),
  forOne(
    'worker',
    'a wrong Redis password',
    () => ({ QUEUE_URL: services.redis.locked.url.replace('//', `//:${PASSWORD}@`) }),
    'QUEUE_URL: the queue at redis://',
    /WRONGPASS|invalid password/,
  ),
  forOne(
    'api',
    'a Redis that may evict keys',
    () => ({ QUEUE_URL: services.redis.evicting.url }),
    'QUEUE_URL: the queue at redis://',
    'set maxmemory-policy noeviction',
  ),
  forOne(
    'worker',
    'a queue in a database that was never migrated',
    () => ({ QUEUE_URL: services.databases.right.replace(/\/[^/]*$/, '/postgres') }),
    'QUEUE_URL: the queue at postgres://',
  ),
  forOne(
    'api',
    'no object store',
    () => ({ OBJECT_STORE_DIRECTORY: undefined }),
    'set either OBJECT_STORE_DIRECTORY or',
  ),
  forOne(
    'worker',
    'two object stores',
    () => ({ S3_BUCKET: 'a-bucket' }),
    'set only one of OBJECT_STORE_DIRECTORY and',
  ),
  forOne('worker', 'incomplete S3 credentials', withBucket({ S3_ACCESS_KEY_ID: undefined }), 'S3_ACCESS_KEY_ID'),
  forOne(
    'api',
    'redirected media without a bucket',
    () => ({ MEDIA_DELIVERY: 'redirect' }),
    'MEDIA_DELIVERY=redirect requires S3',
  ),
  ...forBoth(
    'a missing database',
    () => ({ DATABASE_URL: services.databases.right.replace(/\/[^/]*$/, '/nowhere') }),
    /DATABASE_URL: the database at postgres\S+\/nowhere cannot be used: database "nowhere" does not exist/,
  ),
  forOne(
    'worker',
    'an unknown database user',
    () => ({ DATABASE_URL: withUser(services.databases.right, `stranger:${PASSWORD}`) }),
    'DATABASE_URL: the database at postgres',
    /stranger/,
  ),
  ...forBoth(
    'a database that was never migrated',
    database('empty'),
    /DATABASE_URL: .* is older than this program and lacks 0001-schema\.sql/,
    'npm run migrate',
  ),
  forOne(
    'api',
    'a database with an older schema',
    database('older'),
    /DATABASE_URL: .* is older .* lacks 00\d\d-\S+\.sql; run npm run/,
  ),
  forOne(
    'worker',
    'a database with a newer schema',
    database('newer'),
    /DATABASE_URL: .* is newer .* cannot work with 9999-of-tomorrow/,
  ),
  forOne(
    'api',
    'a database with a changed migration',
    database('changed'),
    /DATABASE_URL: .* a different version of 0001-schema\.sql/,
  ),
  forOne(
    'worker',
    'a database of a version before 1.0',
    database('beforeOne'),
    /DATABASE_URL: .* cannot be used: the schema is of a version before 1\.0/,
  ),
  forOne(
    'api',
    'a clock that is ahead',
    clockShiftedBy(3600),
    /DATABASE_URL: this machine's clock is 3[56]\d\d s ahead of/,
  ),
  forOne(
    'worker',
    'a clock that is behind',
    clockShiftedBy(-120),
    /DATABASE_URL: this machine's clock is 1[12]\d s behind/,
  ),
  ...forBoth(
    'a missing deployments file',
    () => ({ DEPLOYMENTS_FILE: join(services.bare.folder, 'none') }),
    'DEPLOYMENTS_FILE: ENOENT',
  ),
  forOne(
    'api',
    'a deployments file that is not valid JSON',
    () => ({ DEPLOYMENTS_FILE: join(services.bare.folder, 'not-json') }),
    'DEPLOYMENTS_FILE: The deployments file is not valid JSON',
  ),
  forOne('worker', 'a provider without its key', () => ({ UPSTREAM_KEY: undefined }), 'UPSTREAM_KEY is not set'),
  forOne(
    'worker',
    'a settler without a key',
    () => ({ SETTLEMENT_PRIVATE_KEYS: undefined }),
    'SETTLEMENT_PRIVATE_KEYS',
  ),
  forOne(
    'worker',
    'a settlement key that another installation uses',
    () => ({ RPC_URL: services.rpcUrl }),
    /SETTLEMENT_PRIVATE_KEYS: 0x[0-9a-f]{40} has pending transactions that this database does not know/,
  ),
  ...forBoth(
    'a settlement contract that is not on this chain',
    () => ({ RPC_URL: services.rpcUrl, SETTLEMENT_CONTRACT: `0x${'3'.repeat(40)}` }),
    'SETTLEMENT_CONTRACT: there is no contract at 0x3333',
  ),
  forOne(
    'api',
    'a facilitator’s address where something else answers',
    () => ({
      FACILITATOR_ADDRESSES: undefined,
      FACILITATOR_URL: `${services.errorPages}/404/${Object.keys(ERROR_BODIES)[0]}`,
    }),
    'FACILITATOR_URL',
  ),
]
/** What is wrong with a store, which ends no start: text needs none. */
const storeCases: readonly Case[] = [
  ...forBoth(
    'an invalid object store folder',
    () => ({ OBJECT_STORE_DIRECTORY: join(services.bare.folder, 'not-json', 'below') }),
    'OBJECT_STORE_DIRECTORY: ENOTDIR',
  ),
  ...forBoth(
    'a missing bucket',
    withBucket({ S3_BUCKET: 'nowhere' }),
    'S3_BUCKET: there is no bucket nowhere at',
    'infra/commands/bucket-init/main.ts creates it',
  ),
  forOne(
    'worker',
    'rejected S3 credentials',
    withBucket({ S3_ACCESS_KEY_ID: 'WRONG', S3_SECRET_ACCESS_KEY: PASSWORD }),
    'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY',
    'rejects the key id',
  ),
  ...forBoth(
    'S3 credentials without any permission',
    () => withBucket({ ...services.stranger })(),
    'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY',
    'grant s3:ListBucket',
  ),
  ...ERROR_STATUSES.flatMap((status) =>
    Object.keys(ERROR_BODIES).flatMap((body) =>
      forBoth(
        `a page of a proxy in front of the store, ${status} as ${body}`,
        () => withBucket({ S3_ENDPOINT: `${services.errorPages}/${status}/${encodeURIComponent(body)}` })(),
        {
          403: 'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: these credentials may not',
          404: 'S3_BUCKET: there is no bucket',
        }[status as number] ?? new RegExp(`S3_ENDPOINT: .*/${status}/.* cannot be reached: HTTP ${status}`),
      ),
    ),
  ),
]

describe.skipIf(!haveRedis() || !haveS3())('the settings of API and worker', () => {
  beforeAll(openServices)
  afterAll(async () => {
    for (const stop of stops.toReversed()) await stop()
  })

  it.concurrent.each(cases)('names the setting and does not start with %s (%s)', async (_, kind, changes, expected) => {
    const { code, output } = await failToStart(kind, changes())
    for (const text of expected) expect(output).toMatch(text)
    expect(output).not.toContain(PASSWORD)
    // A message and not a stack trace.
    expect(output).not.toMatch(/^ {4}at /m)
    expect(code).toBe(1)
  })

  it.concurrent.each(storeCases)('names the setting and starts with %s (%s)', async (_, kind, changes, expected) => {
    const run = start(kind, changes())
    await untilLogged(run, READY_LINES[kind])
    for (const text of expected) await until(() => run.lines.some((line) => line.match(text)))
    await run.stop({ graceMs: PATIENCE_MS })
    expect(run.lines.join('\n')).not.toContain(PASSWORD)
    expect(await run.exited).toEqual({ code: 0, signal: null })
  })

  it.each(['api', 'worker'] as const)('starts and stops an %s with correct settings', async (kind) => {
    const run = start(kind, { ...withBucket({})(), QUEUE_URL: services.redis.right.url })
    await untilLogged(run, READY_LINES[kind])
    await run.stop({ graceMs: PATIENCE_MS })
    expect(await run.exited).toEqual({ code: 0, signal: null })
  })

  it('an unreachable database makes an API unready and a worker wait', async () => {
    const unreachable = { DATABASE_URL: `postgres://user:${PASSWORD}@127.0.0.1:${services.closedPort}/farebox` }
    const queue = { QUEUE_URL: services.redis.right.url }
    const [api, worker] = [start('api', { ...unreachable, ...queue }), start('worker', { ...unreachable, ...queue })]
    const baseUrl = /http:\/\/[\d.:]+/.exec(await untilLogged(api, READY_LINES.api))?.[0]
    // A check that takes seconds counts as down.
    await expect
      .poll(async () => {
        const answer = await fetch(`${baseUrl}/readyz`)
        return { status: answer.status, body: await answer.json() }
      })
      .toMatchObject({ status: 503, body: { checks: { database: 'down', queue: 'ok' } } })
    await Promise.all([api, worker].map((run) => untilLogged(run, 'DATABASE_URL: the database cannot be reached yet')))
    expect(worker.lines.join()).not.toContain(READY_LINES.worker)
    await Promise.all([api.stop(), worker.stop()])
    expect([...api.lines, ...worker.lines].join()).not.toContain(PASSWORD)
  })

  it('an API says that it waits for a facilitator that cannot be reached', async () => {
    const api = start('api', {
      FACILITATOR_ADDRESSES: undefined,
      FACILITATOR_URL: `http://127.0.0.1:${services.closedPort}`,
    })
    await untilLogged(api, 'FACILITATOR_URL: this process waits for the facilitator')
    await api.stop()
    expect(api.lines.join()).not.toContain('did not start')
  })

  it.each(['api', 'worker'] as const)('an %s starts while queue and object store are unreachable', async (kind) => {
    const [redis, s3] = await Promise.all([startFaultyAt(services.redis.right.url), startFaultyAt(services.s3.url)])
    const run = start(kind, {
      ...withBucket({ S3_ENDPOINT: `http://127.0.0.1:${s3.port}`, S3_SECRET_ACCESS_KEY: PASSWORD })(),
      QUEUE_URL: `redis://user:${PASSWORD}@127.0.0.1:${redis.port}`,
    })
    await Promise.all([
      untilLogged(run, READY_LINES[kind]),
      untilLogged(run, `QUEUE_URL: the queue at redis://127.0.0.1:${redis.port} cannot be used: `),
      untilLogged(run, `S3_ENDPOINT: http://127.0.0.1:${s3.port} cannot be reached: `),
    ])
    // A refusal that is only seen later is reported, and may still be repaired without a restart.
    await Promise.all([redis.setFault(null), s3.setFault(null)])
    await Promise.all([untilLogged(run, 'WRONGPASS'), untilLogged(run, 'rejects the signature')])
    await run.stop({ graceMs: PATIENCE_MS })
    expect(await run.exited).toEqual({ code: 0, signal: null })
    expect(run.lines.join()).not.toContain(PASSWORD)
  })

  it('an API becomes unready when its Redis may evict keys or is unreachable', async () => {
    const redis = await openRedis('maxmemory 50mb', 'maxmemory-policy noeviction')
    const api = start('api', { QUEUE_URL: redis.url })
    const baseUrl = /http:\/\/[\d.:]+/.exec(await untilLogged(api, READY_LINES.api))?.[0]
    const queue = async () => {
      const { checks } = (await (await fetch(`${baseUrl}/readyz`)).json()) as { checks: { queue: string } }
      return checks.queue
    }
    // A check that takes seconds counts as down.
    await expect.poll(queue).toBe('ok')
    await redis.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await expect.poll(queue).toBe('down')
    await redis.client.config('SET', 'maxmemory-policy', 'noeviction')
    await expect.poll(queue).toBe('ok')
    await redis.kill()
    await expect.poll(queue).toBe('down')
    await redis.restart()
    await expect.poll(queue).toBe('ok')
    await api.stop()
  })
})
