import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { request } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { samplesOf, scrape } from '../../support/http/scrape.ts'
import { startTraceCollector, type TraceCollector, traceOf } from '../../support/http/trace-collector.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { payChat, signChat } from '../../support/payer/chat-call.ts'
import { paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { giveHistory } from '../../support/payer/give-history.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Long enough that a live worker always renews in time; {@link expireLeases} ends the lease of a dead one. */
const LEASE_SECONDS = 60
const MOMENTS = ['before', 'accepted', 'generating', 'generated', 'settling', 'completed'] as const
const metricsAt = async (port: number) => await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
/** The smallest setting: seven eighths of it, 280 MiB, are for jobs of more than 4 MiB. */
const JOB_MEGABYTES = 320
const UPLOADS = 16
const AUDIO_BYTES = 26_080_600
/** With the transcript and what every job needs, an upload holds 25.7 MiB. */
const FITTING = 10
const PATH = '/v1/audio/transcriptions'
const RETRY_MS = 200
const BODY = multipartBody([
  { name: 'model', value: 'speechvendor/scribe-v2' },
  {
    name: 'file',
    value: generateMp3({ durationMs: 660_000, bitrate: 320 }).subarray(0, AUDIO_BYTES),
    fileName: 'speech.mp3',
    contentType: 'audio/mpeg',
  },
])
interface Answer {
  readonly status: number
  readonly challenge: string
  readonly text: string
}
const MODEL = 'textmodel-3.5-flash'
/** The first deployment of the model, the vendor's route that it calls, and that of the second one. */
const [FIRST, SECOND] = ['gemini-3.5-flash', 'open-text']
const [FIRST_ROUTE, SECOND_ROUTE] = ['/v1beta/models/{model}:generateContent', '/v1/chat/completions']
/** A model with one deployment. */
const [IMAGE, ONLY] = ['textmodel-3.1-flash-lite-image', 'gemini-3.1-flash-lite-image']
const body = { model: MODEL, messages: [{ role: 'user', content: 'Say hello.' }] }

describe('recovery after a crash', () => {
  let sandbox: TestSandbox
  /** Holds back the vendors' answers to the worker. */
  let vendors: AnswerGate
  beforeAll(async () => {
    sandbox = await startTestSandbox({
      connections: async (real) => {
        vendors = await startAnswerGate(real.upstreamUrl)
        return { ...real, upstreamUrl: vendors.url }
      },
      apiEnvironment: { DRAIN_SECONDS: '1' },
      workerEnvironment: { LEASE_SECONDS: String(LEASE_SECONDS), SWEEP_SECONDS: '0.2' },
    })
  })

  afterEach(() => vendors.release())

  afterAll(async () => {
    await sandbox.stop()
    await vendors.stop()
  })

  async function signTranscription(idempotencyKey: string) {
    return sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey }))
  }
  const transfers = () => sandbox.chain.transfersTo(sandbox.info.payTo)
  async function untilUpstreamIsCalled(callsBefore: number) {
    await until(async () => (await sandbox.upstreamCalls()).length > callsBefore)
  }
  /** Backdates the dead worker's jobs, as if their leases and the grace period had expired. */
  async function expireLeases() {
    await sandbox.sql(
      `UPDATE jobs SET orphaned_at = now(), lease_expires_at = lease_expires_at - make_interval(secs => $1),
       enqueued_at = enqueued_at - make_interval(secs => $1)
     WHERE state IN ('accepted', 'generating', 'generated', 'settling')`,
      [LEASE_SECONDS],
    )
  }
  async function killWorker() {
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    await until(() => !isRunning(sandbox.pidOf('worker')))
    await expireLeases()
    await sandbox.restart('worker')
  }
  test('answers an uncharged 503 when the worker is killed during the provider call, and serves a fresh payment [spec O10]', async () => {
    const idempotencyKey = randomUUID()
    const headers = await signTranscription(idempotencyKey)
    const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
    await sandbox.setFaults([{ fault: 'hang' }])
    const held = sandbox.transcribe({ idempotencyKey, headers })
    await untilUpstreamIsCalled(callsBefore)
    await killWorker()

    const failure = await held
    expect(failure.status).toBe(503)
    expect(await failure.json()).toMatchObject({
      error: { code: 'provider_outcome_unknown', payment: 'none', retry: 'new_payment' },
    })
    // The same signature gets the same answer without a second call: the first may have been billed by the vendor.
    expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(503)
    expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
    expect(await transfers()).toHaveLength(transfersBefore)

    const repeated = await sandbox.transcribe({ idempotencyKey, headers: await signTranscription(idempotencyKey) })
    expect(repeated.status).toBe(200)
    expect(await transfers()).toHaveLength(transfersBefore + 1)
  })

  test('returns the result on retry, charged once, when the API is killed while the caller waits [spec O11]', async () => {
    const idempotencyKey = randomUUID()
    const headers = await signTranscription(idempotencyKey)
    const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
    vendors.hold()
    const held = sandbox.transcribe({ idempotencyKey, headers })
    await untilUpstreamIsCalled(callsBefore)
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    await expect(held).rejects.toThrow('fetch failed')
    vendors.release()
    await sandbox.restart('api')

    const retry = await sandbox.transcribe({ idempotencyKey, headers })
    expect(retry.status).toBe(200)
    const replay = await sandbox.transcribe({ idempotencyKey, headers })
    expect(await replay.text()).toBe(await retry.text())
    expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
    expect(await transfers()).toHaveLength(transfersBefore + 1)
  })

  /** Waits until the job has reached this state. */
  async function untilJobIs(moment: (typeof MOMENTS)[number], idempotencyKey: string) {
    const reached = MOMENTS.slice(MOMENTS.indexOf(moment))
    if (moment === 'before') return
    await until(async () => {
      const [job] = await sandbox.sql<{ state: string }>('SELECT state FROM jobs WHERE idempotency_key = $1', [
        idempotencyKey,
      ])
      return reached.some((state) => state === job?.state)
    })
  }
  test('never charges twice and never loses a charged result, whenever the worker is killed during a paid call [spec L6b]', async () => {
    // The kill matrix in test/resilience covers every point in between.
    for (const moment of ['before', 'generating', 'settling', 'completed'] as const) {
      const idempotencyKey = randomUUID()
      const headers = await signTranscription(idempotencyKey)
      const transfersBefore = (await transfers()).length
      const held = sandbox.transcribe({ idempotencyKey, headers })
      await untilJobIs(moment, idempotencyKey)
      await killWorker()
      const answer = await held
      const charged = (await transfers()).length - transfersBefore
      expect({ status: answer.status, charged }).toEqual(
        answer.status === 200 ? { status: 200, charged: 1 } : { status: 503, charged: 0 },
      )
      const retry = await sandbox.transcribe({ idempotencyKey, headers })
      expect(retry.status).toBe(answer.status)
      expect((await transfers()).length - transfersBefore).toBe(charged)
    }
  })

  test('returns the stored result on retry to a caller that disconnected after paying', async () => {
    const idempotencyKey = randomUUID()
    const headers = await signTranscription(idempotencyKey)
    const callsBefore = (await sandbox.upstreamCalls()).length
    vendors.hold()
    const hangUp = new AbortController()
    const held = sandbox.transcribe({ idempotencyKey, headers, signal: hangUp.signal })
    await untilUpstreamIsCalled(callsBefore)
    hangUp.abort()
    await expect(held).rejects.toThrow('aborted')
    vendors.release()
    expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
    expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
  })

  test('answers waiting callers with a 503 that allows the same request again when the API shuts down', async () => {
    const idempotencyKey = randomUUID()
    const headers = await signTranscription(idempotencyKey)
    const callsBefore = (await sandbox.upstreamCalls()).length
    vendors.hold()
    const held = sandbox.transcribe({ idempotencyKey, headers })
    await untilUpstreamIsCalled(callsBefore)
    process.kill(sandbox.pidOf('api'), 'SIGTERM')
    const answer = await held
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toBe('5')
    expect(await answer.json()).toMatchObject({ error: { code: 'request_in_progress', payment: 'authorized' } })
    vendors.release()
    await sandbox.restart('api')
    expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
  })
})

describe('workers of different queues', () => {
  let sandbox: TestSandbox
  let collector: TraceCollector
  let metricsPorts: { generator: number; settler: number }
  beforeAll(async () => {
    const [generator, settler] = await Promise.all([findFreePort(), findFreePort()])
    metricsPorts = { generator, settler }
    collector = await startTraceCollector()
    const tracing = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '100' }
    sandbox = await startTestSandbox({
      workers: 2,
      // Short, so that callers are answered while no settler runs; the others repeat their request.
      apiEnvironment: { HOLD_SECONDS: '1' },
      environmentOf: (name) => {
        if (name === 'worker')
          return { ...tracing, WORKER_QUEUES: 'text,images,speech,transcriptions', METRICS_PORT: String(generator) }
        if (name === 'worker-2') return { ...tracing, WORKER_QUEUES: 'settlement', METRICS_PORT: String(settler) }
        return tracing
      },
    })
  })

  afterAll(async () => {
    await sandbox.stop()
    await collector.stop()
  })

  const transfers = async () => (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
  const calls = async () => (await sandbox.upstreamCalls()).length
  async function sign() {
    const idempotencyKey = randomUUID()
    return { idempotencyKey, headers: await sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey })) }
  }
  test('a worker without settlement keys generates a result that a settler without provider keys charges', async () => {
    const request = await sign()
    const answer = await sandbox.transcribe(request)
    await untilPaid(request)
    expect({ calls: await calls(), transfers: await transfers() }).toEqual({ calls: 1, transfers: 1 })
    const runs = await runsOf(answer.headers.get('x-request-id') ?? '', 2)
    expect(runs).toEqual([
      ['check', 'provider', 'seal'],
      ['settle', 'sign'],
    ])
  })

  /** Repeats a paid request until it returns the result. */
  const untilPaid = (request: Awaited<ReturnType<typeof sign>>) =>
    until(async () => (await sandbox.transcribe(request)).status === 200)
  /** Waits for `count` runs in a request's trace and returns the stages of each. */
  async function runsOf(requestId: string, count: number): Promise<readonly (readonly string[])[]> {
    const runs = () => {
      const inTrace = traceOf(collector.spans, requestId).filter(({ name }) => name === 'run job')
      return inTrace.toSorted((left, right) => left.startMs - right.startMs)
    }
    await until(() => runs().length >= count)
    return runs().map(({ spanId }) =>
      collector.spans
        .filter(({ parentSpanId }) => parentSpanId === spanId)
        .map(({ name }) => name)
        .sort(),
    )
  }
  test('only the settler exports metrics of settlements and their keys', async () => {
    const [generator, settler] = [await metricsAt(metricsPorts.generator), await metricsAt(metricsPorts.settler)]
    expect(generator).toContain('farebox_deployment_circuit{')
    expect(generator).not.toContain('farebox_settlement')
    expect(settler).toContain(
      `farebox_settlement_gas_wei{facilitator="${sandbox.info.settlementAddresses[0]?.toLowerCase()}"}`,
    )
    expect(settler).not.toContain('farebox_deployment_circuit{')
  })

  test('charges and returns a result once that was generated while no settler ran', async () => {
    const before = { calls: await calls(), transfers: await transfers() }
    const request = await sign()
    process.kill(sandbox.pidOf('worker-2'), 'SIGKILL')
    await until(() => !isRunning(sandbox.pidOf('worker-2')))
    const unsettled = await sandbox.transcribe(request)
    expect(unsettled.status).toBe(503)
    expect(await transfers()).toBe(before.transfers)
    await sandbox.restart('worker-2')
    await untilPaid(request)
    expect({ calls: await calls(), transfers: await transfers() }).toEqual({
      calls: before.calls + 1,
      transfers: before.transfers + 1,
    })
    // The settlement belongs to the trace of the request that paid, not of the retry that received the result.
    expect((await runsOf(unsettled.headers.get('x-request-id') ?? '', 2)).at(-1)).toEqual(['settle', 'sign'])
  })
})

describe('the memory of a worker', () => {
  let sandbox: TestSandbox
  let gate: AnswerGate
  let payer: Payer
  let metricsPort: number
  beforeAll(async () => {
    metricsPort = await findFreePort()
    sandbox = await startTestSandbox({
      workerEnvironment: {
        MAXIMUM_JOB_MEGABYTES: String(JOB_MEGABYTES),
        WORKER_CONCURRENCY: '64',
        METRICS_PORT: String(metricsPort),
      },
      connections: async (real) => {
        gate = await startAnswerGate(real.upstreamUrl)
        return { ...real, upstreamUrl: gate.url }
      },
    })
    payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  })

  afterAll(async () => {
    await sandbox.stop()
    await gate.stop()
  })

  async function send(headers: Record<string, string>): Promise<Answer> {
    // Unlike `fetch`, sends the body without a copy of it.
    const answer = await request(`${sandbox.info.baseUrl}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': MULTIPART_CONTENT_TYPE, ...headers },
      body: BODY,
      headersTimeout: 0,
    })
    return {
      status: answer.statusCode,
      challenge: String(answer.headers['payment-required']),
      text: await answer.body.text(),
    }
  }
  /** Asks for the price of an upload. Returns the headers that pay for it. */
  async function signUpload(): Promise<Record<string, string>> {
    const key = { 'x-idempotency-key': randomUUID() }
    const { challenge } = await untilAdmitted(key)
    return { ...key, ...paymentHeader(await signCustomPayment(decodePaymentRequiredHeader(challenge), payer)) }
  }
  /** Repeats a request while the API has no memory for its body. */
  async function untilAdmitted(headers: Record<string, string>): Promise<Answer> {
    for (;;) {
      const answer = await send(headers)
      if (answer.status !== 503 || !answer.text.includes('"overloaded"')) return answer
      await delay(RETRY_MS)
    }
  }
  /** Returns NaN when the worker closes the connection of an earlier reading at the same moment. */
  async function sample(name: string, labels = ''): Promise<number> {
    const samples = await scrape(metricsPort).catch(() => null)
    return (samples && samplesOf(samples, name)[labels]) ?? Number.NaN
  }
  function peakMegabytes(): number {
    const status = readFileSync(`/proc/${sandbox.pidOf('worker')}/status`, 'utf8')
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
  }
  it('a worker calls providers with as many large uploads as fit into its memory, and loses none of the others', async () => {
    const signed = await Promise.all(Array.from({ length: UPLOADS }, signUpload))
    gate.hold()
    const paying = Promise.all(signed.map(async (headers) => (await untilAdmitted(headers)).status))
    // Each upload gets a minute of its own, however slow the machine is.
    for (let accepted = 1; accepted <= UPLOADS; accepted += 1)
      await until(async () => (await sandbox.added('jobs')) >= accepted)
    await until(async () => (await sample('farebox_jobs_waiting_for_memory')) === UPLOADS - FITTING)
    await until(async () => (await sandbox.upstreamCalls()).length === FITTING)
    await until(async () => (await sample('farebox_job_memory_wait_seconds')) > 0)
    await until(async () => (await sample('farebox_job_memory_bytes', '{of="limit"}')) === JOB_MEGABYTES * 1024 * 1024)
    gate.release()
    expect(await paying).toEqual(Array.from({ length: UPLOADS }, () => 200))
    expect(await sandbox.upstreamCalls()).toHaveLength(UPLOADS)
    await until(async () => (await sample('farebox_job_memory_bytes', '{of="reserved"}')) === 0)
    expect(peakMegabytes()).toBeLessThanOrEqual(400 + 1.5 * JOB_MEGABYTES)
  })
})

describe('a model whose only deployment takes two calls at a time', () => {
  const [LIMITED, CALLERS] = ['textmodel-2.5-flash', 40]
  let sandbox: TestSandbox
  let vendors: AnswerGate
  let payer: Payer
  beforeAll(async () => {
    sandbox = await startTestSandbox({
      connections: async (real) => {
        vendors = await startAnswerGate(real.upstreamUrl)
        return { ...real, upstreamUrl: vendors.url }
      },
      deployments: ({ deployments }) => ({
        deployments: deployments.map((deployment) => {
          const others = deployment.serves.filter((id) => id !== LIMITED)
          return others.length === 0 ? { ...deployment, max_concurrency: 2 } : { ...deployment, serves: others }
        }),
      }),
    })
    payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 50_000_000n, approved: true })
  })

  afterAll(async () => {
    await sandbox.stop()
    await vendors.stop()
  })

  it('serves forty calls that are released together, two at a time, and fails none', async () => {
    const { baseUrl } = sandbox.info
    const chats = await Promise.all(Array.from({ length: CALLERS }, () => signChat(baseUrl, payer)))
    const before = (await sandbox.upstreamCalls()).length
    const keys = chats.map(({ idempotencyKey }) => idempotencyKey)
    const countJobs = async (state: string) =>
      (await sandbox.sql('SELECT FROM jobs WHERE idempotency_key = ANY($1) AND state = $2', [keys, state])).length
    vendors.hold()
    const worker = sandbox.pidOf('worker')
    process.kill(worker, 'SIGSTOP')
    const answers = Promise.all(chats.map((chat) => payChat(baseUrl, chat)))
    await until(async () => (await countJobs('accepted')) === CALLERS)
    process.kill(worker, 'SIGCONT')
    await until(async () => (await sandbox.upstreamCalls()).length === before + 2)
    // The worker has taken all others, which wait.
    const taken = `SELECT FROM jobs WHERE idempotency_key = ANY($1) AND (lease_expires_at > now() OR state = 'failed')`
    await until(async () => (await sandbox.sql(taken, [keys])).length === CALLERS)
    expect([await countJobs('accepted'), await countJobs('failed')]).toEqual([CALLERS - 2, 0])
    vendors.release()
    const codes = (await answers).map(({ status, code }) => `${status} ${code}`)
    expect(codes).toEqual(chats.map(() => '200 '))
    expect((await sandbox.upstreamCalls()).length).toBe(before + CALLERS)
  })
})

describe('deployments that change under load', () => {
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
    const run = await runCommand('infra/commands/deployments/main.ts', commandLine, {
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
  async function pay(path = '/v1/chat/completions', request: Record<string, unknown> = body): Promise<Response> {
    const idempotencyKey = randomUUID()
    const priced = await sandbox.post(path, request, { idempotencyKey })
    const headers = await payer.sign(priced)
    return await sandbox.post(path, request, { idempotencyKey, headers })
  }
  /** Pays for several calls at a time, so that both workers take some. Returns the vendors' routes that were called. */
  async function payForSix(): Promise<readonly string[]> {
    const before = (await sandbox.upstreamCalls()).length
    const answers = await Promise.all(Array.from({ length: 6 }, () => pay()))
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

  test('a vendor’s budget that is spent in the middle of load costs no call: they fail over, and come back with a higher one', async () => {
    const newest = await createConfigurationStore(pool).findNewest('deployments')
    if (!newest) throw new Error('nothing is published')
    const { deployments: all } = newest.content as unknown as DeploymentsFile
    const ours = all.map((entry) => (entry.name === FIRST ? { ...entry, vendor: 'first' } : entry))
    const [row] = await sandbox.sql<{ spent: string }>(
      'SELECT coalesce(sum(vendor_cost), 0) AS spent FROM upstream_attempts WHERE deployment = $1',
      [FIRST],
    )
    const publish = async (budgetAtomic: bigint) => {
      const usd_per_day = dollarsFromAtomic(atomicAmount(budgetAtomic))
      const file = join(sandbox.directory, 'with-budget.json')
      await writeFile(file, JSON.stringify({ deployments: ours, vendor_budgets: { first: { usd_per_day } } }))
      const published = await deployments('publish', file, '--reason', 'a budget', '--json')
      if (published.exitCode !== 0) throw new Error(JSON.stringify(published))
    }
    const spent = BigInt(row?.spent ?? 0)
    await publish(spent + 5n)
    const before = (await sandbox.upstreamCalls()).length
    const statuses: number[] = []
    const routes = async () => (await sandbox.upstreamCalls()).slice(before).map(({ route }) => route)
    await until(async () => {
      const answers = await Promise.all([pay(), pay(), pay(), pay()])
      statuses.push(...answers.map(({ status }) => status))
      return (await routes()).includes(SECOND_ROUTE)
    })
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(await routes()).toHaveLength(statuses.length)
    expect(await routes()).toContain(FIRST_ROUTE)
    expect(
      await sandbox.sql('SELECT operator FROM deployment_controls WHERE deployment = $1 AND is_drained', [FIRST]),
    ).toEqual([{ operator: 'vendor budget' }])
    await publish(spent + 5_000_000n)
    await untilApplied((worker) => worker.deployments?.[FIRST]?.isDrained === false)
    expect((await pay()).status).toBe(200)
    expect((await routes()).at(-1)).toBe(FIRST_ROUTE)
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

  test('40 accepted calls of a model whose only deployment is removed are all served, also by a worker that starts later', async () => {
    const [controls, store] = [createControlStore(pool), createConfigurationStore(pool)]
    const author = { operator: 'ada', source: 'console' } as const
    await controls.controlQueue(author, { queue: 'images', isPaused: true, reason: 'to gather calls' })
    await untilApplied((worker) => worker.queues?.images?.isPaused === true)
    const image = { model: IMAGE, prompt: 'The last tram' }
    expect((await pay()).status).toBe(200)
    await giveHistory(sandbox, payer.address, '2')
    const answers = Promise.all(Array.from({ length: 40 }, () => pay('/v1/images/generations', image)))
    await until(async () => {
      const jobs = await sandbox.sql("SELECT 1 FROM jobs WHERE state = 'accepted' AND public_model = $1", [IMAGE])
      return jobs.length === 40
    })
    const before = await store.findNewest('deployments')
    if (!before) throw new Error('nothing is published')
    const { deployments: all } = before.content as unknown as DeploymentsFile
    const remaining = { deployments: all.filter(({ serves }) => !serves.includes(IMAGE)) }
    expect(remaining.deployments).toHaveLength(all.length - 1)
    const file = join(sandbox.directory, 'without-images.json')
    await writeFile(file, JSON.stringify(remaining))
    expect((await deployments('diff', file, '--json')).json).toMatchObject({ waiting: [{ model: IMAGE, calls: 40 }] })
    expect((await deployments('publish', file, '--reason', 'not ours any more', '--json')).exitCode).toBe(0)
    const isRemoved = ({ deployments: reported = {} }: ProcessReport) =>
      !Object.keys(reported).some((name) => name === ONLY)
    await untilApplied(isRemoved)
    process.kill(sandbox.pidOf('worker'), 'SIGTERM')
    await sandbox.restart('worker')
    await untilApplied(isRemoved)
    expect((await sandbox.post('/v1/images/generations', image)).status).toBe(503)
    await controls.controlQueue(author, { queue: 'images', isPaused: false, reason: 'gathered' })
    expect((await answers).map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 200))
    const attempts = await sandbox.sql(
      `SELECT deployment, upstream_attempts.state, count(*)::int FROM upstream_attempts
       JOIN jobs ON jobs.id = job_id WHERE public_model = $1 GROUP BY 1, 2`,
      [IMAGE],
    )
    expect(attempts).toEqual([{ deployment: ONLY, state: 'succeeded', count: 40 }])
  })

  test.each([
    ['an unknown deployment', 1, ['drain', 'unknown', '--reason', 'why'], 'No deployment "unknown" is published'],
    ['no reason', 2, ['drain', FIRST], "required option '--reason <text>'"],
    ['a weight of 0', 2, ['weight', FIRST, '0', '--reason', 'why'], 'WEIGHT must be a number'],
    [
      'a weight of 1,000,001',
      2,
      ['weight', FIRST, '1000001', '--reason', 'why'],
      'WEIGHT must be a number from 1 to 1000000',
    ],
    ['half a weight', 2, ['weight', FIRST, '0.5', '--reason', 'why'], 'WEIGHT must be a number'],
    ['an argument too many', 2, ['enable', FIRST, 'more', '--reason', 'why'], 'too many arguments'],
  ])('the command refuses %s with exit code %d', async (_, exitCode, commandLine, message) => {
    const run = await deployments(...commandLine)
    expect(run).toMatchObject({ exitCode, errors: expect.stringContaining(message) })
  })
})
