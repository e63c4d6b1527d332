import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createControlStore } from '#shared/adapters/postgres/configuration/control-store.ts'
import { importFirstFiles } from '#shared/adapters/postgres/configuration/import-files.ts'
import { createProcessReportStore } from '#shared/adapters/postgres/configuration/process-report-store.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { acceptTestJob, claimTestJob } from '../../support/ledger/job-in-state.ts'

const NAME = 'first'

const deployment = (name: string, ...serves: string[]) => ({
  name,
  adapter: 'gemini',
  base_url: 'http://127.0.0.1:9',
  api_key_env: 'VENDOR_KEY',
  upstream_model: 'upstream-model',
  weight: 3,
  serves,
})

let console: TestConsole
let actor: ConsoleVisitor
beforeAll(async () => {
  console = await startTestConsole()
  const content = { deployments: [deployment(NAME, 'model-a', 'model-b'), deployment('second', 'model-b')] }
  await importFirstFiles(console.ledger.pool, [{ kind: 'deployments', content }])
  actor = await console.signIn('act')
})
afterAll(() => console.close())
beforeEach(async () => {
  await console.ledger.sql('TRUNCATE deployment_controls, queue_controls, process_reports')
})

const read = async (address: string, visitor = actor) => {
  const { status, body } = await visitor.get(address)
  if (status !== 200) throw new Error(`${address} answers ${status}: ${body}`)
  return textOf(body)
}

/** Returns the visible text, with single spaces. */
const textOf = (html: string) =>
  html
    .slice(html.indexOf('<main'))
    .replace(/<[^>]+>/g, ' ')
    .replace(/&#39;/g, "'")
    .replace(/\s+/g, ' ')

const report = (instance: string, changes: Partial<ProcessReport> = {}, kind: 'worker' | 'api' = 'worker') =>
  createProcessReportStore(console.ledger.pool).writeReport(
    { instance, kind, startedAt: new Date() },
    { version: '1.2.3', configurationRevision: '1', keys: {}, ...changes },
  )

const stateOf = (changes = {}) => ({
  circuit: 'closed' as const,
  activeCalls: 0,
  isDrained: false,
  weight: 3,
  ...changes,
})

/** Records a call of a job of its own. */
async function call(state: string, reason: string | null, seconds = 1): Promise<string> {
  const job = await claimTestJob(console.ledger, await acceptTestJob(console.ledger))
  const { attemptId } = await console.ledger.execution.startAttempt(job, NAME, null)
  await console.ledger.sql(
    `UPDATE upstream_attempts SET state = $2, reason = $3, started_at = now() - make_interval(secs => $4),
       finished_at = CASE WHEN $2 <> 'open' THEN now() END WHERE id = $1`,
    [attemptId, state, reason, seconds],
  )
  return job.id
}

describe('the pages of providers', () => {
  it('show what every worker reports, and who cannot use a deployment', async () => {
    await report('worker-1', {
      deployments: { [NAME]: stateOf({ circuit: 'open', activeCalls: 2 }), second: stateOf() },
    })
    await report('worker-2', { deployments: { second: stateOf() }, unusable: { [NAME]: 'VENDOR_KEY is not set' } })
    const list = await read('/operator/providers')
    expect(list).toContain('failing on 1 of 1')
    expect(list).toContain('unusable on 1')
    const page = await read(`/operator/providers/${NAME}`)
    expect(page).toContain('worker-2 cannot use it: VENDOR_KEY is not set')
    expect(page).toContain('model-a, model-b')
    // A process that no longer reports is no worker of now.
    await console.ledger.sql("UPDATE process_reports SET seen_at = now() - interval '11 seconds'")
    expect(await read('/operator/providers')).not.toContain('failing on')
  })

  it('show calls, failures by class and absorbed cost of the window, with a link to the latest payment', async () => {
    for (let index = 0; index < 3; index += 1) await call('succeeded', null, 2)
    await call('failed_definite', 'HTTP 503: overloaded')
    const latest = await call('failed_definite', 'HTTP 503: overloaded', 0.5)
    await call('failed_ambiguous', 'no response')
    await call('succeeded', null, 7000)
    const { body } = await actor.get(`/operator/providers/${NAME}?window=1h`)
    const page = textOf(body)
    expect(page).toMatch(
      /Calls 6 0 in flight Succeeded 3 Failed definitely 2 .* Outcome unknown 1 Median, 95th 2\.00 s/,
    )
    expect(page).toMatch(/definite HTTP 503: overloaded 2 /)
    expect(page).toMatch(/outcome unknown no response 1 /)
    expect(body).toContain(`/operator/payments/${latest}`)
    expect(await read(`/operator/providers/${NAME}?window=6h`)).toMatch(/Calls 7 /)
    const [chart] = /data-chart="([^"]+)"/.exec(body)?.slice(1) ?? []
    const { series } = JSON.parse((chart ?? '').replaceAll('&quot;', '"')) as { series: { values: number[] }[] }
    expect(series.map(({ values }) => values.reduce((sum, value) => sum + value, 0))).toEqual([3, 3])
  })

  it('show a deployment that is not published any more as long as calls to it are known', async () => {
    const job = await claimTestJob(console.ledger, await acceptTestJob(console.ledger))
    await console.ledger.execution.startAttempt(job, 'removed', null)
    expect(await read('/operator/providers/removed')).toContain('not published')
    expect((await actor.get('/operator/providers/never-called')).status).toBe(404)
  })

  it('drain, weight and enable a deployment, with the reason in the audit, and say what is not offered', async () => {
    const drained = await actor.submit(`/operator/providers/${NAME}/drain`, { reason: 'maintenance' })
    expect(drained).toMatchObject({ status: 303, location: `/operator/providers/${NAME}` })
    const page = await read(`/operator/providers/${NAME}`)
    expect(page).toContain(`${NAME} is drained: it gets no new call`)
    expect(page).toContain('Not offered, because only drained deployments serve them: model-a.')
    expect(page).toMatch(/Switched last by actor, .*: maintenance/)
    await actor.submit(`/operator/providers/${NAME}/weight`, { weight: '12', reason: 'more' })
    await actor.submit(`/operator/providers/${NAME}/enable`, { reason: 'done' })
    const controls = createControlStore(console.ledger.pool)
    expect((await controls.readDeploymentControls()).get(NAME)).toMatchObject({ isDrained: false, weight: 12 })
    expect(await read(`/operator/providers/${NAME}`)).toContain('12 published: 3')
    await actor.submit(`/operator/providers/${NAME}/weight`, { weight: '', reason: 'as published' })
    expect((await controls.readDeploymentControls()).get(NAME)).toMatchObject({ weight: null })
    const audit = await read(`/operator/audit?subject=${NAME}`)
    for (const action of ['deployment.drain', 'deployment.weight', 'deployment.enable']) expect(audit).toContain(action)
  })

  it('say that somebody else was first, when a deployment is like this already', async () => {
    await actor.submit(`/operator/providers/${NAME}/enable`, { reason: 'why' })
    expect(await read(`/operator/providers/${NAME}`)).toContain(`Nothing was changed: ${NAME} is like this already.`)
  })

  it.each([
    ['drain', { reason: ' ' }, 'Say why'],
    ['weight', { reason: 'why', weight: '0' }, 'From 1 to 1,000,000'],
    ['weight', { reason: 'why', weight: '-1' }, 'A whole number'],
  ])('refuse to %s with %j, and show the form again', async (verb, fields, sentence) => {
    const { status, body } = await actor.submit(`/operator/providers/${NAME}/${verb}`, fields)
    expect(status).toBe(422)
    expect(textOf(body)).toContain(sentence)
  })
})

describe('the pages of queues', () => {
  it('show depth and age by queue and node', async () => {
    const jobId = await acceptTestJob(console.ledger)
    await report('worker-1', { queues: { transcriptions: { active: 3, limit: 40, isPaused: false } } })
    await report('worker-2', { queues: { transcriptions: { active: 1, limit: 2, isPaused: false } } })
    expect(await read('/operator/queues')).toMatch(/transcriptions served \d+ .* 4 of 42 /)
    const { body } = await actor.get('/operator/queues/transcriptions')
    expect(textOf(body)).toMatch(/worker-1 3 of 40 takes jobs/)
    expect(body).toContain(jobId)
    expect((await actor.get('/operator/queues/nothing')).status).toBe(404)
  })

  it('pause and resume a queue, and show which workers have not applied it', async () => {
    await report('worker-1', { queues: { text: { active: 0, limit: 4, isPaused: false } } })
    const paused = await actor.submit('/operator/queues/text/pause', { reason: 'a bad prompt' })
    expect(paused).toMatchObject({ status: 303, location: '/operator/queues/text' })
    expect(await read('/operator/queues/text')).toMatch(
      /paused not applied on 1 of 1 .*Paused by actor, .*: a bad prompt/,
    )
    await report('worker-1', { queues: { text: { active: 0, limit: 4, isPaused: true } } })
    expect(await read('/operator/queues/text')).not.toContain('not applied')
    await actor.submit('/operator/queues/text/pause', { reason: 'again' })
    expect(await read('/operator/queues/text')).toContain('Nothing was changed: text is paused already.')
    await actor.submit('/operator/queues/text/resume', { reason: 'mended' })
    expect((await createControlStore(console.ledger.pool).readQueueControls()).get('text')).toMatchObject({
      isPaused: false,
      operator: 'actor',
      reason: 'mended',
    })
  })
})

describe('the page of processes', () => {
  it('shows on how many processes the configuration is applied, and which are silent', async () => {
    const [row] = await console.ledger.sql<{ revision: string }>('SELECT revision FROM configuration_revision')
    const revision = row?.revision ?? ''
    await report('worker-1', { configurationRevision: revision })
    await report('worker-2', { configurationRevision: '0' })
    await report(
      'api-1',
      { configurationRevision: revision, catalogVersion: 'catalog-0123', keys: { PAY_TO: ['0x12'] } },
      'api',
    )
    const page = await read('/operator/processes')
    expect(page).toContain(`Revision ${revision} of the configuration is applied on 1 of 2 workers.`)
    expect(page).toContain(`Revision ${revision} of the configuration is applied on 1 of 1 API.`)
    expect(page).toContain('catalog-0123')
    expect(page).toContain('PAY_TO')
    await console.ledger.sql(
      "UPDATE process_reports SET seen_at = now() - interval '11 seconds' WHERE instance = 'worker-2'",
    )
    expect(await read('/operator/processes')).toMatch(/applied on 1 of 1 worker\. .*worker-2 silent/)
  })
})
