import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { parseDeployments } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { JobState, LeasedJob } from '#shared/jobs/job.ts'
import { createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Acceptance } from '#shared/ledger/acceptance/acceptance.ts'
import { type BudgetStore, createBudgetStore } from '#shared/ledger/configuration/budget-store.ts'
import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { type ControlStore, createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { type Author, BUDGET_AUTHOR } from '#shared/operators/author.ts'
import type { Configuration } from '#shared/operators/configuration.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { startReporting } from '#shared/operators/report-process.ts'
import type { ExposureTerms, PayerFunds } from '#shared/payment/exposure.ts'
import { openCatalogs } from '../../../api/composition/catalogs.ts'
import { enforceBudgets } from '../../../workers/sweepers/enforce-budgets.ts'
import { acceptTestJob, bindTestKey, fencedWrites, jobInState, moveToState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, paidAgain, type TestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

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
/** The maximum that every test job is signed for. */
const MAXIMUM = 5034n
function holding(atomic: bigint, changes: Partial<PayerFunds> = {}): ExposureTerms {
  const funds = { balance: atomicAmount(atomic), allowance: atomicAmount(atomic), permitNonce: 0n, blockNumber: 1n }
  return { ...AMPLE_FUNDS, funds: { ...funds, usedNonces: new Set<bigint>(), ...changes } }
}
const UNREAD: ExposureTerms = { ...AMPLE_FUNDS, funds: null }
function jobOf(payer: `0x${string}`, exposure: ExposureTerms): TestJob {
  return newTestJob({ authorization: testAuthorization({ payer }), exposure })
}

describe('controls of the operators', () => {
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
    await ledger.sql('TRUNCATE controls, process_reports')
  })

  async function configuration(): Promise<Configuration> {
    const read = await createConfigurationReader(ledger.pool).readConfiguration()
    if (!read) throw new Error('nothing is published')
    return read
  }
  const switches = () => createConfigurationReader(ledger.pool).readSwitches()
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

    it('drains a deployment that a publication removed, which takes the calls that were accepted before', async () => {
      const reader = createConfigurationReader(ledger.pool)
      const store = createConfigurationStore(ledger.pool)
      const publish = (...deployments: readonly ReturnType<typeof deployment>[]) =>
        store.importFile(ADA, { kind: 'deployments', content: { deployments }, reason: WHY })
      const removed = async (model: string, since: Date) =>
        (await reader.readRemovedDeployments(model, since)).map(({ name }) => name).sort()
      const [before] = await ledger.sql<{ now: Date }>('SELECT now()')
      await publish(deployment('one', 'a', 'b'))
      // Dates have milliseconds, PostgreSQL's times microseconds.
      const [between] = await ledger.sql<{ now: Date }>(
        "SELECT now() + interval '1 millisecond' AS now, pg_sleep(0.003)",
      )
      await publish()
      if (!before || !between) throw new Error('no time')
      expect(await removed('b', before.now)).toEqual(['one', 'two'])
      // Removed before the call was accepted.
      expect(await removed('b', between.now)).toEqual(['one'])
      expect(await controls.controlDeployment(ADA, { deployment: 'two', isDrained: true, reason: WHY })).toMatchObject({
        outcome: 'changed',
      })
      expect(await removed('b', before.now)).toEqual(['one'])
      await publish(deployment('one', 'a', 'b'), deployment('two', 'b'))
      expect(await removed('b', before.now)).toEqual([])
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
      expect((await switches()).pausedQueues).toEqual(new Set(['text']))
      expect(await controls.readQueueControls()).toMatchObject(
        new Map([['text', { isPaused: true, operator: 'ada', reason: WHY }]]),
      )
      const revision = (await configuration()).revision
      expect(await controls.controlQueue(GRACE, { queue: 'text', isPaused: true, reason: WHY })).toEqual({
        outcome: 'unchanged',
        revision,
      })
      await controls.controlQueue(GRACE, { queue: 'text', isPaused: false, reason: 'done' })
      expect(await configuration()).toMatchObject({ revision: revision + 1n })
      expect((await switches()).pausedQueues).toEqual(new Set())
      expect(await actionsSince(actions)).toMatchObject([
        { operator: 'ada', action: 'queue.pause', subject: 'text', reason: WHY },
        { operator: 'grace', action: 'queue.resume', subject: 'text', reason: 'done' },
      ])
    })
  })

  describe('the control of a payer', () => {
    const payer = `0x${'ab'.repeat(20)}`
    const block = { payer, isBlocked: true, until: null, reason: WHY }

    it('blocks and unblocks them, each with a record of who and why', async () => {
      const actions = await lastAction()
      expect(await controls.readPayerControl(payer)).toBeNull()
      expect(await controls.controlPayer(ADA, block)).toMatchObject({ outcome: 'changed' })
      expect((await switches()).blockedPayers).toEqual(new Map([[payer, null]]))
      expect(await controls.readBlockedPayers()).toMatchObject([
        { payer, isBlocked: true, operator: 'ada', reason: WHY },
      ])
      const { revision } = await configuration()
      expect(await controls.controlPayer(GRACE, block)).toEqual({ outcome: 'unchanged', revision })
      await controls.controlPayer(GRACE, { ...block, isBlocked: false, reason: 'done' })
      expect(await configuration()).toMatchObject({ revision: revision + 1n })
      expect((await switches()).blockedPayers).toEqual(new Map())
      expect(await actionsSince(actions)).toMatchObject([
        { operator: 'ada', action: 'payer.block', subject: payer, reason: WHY },
        { operator: 'grace', action: 'payer.unblock', subject: payer, reason: 'done' },
      ])
    })

    it('acts on an API of a version that cannot read the deployments that are published', async () => {
      await using resources = new AsyncDisposableStack()
      // Publications cannot be deleted.
      const own = resources.adopt(await createTestLedger(), (created) => created.close())
      await importFirstFiles(own.pool, [{ kind: 'deployments', content: { deployments: [deployment('one', 'a')] } }])
      const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
      const { isBlocked } = await openCatalogs(
        { published: publishedCatalog, offered: publishedCatalog, files: [] },
        resources,
        { pool: own.pool, metrics: new Registry(), logger },
      )
      await own.sql(
        `INSERT INTO publications (kind, content, operator, reason)
         VALUES ('deployments', '{"of_a_later_version": []}', 'ada', 'upgrade')`,
      )
      await expect(createConfigurationReader(own.pool).readConfiguration()).rejects.toThrow(/of_a_later_version/)
      const { controlPayer } = createControlStore(own.pool)
      await controlPayer(ADA, block)
      await expect.poll(() => isBlocked(payer), { timeout: PATIENCE_MS }).toBe(true)
      await controlPayer(ADA, { ...block, isBlocked: false })
      await expect.poll(() => isBlocked(payer), { timeout: PATIENCE_MS }).toBe(false)
    })

    it('blocks them until a day, and changes that day', async () => {
      const until = new Date('2126-01-02T00:00:00Z')
      expect(await controls.controlPayer(ADA, { ...block, until })).toMatchObject({ outcome: 'changed' })
      expect((await switches()).blockedPayers).toEqual(new Map([[payer, until]]))
      expect(await controls.controlPayer(ADA, { ...block, until })).toMatchObject({ outcome: 'unchanged' })
      expect(await controls.controlPayer(ADA, { ...block, until: new Date(0) })).toMatchObject({ outcome: 'changed' })
      expect(await controls.readPayerControl(payer)).toMatchObject({ isBlocked: false })
      expect(await controls.readBlockedPayers()).toEqual([])
      expect(await controls.controlPayer(ADA, { ...block, isBlocked: false })).toMatchObject({ outcome: 'unchanged' })
    })
  })

  const drained = async () =>
    [...(await configuration()).controls].flatMap(([name, { isDrained }]) => (isDrained ? [name] : []))
  const publish = (content: { readonly [field: string]: JsonValue }) =>
    createConfigurationStore(ledger.pool).importFile(ADA, { kind: 'deployments', content, reason: WHY })
  const startSweep = (wrap = (store: BudgetStore): BudgetStore => store) => {
    const metrics = new Registry()
    const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
    return { metrics, sweep: enforceBudgets({ budgets: wrap(createBudgetStore(ledger.pool)), metrics, logger }) }
  }
  /** Its vendor is the host that the deployment was published with. */
  const spend = async (deployment: string, atomic: number, finishedAt: string) => {
    const { id } = await jobInState(ledger, 'completed')
    await ledger.sql(
      `UPDATE upstream_attempts SET deployment = $2, vendor_cost = $3, finished_at = ${finishedAt}, vendor = (
         SELECT split_part(entry ->> 'base_url', '/', 3)
         FROM publications, jsonb_array_elements(content -> 'deployments') AS entry
         WHERE kind = 'deployments' AND entry ->> 'name' = $2 ORDER BY number DESC LIMIT 1)
       WHERE job_id = $1`,
      [id, deployment, atomic],
    )
    return id
  }
  describe('the budget of a vendor', () => {
    const prices = {
      input_per_million_tokens: '1',
      output_per_million_tokens: '1',
      as_of: '2026-11-26',
      source: 'a test',
    }
    const entry = (name: string, host: string) => ({
      name,
      adapter: 'gemini',
      base_url: `https://${host}/v1`,
      upstream_model: 'any',
      serves: ['textmodel-2.5-pro'],
      prices,
    })
    const publishBudget = (usd_per_day: string) =>
      publish({
        deployments: [entry('first', 'one.example'), entry('second', 'one.example'), entry('other', 'two.example')],
        vendor_budgets: { 'one.example': { usd_per_day } },
      })
    it('drains its deployments once it is spent, and enables them with more, but none that an operator drained', async () => {
      const { metrics, sweep } = startSweep()
      await publishBudget('2')
      const { id } = await jobInState(ledger, 'completed')
      const setSpent = (atomic: number, finishedAt: string) =>
        ledger.sql(
          `UPDATE upstream_attempts SET deployment = 'first', vendor = 'one.example', vendor_cost = $2, finished_at = ${finishedAt} WHERE job_id = $1`,
          [id, atomic],
        )
      await setSpent(1_999_999, 'now()')
      expect(await sweep.run()).toBe(0)
      expect(await metrics.metrics()).toContain('farebox_vendor_budget_used_ratio{vendor="one.example"} 0.9999995')
      await setSpent(2_000_000, 'now()')
      const actions = await lastAction()
      expect(await sweep.run()).toBe(2)
      expect((await drained()).toSorted()).toEqual(['first', 'second'])
      expect(await sweep.run()).toBe(0)
      expect(await actionsSince(actions)).toMatchObject([
        {
          operator: 'vendor budget',
          action: 'deployment.drain',
          subject: 'first',
          reason: expect.stringContaining('2 USD a day') as string,
        },
        { operator: 'vendor budget', action: 'deployment.drain', subject: 'second' },
      ])
      await controls.controlDeployment(ADA, { deployment: 'second', isDrained: false, reason: WHY })
      await controls.controlDeployment(ADA, { deployment: 'second', isDrained: true, reason: WHY })
      // The next day.
      await setSpent(2_000_000, "now() - interval '1 day'")
      expect(await sweep.run()).toBe(1)
      expect(await drained()).toEqual(['second'])
      await controls.controlDeployment(ADA, { deployment: 'second', isDrained: false, reason: WHY })
      await setSpent(3_000_000, 'now()')
      expect(await sweep.run()).toBe(2)
      await publishBudget('4')
      expect(await sweep.run()).toBe(2)
      expect(await drained()).toEqual([])
    })

    it('counts what a deployment spent before it was renamed', async () => {
      const { sweep } = startSweep()
      const vendor_budgets = { 'five.example': { usd_per_day: '2' } }
      await publish({ deployments: [entry('old', 'five.example')], vendor_budgets })
      await spend('old', 2_000_000, 'now()')
      await publish({ deployments: [entry('renamed', 'five.example')], vendor_budgets })
      expect(await sweep.run()).toBe(1)
      expect(await drained()).toContain('renamed')
    })

    it('does not undo a drain that an operator made while the sums were read', async () => {
      await publish({ deployments: [entry('leaked', 'six.example')], vendor_budgets: {} })
      await controls.controlDeployment(ADA, { deployment: 'leaked', isDrained: true, reason: 'key leaked' })
      const enabling = { deployment: 'leaked', isDrained: false, reason: 'within its budget' }
      expect(await controls.controlDeployment(BUDGET_AUTHOR, enabling)).toMatchObject({ outcome: 'unchanged' })
      expect(await drained()).toContain('leaked')
    })

    it('reads the attempts of the day once, and then what ended since', async () => {
      await publish({
        deployments: [entry('busy', 'seven.example')],
        vendor_budgets: { 'seven.example': { usd_per_day: '2' } },
      })
      await spend('busy', 1_500_000, "greatest(date_trunc('day', now(), 'UTC'), now() - interval '1 hour')")
      const reads: (readonly [from: Date, stableBefore: Date])[] = []
      const { metrics, sweep } = startSweep((store) => ({
        ...store,
        readSpent: async (from, stableBefore) => {
          reads.push([from, stableBefore])
          return await store.readSpent(from, stableBefore)
        },
      }))
      for (let run = 0; run < 3; run += 1) expect(await sweep.run()).toBe(0)
      expect(reads).toHaveLength(3)
      expect(reads.slice(1).map(([from]) => from)).toEqual(reads.slice(0, 2).map(([, stableBefore]) => stableBefore))
      expect(await metrics.metrics()).toContain('vendor="seven.example"} 0.75')
      await spend('busy', 600_000, 'now()')
      expect(await sweep.run()).toBe(1)
    })

    it('starts anew at midnight (UTC)', async () => {
      await publish({
        deployments: [entry('daily', 'eight.example')],
        vendor_budgets: { 'eight.example': { usd_per_day: '2' } },
      })
      const spent = { vendor: 'eight.example', deployment: 'daily', isStable: true, amount: 1_500_000n }
      const from: string[] = []
      const { metrics, sweep } = startSweep((store) => ({
        ...store,
        readSpent: (start) => Promise.resolve(from.push(start.toISOString()) === 1 ? [spent] : []),
      }))
      try {
        for (const [now, ratio] of [
          ['2026-11-26T23:59:50Z', 0.75],
          ['2026-11-27T00:00:00Z', 0],
        ] as const) {
          vi.useFakeTimers({ toFake: ['Date'], now: new Date(now) })
          expect(await sweep.run()).toBe(0)
          expect(await metrics.metrics()).toContain(`vendor="eight.example"} ${ratio}\n`)
        }
      } finally {
        vi.useRealTimers()
      }
      expect(from).toEqual(['2026-11-26T00:00:00.000Z', '2026-11-27T00:00:00.000Z'])
    })

    it('is not reported any longer once it is no longer published', async () => {
      const deployments = [entry('unlimited', 'three.example')]
      const { metrics, sweep } = startSweep()
      await publish({ deployments, vendor_budgets: { 'three.example': { usd_per_day: '2' } } })
      await spend('unlimited', 1_800_000, 'now()')
      expect(await sweep.run()).toBe(0)
      expect(await metrics.metrics()).toContain('vendor="three.example"} 0.9')
      await publish({ deployments })
      expect(await sweep.run()).toBe(0)
      expect(await metrics.metrics()).not.toContain('vendor="three.example"')
    })

    it('enables on the next day what an operator weighted meanwhile, and not what one drained meanwhile', async () => {
      const { sweep } = startSweep()
      await publish({
        deployments: [entry('weighted', 'four.example'), entry('broken', 'four.example')],
        vendor_budgets: { 'four.example': { usd_per_day: '2' } },
      })
      const jobId = await spend('weighted', 2_000_000, 'now()')
      expect(await sweep.run()).toBe(2)
      const actions = await lastAction()
      await controls.controlDeployment(ADA, { deployment: 'weighted', weight: 7, reason: WHY })
      const drain = { deployment: 'broken', isDrained: true, reason: 'an incident' }
      expect(await controls.controlDeployment(ADA, drain)).toMatchObject({ outcome: 'changed' })
      expect(await controls.controlDeployment(ADA, drain)).toMatchObject({ outcome: 'unchanged' })
      expect(await actionsSince(actions)).toMatchObject([
        { operator: 'ada', action: 'deployment.weight', subject: 'weighted' },
        { operator: 'ada', action: 'deployment.drain', subject: 'broken', reason: 'an incident' },
      ])
      await ledger.sql(`UPDATE upstream_attempts SET finished_at = now() - interval '1 day' WHERE job_id = $1`, [jobId])
      expect(await sweep.run()).toBe(1)
      const { controls: after } = await configuration()
      expect(after.get('weighted')).toMatchObject({ isDrained: false, weight: 7 })
      expect(after.get('broken')).toMatchObject({ isDrained: true })
    })

    it.each([
      [{ 'three.example': { usd_per_day: '1' } }, 'no deployment has this vendor'],
      [{ 'one.example': { usd_per_day: '0' } }, 'more than 0'],
      [{ 'one.example': {} }, 'usd_per_day'],
    ])('is refused with %j', (vendor_budgets, says) => {
      expect(() => parseDeployments({ deployments: [entry('first', 'one.example')], vendor_budgets })).toThrow(says)
    })

    it('is refused for a deployment without prices', () => {
      const { prices: _, ...unpriced } = entry('first', 'one.example')
      const vendor_budgets = { 'one.example': { usd_per_day: '1' } }
      expect(() => parseDeployments({ deployments: [unpriced], vendor_budgets })).toThrow('first needs "prices"')
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
      await reporting.stop()
      expect(await seen()).toEqual([])
    })

    it.each([-3600, 3600])(
      'runs until five reports are missing, for a reader whose clock is %i s off',
      async (seconds) => {
        const store = createProcessReportStore(ledger.pool)
        await store.writeReport({ instance: 'host/1/a', kind: 'worker', startedAt: new Date() }, report)
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })
        try {
          expect(await seen()).toMatchObject([{ isRunning: true }])
          await ledger.sql(`UPDATE process_reports SET seen_at = seen_at - interval '11 seconds'`)
          expect(await seen()).toMatchObject([{ isRunning: false }])
        } finally {
          vi.useRealTimers()
          await store.forgetProcess('host/1/a')
        }
      },
    )

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
})

describe('open exposure', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  async function accept(job: TestJob): Promise<Acceptance> {
    await bindTestKey(ledger, job)
    return ledger.acceptance.acceptPayment(job)
  }
  /** Creates a payer with one job in each of these states. */
  async function payerWith(...states: readonly JobState[]) {
    const payer = randomAddress()
    const requests = states.map(() => jobOf(payer, AMPLE_FUNDS))
    // All are accepted first: a payer with a debt gets no further work accepted.
    const accepted: LeasedJob[] = []
    for (const request of requests) accepted.push(await jobInState(ledger, 'accepted', request))
    const jobs: { job: LeasedJob; request: TestJob }[] = []
    for (const [index, job] of accepted.entries()) {
      const [state, request] = [states[index], requests[index]]
      if (state && request) jobs.push({ job: await moveToState(ledger, job, state), request })
    }
    return { payer, jobs }
  }
  const newPool = () =>
    createPool({
      connectionString: ledger.url,
      maximumConnections: 1,
      applicationName: 'farebox ledger test',
      onError: () => undefined,
    })
  /** Runs `work` with a pool whose only connection is free once this charge has settled. */
  async function duringWait<T>(settling: LeasedJob | undefined, work: (pool: Pool) => Promise<T>): Promise<T> {
    if (!settling) throw new Error('no job')
    const pool = newPool()
    const connection = await pool.connect()
    const working = work(pool)
    expect(await fencedWrites.completeJob.run(ledger, settling)).toBe('written')
    await ledger.sql('SELECT pg_sleep(0.3)')
    connection.release()
    const result = await working
    await pool.end()
    return result
  }
  describe('a payment of a payer with other open work', () => {
    it('accepts exactly as many of twenty simultaneous payments as the funds cover', async () => {
      const payer = randomAddress()
      const jobs = Array.from({ length: 20 }, () => jobOf(payer, holding(MAXIMUM * 7n + 5033n)))
      for (const job of jobs) await bindTestKey(ledger, job)
      const acceptances = await Promise.all(jobs.map((job) => ledger.acceptance.acceptPayment(job)))
      expect(acceptances.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(7)
      expect(acceptances.filter(({ outcome }) => outcome === 'exceeds_funds')).toHaveLength(13)
    })

    it('accepts a payment without a funds reading only when the payer has no open work', async () => {
      const payer = randomAddress()
      expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'accepted' })
      expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'exceeds_funds', openTotal: MAXIMUM })
    })

    it('writes nothing for a payment that exceeds the funds', async () => {
      const { payer } = await payerWith('accepted')
      const job = jobOf(payer, holding(MAXIMUM))
      await bindTestKey(ledger, job)
      const before = await ledger.fingerprint()
      expect(await ledger.acceptance.acceptPayment(job)).toMatchObject({ outcome: 'exceeds_funds' })
      expect(await ledger.fingerprint()).toBe(before)
      expect(await ledger.acceptance.acceptPayment({ ...job, exposure: holding(2n * MAXIMUM) })).toMatchObject({
        outcome: 'accepted',
      })
    })

    it('counts open work at its maximum until the charge is fixed, and failed work as nothing', async () => {
      const { payer, jobs } = await payerWith('accepted', 'generating', 'generated')
      const [, , sealed] = jobs
      await ledger.sql('UPDATE jobs SET charge_amount = 34 WHERE id = $1', [sealed?.job.id])
      const expected = MAXIMUM + MAXIMUM + 34n
      expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ openTotal: expected })
      const [, generating] = jobs
      if (generating) await fencedWrites.failJob.run(ledger, generating.job)
      expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ openTotal: MAXIMUM + 34n })
    })

    it('does not count a settling payment whose nonce the funds reading shows as used', async () => {
      const { payer, jobs } = await payerWith('settling')
      const nonce = jobs[0]?.job.authorization.nonce ?? 0n
      const refused = await accept(jobOf(payer, holding(MAXIMUM)))
      expect(refused).toMatchObject({ outcome: 'exceeds_funds', settlingNonces: [nonce] })
      const seen = holding(MAXIMUM, { usedNonces: new Set([nonce]) })
      expect(await accept(jobOf(payer, seen))).toMatchObject({ outcome: 'accepted' })
    })

    it('counts charges settled after the block of the funds reading, and none settled before', async () => {
      const { payer } = await payerWith('completed')
      // Test jobs are settled in block 7.
      const before = holding(2n * MAXIMUM - 1n, { blockNumber: 6n })
      expect(await accept(jobOf(payer, before))).toMatchObject({ outcome: 'exceeds_funds', openTotal: MAXIMUM })
      const after = holding(2n * MAXIMUM - 1n, { blockNumber: 7n })
      expect(await accept(jobOf(payer, after))).toMatchObject({ outcome: 'accepted' })
    })

    it('requires a funds reading when a charge settled while the payment was being verified', async () => {
      const { payer } = await payerWith('completed')
      expect(await accept(jobOf(payer, { ...UNREAD, verifiedMsAgo: 60_000 }))).toMatchObject({
        outcome: 'exceeds_funds',
      })
      await ledger.sql("UPDATE jobs SET finished_at = finished_at - interval '1 minute' WHERE payer = $1", [payer])
      expect(await accept(jobOf(payer, UNREAD))).toMatchObject({ outcome: 'accepted' })
    })

    it.each([
      ['alone', 0],
      ['with another', 1],
    ])('requires a funds reading when a charge settled during the wait for a connection, %s', async (_, others) => {
      const { payer, jobs } = await payerWith('settling')
      const payments = [payer, ...Array.from({ length: others }, randomAddress)].map((from) => jobOf(from, UNREAD))
      for (const payment of payments) await bindTestKey(ledger, payment)
      const [acceptance] = await duringWait(jobs[0]?.job, async (pool) => {
        const store = createAcceptanceStore(pool, TEST_LIMITS)
        return await Promise.all(payments.map((payment) => store.acceptPayment({ ...payment, stagedUpload: null })))
      })
      expect(acceptance).toMatchObject({ outcome: 'exceeds_funds' })
    })

    it('limits open work to the allowance as well as to the balance', async () => {
      const { payer } = await payerWith('accepted')
      const short = holding(10n * MAXIMUM, { allowance: atomicAmount(2n * MAXIMUM - 1n) })
      expect(await accept(jobOf(payer, short))).toMatchObject({ outcome: 'exceeds_funds' })
      const enough = holding(10n * MAXIMUM, { allowance: atomicAmount(2n * MAXIMUM) })
      expect(await accept(jobOf(payer, enough))).toMatchObject({ outcome: 'accepted' })
    })

    it('limits open work to the configured maximum, whatever the balance', async () => {
      const payer = randomAddress()
      const capped = { ...AMPLE_FUNDS, maximumOpen: atomicAmount(2n * MAXIMUM) }
      for (let call = 0; call < 2; call += 1)
        expect(await accept(jobOf(payer, capped))).toMatchObject({ outcome: 'accepted' })
      expect(await accept(jobOf(payer, capped))).toEqual({ outcome: 'exceeds_open_limit', openTotal: 2n * MAXIMUM })
    })

    it('rejects a payment by permit next to one by allowance, and the reverse', async () => {
      for (const [first, second] of [
        [false, true],
        [true, false],
      ] as const) {
        const payer = randomAddress()
        const withPermit = (needsPermit: boolean) =>
          newTestJob({
            authorization: testAuthorization({ payer, gasSponsoring: needsPermit ? testPermit(payer, 0n) : null }),
            exposure: { ...AMPLE_FUNDS, needsPermit },
          })
        expect(await accept(withPermit(first))).toMatchObject({ outcome: 'accepted' })
        expect(await accept(withPermit(second))).toEqual({ outcome: 'permit_already_used' })
      }
    })

    it('counts a lasting permit that can still be submitted as the allowance, and the lowest of several', async () => {
      const payer = randomAddress()
      const withPermit = (amount: bigint, changes: Partial<PayerFunds> = {}) =>
        newTestJob({
          authorization: testAuthorization({ payer, gasSponsoring: { ...testPermit(payer, 4n), amount } }),
          exposure: holding(10n * MAXIMUM, { allowance: atomicAmount(0n), permitNonce: 4n, ...changes }),
        })
      expect(await accept(withPermit(3n * MAXIMUM))).toMatchObject({ outcome: 'accepted' })
      const used = withPermit(9n * MAXIMUM, { permitNonce: 5n })
      expect(await accept(used)).toMatchObject({ outcome: 'exceeds_funds', openTotal: MAXIMUM })
      expect(await accept(withPermit(9n * MAXIMUM))).toMatchObject({ outcome: 'accepted' })
      expect(await accept(withPermit(3n * MAXIMUM))).toMatchObject({ outcome: 'accepted' })
      expect(await accept(withPermit(9n * MAXIMUM))).toMatchObject({
        outcome: 'exceeds_funds',
        openTotal: 3n * MAXIMUM,
      })
      const onChain = holding(10n * MAXIMUM, { allowance: atomicAmount(4n * MAXIMUM), permitNonce: 5n })
      expect(await accept(jobOf(payer, onChain))).toMatchObject({ outcome: 'accepted' })
    })

    it('rejects a payment by a permit of its own next to one by a lasting permit, and the reverse', async () => {
      for (const own of [0, 1]) {
        const payer = randomAddress()
        const withPermit = (amount: bigint) =>
          newTestJob({
            authorization: testAuthorization({ payer, gasSponsoring: { ...testPermit(payer, 0n), amount } }),
            exposure: { ...AMPLE_FUNDS, needsPermit: amount === MAXIMUM },
          })
        const amounts = [MAXIMUM, 9n * MAXIMUM]
        expect(await accept(withPermit(amounts[own] ?? 0n))).toMatchObject({ outcome: 'accepted' })
        expect(await accept(withPermit(amounts[1 - own] ?? 0n))).toEqual({ outcome: 'permit_already_used' })
      }
    })

    it('does not count another payer’s open work', async () => {
      await payerWith('accepted', 'accepted', 'settlement_failed')
      expect(await accept(jobOf(randomAddress(), UNREAD))).toMatchObject({ outcome: 'accepted' })
    })
  })

  describe('a payer whose settlement failed', () => {
    it('rejects other calls of a payer with a debt and names the unpaid one', async () => {
      const { payer, jobs } = await payerWith('settlement_failed')
      expect(await accept(jobOf(payer, AMPLE_FUNDS))).toEqual({
        outcome: 'unpaid_debt',
        idempotencyKey: jobs[0]?.request.idempotencyKey,
        chargeAmount: MAXIMUM,
      })
    })

    it('accepts payment for a withheld result while the payer owes for another one', async () => {
      const { jobs } = await payerWith('settlement_failed', 'settlement_failed')
      for (const { request, job } of jobs)
        expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toEqual({
          outcome: 'settles_again',
          jobId: job.id,
        })
    })

    it('records no debt when the authorization expired before its settlement', async () => {
      const { payer } = await payerWith('settling')
      await ledger.sql("UPDATE authorizations SET deadline = now() - interval '1 second' WHERE payer = $1", [payer])
      const [row] = await ledger.sql<{ id: string }>('SELECT id FROM jobs WHERE payer = $1', [payer])
      await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE payer = $1', [payer])
      const late = await ledger.execution.leaseJob(row?.id ?? '', 60_000)
      if (!late) throw new Error('not claimed')
      expect(await fencedWrites.failSettlement.run(ledger, late)).toBe('written')
      expect(await accept(jobOf(payer, AMPLE_FUNDS))).toMatchObject({ outcome: 'accepted' })
    })

    it('accepts other calls again once the withheld result is paid for', async () => {
      const { payer, jobs } = await payerWith('settlement_failed')
      const [debt] = jobs
      if (!debt) throw new Error('no job')
      expect(await ledger.acceptance.acceptPayment(paidAgain(debt.request))).toMatchObject({ outcome: 'settles_again' })
      expect(await accept(jobOf(payer, AMPLE_FUNDS))).toMatchObject({ outcome: 'accepted' })
    })
  })

  describe('exposure ahead of a job', () => {
    it('includes charges settled during the wait for a connection, without a funds reading', async () => {
      const { jobs } = await payerWith('settling', 'accepted')
      const [settling, present] = jobs.map(({ job }) => job)
      if (!present) throw new Error('no job')
      const ahead = await duringWait(settling, (pool) =>
        createExecutionStore(pool, TEST_LIMITS.budget).readExposureAhead(present, null),
      )
      expect(ahead).toMatchObject({ open: [], settledSince: MAXIMUM })
    })

    it('includes charges settled while the statement is on its way, without a funds reading', async () => {
      const { jobs } = await payerWith('settling', 'accepted')
      const [settling, present] = jobs.map(({ job }) => job)
      if (!settling || !present) throw new Error('no job')
      const pool = newPool()
      const connection = await pool.connect()
      const query = connection.query.bind(connection) as (statement: { name: string }) => Promise<unknown>
      const arriveLate = async (statement: { name: string }) => {
        if (statement.name !== 'read_exposures') return await query(statement)
        expect(await fencedWrites.completeJob.run(ledger, settling)).toBe('written')
        await ledger.sql('SELECT pg_sleep(0.3)')
        return await query(statement)
      }
      const slow = {
        query: arriveLate,
        connect: async () => ({ query: arriveLate, release: () => undefined }),
      } as never
      const store = createExecutionStore(slow, TEST_LIMITS.budget)
      const ahead = await store.readExposureAhead(present, null)
      connection.release()
      await pool.end()
      expect(ahead).toMatchObject({ open: [], settledSince: MAXIMUM })
    })

    it('leaves out charges settled before the job was accepted', async () => {
      const { payer } = await payerWith('completed')
      const present = await jobInState(ledger, 'accepted', jobOf(payer, AMPLE_FUNDS))
      expect(await ledger.execution.readExposureAhead(present, null)).toMatchObject({
        open: [],
        settledSince: 0n,
      })
    })

    it('includes work that was accepted earlier or is in progress, and none that was accepted later', async () => {
      const { jobs } = await payerWith('accepted', 'accepted', 'generating')
      const ahead = await Promise.all(
        jobs.map(async ({ job }) => (await ledger.execution.readExposureAhead(job, null)).open.length),
      )
      expect(ahead).toEqual([1, 2, 2])
    })

    it('includes charges settled after the funds reading', async () => {
      const { jobs } = await payerWith('completed', 'accepted')
      const present = jobs[1]?.job
      if (!present) throw new Error('no job')
      const { funds } = holding(1n, { blockNumber: 6n })
      expect((await ledger.execution.readExposureAhead(present, funds)).settledSince).toBe(MAXIMUM)
    })
  })

  it('accepts simultaneous payments of many payers', async () => {
    const jobIds = await Promise.all(Array.from({ length: 20 }, () => acceptTestJob(ledger)))
    expect(new Set(jobIds).size).toBe(20)
  })
})
