import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createConfigurationReader } from '#shared/adapters/postgres/configuration/configuration-reader.ts'
import { createControlStore } from '#shared/adapters/postgres/configuration/control-store.ts'
import { importFirstFiles } from '#shared/adapters/postgres/configuration/import-files.ts'
import { createProcessReportStore } from '#shared/adapters/postgres/configuration/process-report-store.ts'
import type { Author } from '#shared/operators/author.ts'
import type { Configuration } from '#shared/operators/configuration.ts'
import type { ControlStore } from '#shared/operators/control-store.ts'
import { isRunning, type ProcessReport } from '#shared/operators/process-report.ts'
import { startReporting } from '#shared/operators/report-process.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const ADA: Author = { operator: 'ada', source: 'console' }
const GRACE: Author = { operator: 'grace', source: 'command' }
const WHY = 'the vendor announced an outage'

const deployment = (name: string, ...serves: string[]) => ({
  name,
  adapter: 'gemini',
  base_url: 'http://127.0.0.1:9',
  upstream_model: 'any',
  weight: 3,
  serves,
})

let ledger: TestLedger
let controls: ControlStore
beforeAll(async () => {
  ledger = await createTestLedger()
  controls = createControlStore(ledger.pool)
  const content = { deployments: [deployment('one', 'a', 'b'), deployment('two', 'b')] }
  await importFirstFiles(ledger.pool, [{ kind: 'deployments', content }])
})
afterAll(() => ledger.close())
beforeEach(async () => {
  await ledger.sql('TRUNCATE deployment_controls, queue_controls, process_reports')
})

async function configuration(): Promise<Configuration> {
  const read = await createConfigurationReader(ledger.pool).readConfiguration()
  if (!read) throw new Error('nothing is published')
  return read
}

/** The actions since a number of them, oldest first. */
const actionsSince = (id: string) =>
  ledger.sql(
    'SELECT operator, source, action, subject, reason, details FROM operator_actions WHERE id > $1 ORDER BY id',
    [id],
  )
const lastAction = async () =>
  (await ledger.sql<{ id: string }>('SELECT coalesce(max(id), 0) AS id FROM operator_actions'))[0]?.id ?? '0'

describe('the control of a deployment', () => {
  it('drains, weights and enables it, each with a higher revision and a record of who and why', async () => {
    const [before, actions] = [(await configuration()).revision, await lastAction()]
    const drained = await controls.controlDeployment(ADA, { deployment: 'one', isDrained: true, reason: WHY })
    expect(drained).toEqual({ outcome: 'changed', revision: before + 1n, drainedModels: ['a'] })
    expect((await configuration()).controls).toEqual(new Map([['one', { isDrained: true, weight: null }]]))
    await controls.controlDeployment(GRACE, { deployment: 'one', weight: 7, reason: 'half of the calls' })
    expect((await configuration()).controls).toEqual(new Map([['one', { isDrained: true, weight: 7 }]]))
    const enabled = await controls.controlDeployment(ADA, { deployment: 'one', isDrained: false, reason: 'it works' })
    expect(enabled).toEqual({ outcome: 'changed', revision: before + 3n, drainedModels: [] })
    expect(await configuration()).toMatchObject({
      revision: before + 3n,
      controls: new Map([['one', { isDrained: false, weight: 7 }]]),
    })
    expect(await controls.readDeploymentControls()).toMatchObject(
      new Map([['one', { isDrained: false, weight: 7, operator: 'ada', reason: 'it works' }]]),
    )
    const record = { operator: 'ada', source: 'console', subject: 'one' }
    expect(await actionsSince(actions)).toEqual([
      { ...record, action: 'deployment.drain', reason: WHY, details: { is_drained: true, weight: null } },
      {
        ...record,
        operator: 'grace',
        source: 'command',
        action: 'deployment.weight',
        reason: 'half of the calls',
        details: { is_drained: true, weight: 7 },
      },
      { ...record, action: 'deployment.enable', reason: 'it works', details: { is_drained: false, weight: 7 } },
    ])
  })

  it('returns to the published weight', async () => {
    await controls.controlDeployment(ADA, { deployment: 'two', weight: 9, reason: WHY })
    await controls.controlDeployment(ADA, { deployment: 'two', weight: null, reason: WHY })
    expect((await configuration()).controls.get('two')).toEqual({ isDrained: false, weight: null })
  })

  it('changes and records nothing when it is like this already, or when the deployment is unknown', async () => {
    await controls.controlDeployment(ADA, { deployment: 'one', isDrained: true, reason: WHY })
    const [{ revision }, actions] = [await configuration(), await lastAction()]
    expect(await controls.controlDeployment(GRACE, { deployment: 'one', isDrained: true, reason: WHY })).toEqual({
      outcome: 'unchanged',
      revision,
      drainedModels: ['a'],
    })
    expect(await controls.controlDeployment(GRACE, { deployment: 'three', isDrained: true, reason: WHY })).toEqual({
      outcome: 'unknown_deployment',
      known: ['one', 'two'],
    })
    expect((await configuration()).revision).toBe(revision)
    expect(await actionsSince(actions)).toEqual([])
  })

  it('is made once by two operators at the same time', async () => {
    const client = await ledger.pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT revision FROM configuration_revision FOR UPDATE')
    const changes = [ADA, GRACE].map((author) =>
      controls.controlDeployment(author, { deployment: 'two', isDrained: true, reason: WHY }),
    )
    await expect
      .poll(() =>
        ledger.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"),
      )
      .toHaveLength(2)
    await client.query('COMMIT')
    client.release()
    expect((await Promise.all(changes)).map(({ outcome }) => outcome).sort()).toEqual(['changed', 'unchanged'])
  })
})

describe('the control of a queue', () => {
  it('pauses and resumes it, each with a record of who and why', async () => {
    const actions = await lastAction()
    expect(await controls.controlQueue(ADA, { queue: 'text', isPaused: true, reason: WHY })).toMatchObject({
      outcome: 'changed',
    })
    expect((await configuration()).pausedQueues).toEqual(new Set(['text']))
    expect(await controls.readQueueControls()).toMatchObject(
      new Map([['text', { isPaused: true, operator: 'ada', reason: WHY }]]),
    )
    const revision = (await configuration()).revision
    expect(await controls.controlQueue(GRACE, { queue: 'text', isPaused: true, reason: WHY })).toEqual({
      outcome: 'unchanged',
      revision,
    })
    await controls.controlQueue(GRACE, { queue: 'text', isPaused: false, reason: 'done' })
    expect(await configuration()).toMatchObject({ revision: revision + 1n, pausedQueues: new Set() })
    expect(await actionsSince(actions)).toMatchObject([
      { operator: 'ada', action: 'queue.pause', subject: 'text', reason: WHY },
      { operator: 'grace', action: 'queue.resume', subject: 'text', reason: 'done' },
    ])
  })
})

const seen = () => createProcessReportStore(ledger.pool).readProcesses()

describe('the reports of processes', () => {
  const report: ProcessReport = { version: '1.0.0', configurationRevision: '7', keys: { PAY_TO: ['0x1'] } }
  const logged: string[] = []
  const options = (describe: () => ProcessReport) => ({
    kind: 'worker' as const,
    store: createProcessReportStore(ledger.pool),
    describe,
    logger: {
      warn: (message: string) => void logged.push(message),
      info: (message: string) => void logged.push(message),
    },
    now: () => new Date(),
    intervalMs: 20,
  })
  it('a process reports what it does until it stops, and is then gone', async () => {
    let revision = 7
    const reporting = startReporting(options(() => ({ ...report, configurationRevision: String(revision) })))
    await expect.poll(seen).toMatchObject([{ instance: reporting.instance, kind: 'worker', report }])
    revision = 8
    await expect.poll(seen).toMatchObject([{ report: { configurationRevision: '8' } }])
    const [process] = await seen()
    if (!process) throw new Error('not reported')
    expect(isRunning(process, process.seenAt)).toBe(true)
    expect(isRunning(process, new Date(process.seenAt.getTime() + 10_000))).toBe(false)
    await reporting.stop()
    expect(await seen()).toEqual([])
  })

  it('two processes of one host have two names', async () => {
    const [one, other] = [startReporting(options(() => report)), startReporting(options(() => report))]
    await expect.poll(async () => (await seen()).length).toBe(2)
    await Promise.all([one.stop(), other.stop()])
  })

  it('a report that cannot be written is left out, says so once, and the next one follows', async () => {
    logged.length = 0
    const store = createProcessReportStore(ledger.pool)
    let [failures, isFailing] = [0, true]
    const reporting = startReporting({
      ...options(() => report),
      store: {
        ...store,
        writeReport: (...written) => {
          if (!isFailing) return store.writeReport(...written)
          failures += 1
          return Promise.reject(new Error('no database'))
        },
      },
    })
    await expect.poll(() => failures).toBeGreaterThan(2)
    expect(logged).toEqual(['the process could not be reported'])
    isFailing = false
    await expect.poll(seen).toMatchObject([{ instance: reporting.instance }])
    await reporting.stop()
  })

  it('processes that have been gone for a day are removed by any report', async () => {
    await ledger.sql(`INSERT INTO process_reports (instance, kind, started_at, seen_at, report)
      VALUES ('old', 'api', now(), now() - interval '25 hours', '{}'), ('silent', 'api', now(), now() - interval '1 hour', '{}')`)
    const reporting = startReporting(options(() => report))
    await expect
      .poll(async () => (await seen()).map(({ instance }) => instance))
      .toEqual([reporting.instance, 'silent'])
    expect(await ledger.sql("SELECT 1 FROM process_reports WHERE instance = 'old'")).toEqual([])
    await reporting.stop()
  })
})
