import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createControlStore } from '#shared/adapters/postgres/configuration/control-store.ts'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const MODEL = 'textmodel-3.5-flash'
/** The first deployment of the model, the vendor's route that it calls, and that of the second one. */
const [FIRST, SECOND] = ['gemini-3.5-flash', 'open-text']
const [FIRST_ROUTE, SECOND_ROUTE] = ['/v1beta/models/{model}:generateContent', '/v1/chat/completions']

let sandbox: TestSandbox
let pool: Pool
/** Has approved Permit2, so that its calls may run in parallel. */
let payer: PayingClient
beforeAll(async () => {
  sandbox = await startTestSandbox({ workers: 2 })
  const { rpcUrl, network } = sandbox.info
  const { privateKey } = await createPayer(rpcUrl, { usdcAtomic: 1_000_000_000n, approved: true })
  payer = createPayingClient({ privateKey, rpcUrl, network })
  pool = createPool({
    connectionString: sandbox.info.databaseUrl,
    maximumConnections: 2,
    applicationName: 'farebox test',
    onError: () => undefined,
  })
})
afterAll(async () => {
  await pool.end()
  await sandbox.stop()
})

/** Runs `npm run deployments`. */
async function deployments(...commandLine: string[]) {
  const run = await runCommand('infra/commands/deployments.ts', commandLine, {
    DATABASE_URL: sandbox.info.databaseUrl,
  })
  return { ...run, json: run.exitCode === 0 ? (JSON.parse(run.output) as Record<string, unknown>) : null }
}

async function reports(kind: 'api' | 'worker'): Promise<readonly ProcessReport[]> {
  const rows = await sandbox.sql<{ report: ProcessReport }>('SELECT report FROM process_reports WHERE kind = $1', [
    kind,
  ])
  return rows.map(({ report }) => report)
}

/** Waits until both workers and the API report what `isApplied` looks for. */
async function untilApplied(isApplied: (worker: ProcessReport) => boolean): Promise<void> {
  await until(async () => {
    const [row] = await sandbox.sql<{ revision: string }>('SELECT revision FROM configuration_revision')
    const [workers, apis] = await Promise.all([reports('worker'), reports('api')])
    return (
      workers.length === 2 &&
      workers.every(isApplied) &&
      [...workers, ...apis].every(({ configurationRevision }) => configurationRevision === row?.revision)
    )
  })
}

const body = { model: MODEL, messages: [{ role: 'user', content: 'Say hello.' }] }

async function pay(): Promise<Response> {
  const idempotencyKey = randomUUID()
  const priced = await sandbox.post('/v1/chat/completions', body, { idempotencyKey })
  const headers = await payer.sign(priced)
  return await sandbox.post('/v1/chat/completions', body, { idempotencyKey, headers })
}

/** Pays for several calls at a time, so that both workers take some. Returns the vendors' routes that were called. */
async function payForSix(): Promise<readonly string[]> {
  const before = (await sandbox.upstreamCalls()).length
  const answers = await Promise.all(Array.from({ length: 6 }, pay))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 200))
  return (await sandbox.upstreamCalls()).slice(before).map(({ route }) => route)
}

test('a drained deployment gets no call from any worker until it is enabled, and no call fails', async () => {
  expect(await payForSix()).toEqual(Array.from({ length: 6 }, () => FIRST_ROUTE))
  const drained = await deployments('drain', FIRST, '--reason', 'maintenance', '--as', 'ada', '--json')
  expect(drained.json).toMatchObject({ outcome: 'changed', drained_models: [] })
  await untilApplied((worker) => worker.deployments?.[FIRST]?.isDrained === true)
  expect(await payForSix()).toEqual(Array.from({ length: 6 }, () => SECOND_ROUTE))
  const listed = await deployments('list', '--json')
  expect(listed.json).toMatchObject({
    deployments: expect.arrayContaining([
      expect.objectContaining({
        name: FIRST,
        is_drained: true,
        switched: expect.objectContaining({ operator: 'ada', reason: 'maintenance' }),
        workers: [expect.objectContaining({ is_drained: true }), expect.objectContaining({ is_drained: true })],
      }),
    ]),
  })
  await deployments('enable', FIRST, '--reason', 'done', '--json')
  await untilApplied((worker) => worker.deployments?.[FIRST]?.isDrained === false)
  expect(await payForSix()).toEqual(Array.from({ length: 6 }, () => FIRST_ROUTE))
})

test('a model whose every deployment is drained is not offered, and is offered again', async () => {
  const drained = [FIRST, SECOND]
  for (const name of drained) await deployments('drain', name, '--reason', 'all of them', '--json')
  await untilApplied((worker) => drained.every((name) => worker.deployments?.[name]?.isDrained))
  const refused = await sandbox.post('/v1/chat/completions', body)
  expect(refused.status).toBe(503)
  for (const name of drained) await deployments('enable', name, '--reason', 'again', '--json')
  await untilApplied((worker) => drained.every((name) => !worker.deployments?.[name]?.isDrained))
  expect((await pay()).status).toBe(200)
})

test('a weight acts on all workers, and the published one is in force again', async () => {
  expect((await deployments('weight', FIRST, '7', '--reason', 'more', '--json')).exitCode).toBe(0)
  await untilApplied((worker) => worker.deployments?.[FIRST]?.weight === 7)
  await deployments('weight', FIRST, 'published', '--reason', 'as before', '--json')
  await untilApplied((worker) => worker.deployments?.[FIRST]?.weight === 1)
})

test('jobs of a paused queue wait on all workers, and are done once it is resumed', async () => {
  const controls = createControlStore(pool)
  const author = { operator: 'ada', source: 'console' } as const
  await controls.controlQueue(author, { queue: 'text', isPaused: true, reason: 'a bad release' })
  await untilApplied((worker) => worker.queues?.text?.isPaused === true)
  const before = (await sandbox.upstreamCalls()).length
  const answers = Promise.all([pay(), pay(), pay(), pay()])
  await until(async () => {
    const jobs = await sandbox.sql("SELECT 1 FROM jobs WHERE state = 'accepted' AND enqueued_at IS NOT NULL")
    return jobs.length === 4
  })
  // Another queue is not affected.
  const idempotencyKey = randomUUID()
  const headers = await payer.sign(await sandbox.transcribe({ idempotencyKey }))
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
  expect((await sandbox.upstreamCalls()).slice(before).filter(({ route }) => route === FIRST_ROUTE)).toEqual([])
  await controls.controlQueue(author, { queue: 'text', isPaused: false, reason: 'mended' })
  expect((await answers).map(({ status }) => status)).toEqual([200, 200, 200, 200])
})

test.each([
  ['an unknown deployment', 1, ['drain', 'unknown', '--reason', 'why'], 'No deployment "unknown" is published'],
  ['no reason', 2, ['drain', FIRST], 'drain needs --reason'],
  ['a weight of 0', 2, ['weight', FIRST, '0', '--reason', 'why'], 'weight needs a NUMBER'],
  ['an argument too many', 2, ['enable', FIRST, 'more', '--reason', 'why'], 'one argument too many'],
])('the command refuses %s with exit code %d', async (_, exitCode, commandLine, message) => {
  const run = await deployments(...commandLine)
  expect(run).toMatchObject({ exitCode, errors: expect.stringContaining(message) })
})
