import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findFreePort } from '../../infra/sandbox/processes/free-port.ts'
import { readAlerts, readPanels } from '../support/deployment/operator-files.ts'
import { type ParsedQuery, parsePromQl, problemsOf } from '../support/deployment/promql.ts'
import { type Samples, samplesOf, scrape, scrapeNames } from '../support/http/scrape.ts'
import { renderTrace, startTraceCollector, type TraceCollector, traceOf } from '../support/http/trace-collector.ts'
import { sendChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer, type PayerOfAnyKind } from '../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

const OPERATION = 'createChatCompletion'
const ROUTE = 'POST /v1/chat/completions'
/** The number of the API's answers to the traffic below. */
const ANSWERS = 12

let sandbox: TestSandbox
let collector: TraceCollector
let ports: { api: number; worker: number; console: number }
/** Scraped before the worker is restarted. */
let workerSamples: Samples

/** The compared parts of one answer. */
interface Answered {
  readonly status: number
  readonly code: string
  readonly requestId: string
  readonly charged: bigint
}

const answers: Record<'paid' | 'replayed' | 'uncharged' | 'unsettled', Answered> = {} as never
let paid: { readonly payer: PayerOfAnyKind; readonly nonce: bigint; readonly prompt: string; readonly maximum: bigint }
let unsettledMaximum: bigint
let unchargedMaximum: bigint

beforeAll(async () => {
  const [api, worker, console] = await Promise.all([findFreePort(), findFreePort(), findFreePort()])
  ports = { api, worker, console }
  collector = await startTraceCollector()
  sandbox = await startTestSandbox({
    operator: true,
    environmentOf: (name) => ({
      METRICS_PORT: String(name === 'api' ? api : name === 'operator' ? console : worker),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    }),
  })
  await makeTraffic()
  workerSamples = await scrapeAtRest(worker)
})
afterAll(async () => {
  await sandbox.stop()
  await collector.stop()
})

/**
 * Sends two lists, an unknown route and an invalid request, then four priced requests: one is paid and replayed, one
 * has its connection reset by the provider, one is paid with a nonce that is invalidated in the meantime, and one is
 * never paid.
 */
async function makeTraffic(): Promise<void> {
  const { baseUrl, rpcUrl } = sandbox.info
  const newPayer = () => createPayer(rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
  await fetch(`${baseUrl}/v1/models`)
  await fetch(`${baseUrl}/v1/models`)
  await fetch(`${baseUrl}/v1/${randomUUID()}/no-route`)
  await sandbox.post('/v1/chat/completions', { model: 'textmodel-2.5-flash' })
  await sendChat(baseUrl, randomUUID())

  const send = async ({ idempotencyKey, headers }: Awaited<ReturnType<typeof signChat>>): Promise<Answered> => {
    const { status, code, charged, response } = await sendChat(baseUrl, idempotencyKey, headers)
    return { status, code, charged, requestId: response?.headers.get('x-request-id') ?? '' }
  }
  const chat = await signChat(baseUrl, await newPayer())
  paid = { ...chat, prompt: `say ${chat.idempotencyKey}` }
  answers.paid = await send(chat)
  answers.replayed = await send(chat)

  const broken = await signChat(baseUrl, await newPayer())
  unchargedMaximum = broken.maximum
  await sandbox.setFaults([{ fault: 'resetAfterRead' }])
  answers.uncharged = await send(broken)

  const invalidated = await signChat(baseUrl, await newPayer())
  unsettledMaximum = invalidated.maximum
  const upstream = sandbox.pidOf('upstream')
  process.kill(upstream, 'SIGSTOP')
  const held = send(invalidated)
  try {
    // From this state on, the payment is not checked again before the provider is called.
    const isGenerating = "SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state = 'generating'"
    await until(async () => (await sandbox.sql(isGenerating, [invalidated.idempotencyKey])).length > 0)
    await invalidated.payer.invalidateNonce(invalidated.nonce)
  } finally {
    process.kill(upstream, 'SIGCONT')
  }
  answers.unsettled = await held
}

test('the traffic received its expected answers', () => {
  expect(Object.entries(answers).map(([name, { status, code }]) => [name, status, code])).toEqual([
    ['paid', 200, ''],
    ['replayed', 200, ''],
    ['uncharged', 503, 'provider_outcome_unknown'],
    ['unsettled', 402, 'settlement_failed'],
  ])
})

describe('the API’s /metrics', () => {
  let samples: Samples
  beforeAll(async () => {
    samples = await scrapeAtRest(ports.api, ANSWERS)
  })

  test('the API’s metrics count every answer once, by operation and outcome', () => {
    expect(samplesOf(samples, 'farebox_requests_total')).toEqual({
      [labels('/v1/models', 200, 'ok')]: 2,
      [labels('unknown', 404, 'not_found')]: 1,
      [labels(OPERATION, 400, 'missing_field')]: 1,
      [labels(OPERATION, 402, 'challenged')]: 4,
      [labels(OPERATION, 200, 'completed')]: 1,
      [labels(OPERATION, 200, 'replayed')]: 1,
      [labels(OPERATION, 503, 'provider_outcome_unknown')]: 1,
      [labels(OPERATION, 402, 'settlement_failed')]: 1,
    })
    expect(samplesOf(samples, 'farebox_request_duration_seconds_count')).toEqual({
      '{operation="/v1/models"}': 2,
      '{operation="unknown"}': 1,
      [`{operation="${OPERATION}"}`]: 9,
    })
  })

  test('the API’s metrics measure each stage as often as it ran', () => {
    // The failed settlement's answer includes a fresh quote.
    expect(stageCounts(samples)).toEqual({ validate: 9, quote: 5, verify: 3, accept: 3, hold: 4 })
    expect(samplesOf(samples, 'farebox_stage_active')).toEqual({
      '{stage="validate"}': 0,
      '{stage="quote"}': 0,
      '{stage="verify"}': 0,
      '{stage="accept"}': 0,
      '{stage="hold"}': 0,
    })
  })

  test('the API’s metrics show decoders, connections and the event loop', async () => {
    expect(samplesOf(samples, 'farebox_decoders')).toEqual({
      '{state="busy"}': 0,
      '{state="waiting"}': 0,
      '{state="places"}': 2,
    })
    expect(samplesOf(samples, 'farebox_load')).toEqual({ '{of="body_bytes"}': 0, '{of="held_connections"}': 0 })
    expect(samplesOf(samples, 'farebox_database_connections')['{state="waiting"}']).toBe(0)
    // Reset by each scrape.
    await until(async () => ((await scrape(ports.api)).get('nodejs_eventloop_lag_p99_seconds') ?? 0) > 0)
  })

  test('the API’s metrics are not served on its public port', async () => {
    expect((await fetch(`${sandbox.info.baseUrl}/metrics`)).status).toBe(404)
  })
})

describe('a worker’s /metrics', () => {
  test('a worker’s metrics count the calls of each deployment by outcome', () => {
    const calls = Object.entries(samplesOf(workerSamples, 'farebox_provider_call_duration_seconds_count'))
    const byOutcome = calls.map(([labels, count]) => [/outcome="([a-z_]+)"/.exec(labels)?.[1], count])
    expect(byOutcome.map((entry) => entry.join(' ')).sort()).toEqual(['produced 2', 'provider_outcome_unknown 1'])
  })

  test('a worker’s metrics measure each stage as often as it ran', () => {
    const { confirm, ...counts } = stageCounts(workerSamples)
    // A batch is broadcast when it is signed, and by each of its jobs, which share it.
    expect(counts).toEqual({ queue: 3, check: 3, provider: 3, seal: 2, sign: 2, settle: 1, broadcast: 2, commit: 1 })
    expect(confirm).toBeGreaterThanOrEqual(1)
  })

  test('a worker’s metrics report the ledger’s totals to the atomic unit', async () => {
    const [row] = await sandbox.sql<{ charge: string; withheld: string }>(
      `SELECT sum(charge_amount) FILTER (WHERE state = 'completed') AS charge,
         sum(charge_amount) FILTER (WHERE state = 'settlement_failed') AS withheld FROM jobs`,
    )
    expect(row?.charge).toBe(answers.paid.charged.toString())
    expect(Number(row?.withheld)).toBeLessThanOrEqual(Number(unsettledMaximum))
    expect(await readLedgerTotals()).toEqual({
      farebox_ledger_readable: 1,
      farebox_charged_jobs: 1,
      farebox_charged_usdc_atomic: Number(answers.paid.charged),
      'farebox_absorbed_jobs{reason="ambiguous"}': 1,
      'farebox_absorbed_usdc_atomic{reason="ambiguous"}': Number(unchargedMaximum),
      'farebox_absorbed_jobs{reason="withheld"}': 1,
      'farebox_absorbed_usdc_atomic{reason="withheld"}': Number(row?.withheld),
      ...Object.fromEntries(
        ['empty', 'rejected', 'replaced', 'reverted'].flatMap((reason) => [
          [`farebox_absorbed_jobs{reason="${reason}"}`, 0],
          [`farebox_absorbed_usdc_atomic{reason="${reason}"}`, 0],
        ]),
      ),
      // New payers: one call with an unknown outcome, one withheld result.
      farebox_new_payer_exposure_usdc_atomic: Number(unchargedMaximum) + Number(row?.withheld),
      farebox_open_exposure_usdc_atomic: 0,
      farebox_jobs_in_review: 0,
    })
    for (const queue of ['text', 'images', 'speech', 'transcriptions', 'settlement']) {
      expect(workerSamples.get(`farebox_queue_jobs{queue="${queue}",state="waiting"}`)).toBe(0)
      expect(workerSamples.get(`farebox_queue_oldest_waiting_seconds{queue="${queue}"}`)).toBe(0)
    }
    const settlements = samplesOf(workerSamples, 'farebox_settlements')
    // None once the block is final.
    expect(settlements['{state="confirmed"}']).toBeLessThanOrEqual(1)
    expect(settlements).toMatchObject({ '{state="signed"}': 0, '{state="unproven"}': 0 })
  })

  test('a worker’s metrics report the same ledger totals after a restart', async () => {
    const before = await readLedgerTotals()
    // Spans that are not exported yet would be lost with the process.
    for (const { requestId } of [answers.paid, answers.uncharged, answers.unsettled])
      await until(() => traceOf(collector.spans, requestId).some(({ name }) => name === 'run job'))
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    await sandbox.restart('worker')
    expect(await readLedgerTotals()).toEqual(before)
    expect(samplesOf(await scrape(ports.worker), 'farebox_provider_call_duration_seconds_count')).toEqual({})
  })
})

const rootSpans = () => collector.spans.filter(({ parentSpanId }) => parentSpanId === '')

describe('the exported spans', () => {
  test('the spans of a paid request form one trace through API and worker', async () => {
    const { requestId } = answers.paid
    const exported = () => traceOf(collector.spans, requestId)
    // Without `confirm`: the number of receipt polls varies.
    await expect
      .poll(() => renderTrace(exported().filter(({ name }) => name !== 'confirm')))
      .toEqual([
        'farebox-api: POST /v1/chat/completions',
        'farebox-api: POST /v1/chat/completions > accept',
        'farebox-api: POST /v1/chat/completions > hold',
        'farebox-api: POST /v1/chat/completions > validate',
        'farebox-api: POST /v1/chat/completions > verify',
        'farebox-worker: POST /v1/chat/completions > queue',
        'farebox-worker: POST /v1/chat/completions > run job',
        'farebox-worker: run job > check',
        'farebox-worker: run job > provider',
        'farebox-worker: run job > seal',
        'farebox-worker: run job > settle',
        'farebox-worker: run job > sign',
        'farebox-worker: settle > broadcast',
        'farebox-worker: settle > commit',
        'farebox-worker: sign > broadcast',
      ])
    const spans = exported()
    const confirmations = spans.filter(({ name }) => name === 'confirm')
    const settle = spans.find(({ name }) => name === 'settle')
    expect(confirmations.at(-1)?.attributes['farebox.outcome']).toBe('confirmed')
    for (const { parentSpanId } of confirmations) expect(parentSpanId).toBe(settle?.spanId)
    for (const span of spans) expect(span.endMs).toBeGreaterThanOrEqual(span.startMs)
    const [root] = spans.filter(({ parentSpanId }) => parentSpanId === '')
    expect(root?.attributes).toMatchObject({
      'farebox.operation': OPERATION,
      'farebox.status': 200,
      'farebox.outcome': 'completed',
      'farebox.payer': paid.payer.account.address.toLowerCase(),
    })
    expect(spans.find(({ name }) => name === 'provider')?.attributes).toMatchObject({ 'farebox.outcome': 'produced' })
  })

  test('the spans of a failed request show where it failed', async () => {
    const { requestId } = answers.uncharged
    const exported = () => traceOf(collector.spans, requestId)
    await expect
      .poll(() => renderTrace(exported()).filter((line) => line.includes('run job >')))
      .toEqual(['farebox-worker: run job > check', 'farebox-worker: run job > provider'])
    expect(exported().find(({ name }) => name === 'provider')?.attributes).toMatchObject({
      'farebox.outcome': 'failed',
    })
  })

  test('each request to a paid operation has one trace, and other requests have none', async () => {
    await expect.poll(rootSpans).toHaveLength(9)
    const roots = rootSpans()
    expect(new Set(roots.map(({ name }) => name))).toEqual(new Set([ROUTE]))
    expect(new Set(roots.map(({ traceId }) => traceId)).size).toBe(9)
  })

  test('spans contain neither prompts nor signatures nor keys', () => {
    const everything = collector.received.join('\n')
    expect(everything).not.toContain(paid.prompt)
    expect(everything).not.toContain(paid.nonce.toString())
    expect(everything).not.toMatch(/signature/i)
    expect(everything).not.toContain(sandbox.info.payer.privateKey.slice(2))
  })
})

test('log lines of both processes include the request id and the trace id', async () => {
  const { requestId } = answers.uncharged
  const traceId = collector.spans.find(({ attributes }) => attributes['farebox.request_id'] === requestId)?.traceId
  expect(traceId).toMatch(/^[0-9a-f]{32}$/)
  const inApi = await until(async () =>
    (await readLogLines('api')).find(({ msg, requestId: id }) => msg === 'request completed' && id === requestId),
  )
  expect(inApi).toMatchObject({ status: 503, traceId })
  const inWorker = await until(async () => {
    const failures = (await readLogLines('worker')).filter(({ msg }) => msg === 'provider call failed')
    return failures.length > 0 && failures
  })
  expect(inWorker).toHaveLength(1)
  expect(inWorker[0]).toMatchObject({ requestId, traceId, code: 'provider_outcome_unknown' })
})

describe('dashboard and alerts', () => {
  let names: ReadonlySet<string>
  let series: readonly string[]
  let queries: readonly (ParsedQuery & { readonly expr: string })[]
  beforeAll(async () => {
    // `up` is Prometheus's own.
    names = new Set(['up', ...(await Promise.all([ports.api, ports.worker, ports.console].map(scrapeNames))).flat()])
    series = [...workerSamples.keys(), ...(await scrape(ports.api)).keys()]
    const ofAlerts = (await readAlerts()).map(({ expr }) => expr)
    const ofPanels = (await readPanels()).flatMap(({ targets }) => targets.map(({ expr }) => expr))
    queries = [...ofAlerts, ...ofPanels].map((expr) => ({ expr, ...parsePromQl(expr) }))
  })
  const queriedMetrics = () => queries.flatMap(({ selectors }) => selectors.map(({ metric }) => metric))

  test('dashboard and alerts query only metrics that an API, a worker or the console exports', () => {
    expect(queriedMetrics().length).toBeGreaterThan(50)
    expect(queriedMetrics().filter((metric) => !names.has(metric))).toEqual([])
  })

  test('dashboard and alerts use every exported farebox metric', () => {
    const used = new Set(queriedMetrics().map(withoutSuffix))
    const own = [...names].filter((name) => name.startsWith('farebox_')).map(withoutSuffix)
    expect(own.filter((name) => !used.has(name))).toEqual([])
  })

  test('queries of dashboard and alerts match existing series and group by existing labels', () => {
    const problems = queries.flatMap((query) => problemsOf(query, series).map((problem) => `${query.expr}: ${problem}`))
    expect(problems).toEqual([])
  })
})

/** Returns the histogram's name for any of its three series. */
function withoutSuffix(name: string): string {
  return name.replace(/_(bucket|sum|count)$/, '')
}

/** Scrapes until no work is active and `answered` answers are counted: both are updated after an answer is sent. */
function scrapeAtRest(port: number, answered = 0): Promise<Samples> {
  return until(async () => {
    const samples = await scrape(port)
    const active = ['farebox_stage_active', 'farebox_load'].flatMap((name) => Object.values(samplesOf(samples, name)))
    const counted = Object.values(samplesOf(samples, 'farebox_requests_total')).reduce((sum, count) => sum + count, 0)
    return active.every((count) => count === 0) && counted >= answered && samples
  })
}

async function readLedgerTotals() {
  const samples = await scrape(ports.worker)
  const names = /^farebox_(ledger|charged|absorbed|open_exposure|new_payer_exposure|jobs_in_review)/
  return Object.fromEntries([...samples].filter(([series]) => names.test(series)))
}

function labels(operation: string, status: number, outcome: string): string {
  return `{operation="${operation}",status="${status}",outcome="${outcome}"}`
}

async function readLogLines(name: string): Promise<readonly Record<string, unknown>[]> {
  return (await readFile(join(sandbox.directory, 'logs', `${name}.log`), 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

function stageCounts(samples: Samples): Record<string, number> {
  const counts = Object.entries(samplesOf(samples, 'farebox_stage_duration_seconds_count'))
  return Object.fromEntries(
    counts.map(([labels, count]) => {
      expect(labels).toContain(`operation="${OPERATION}"`)
      return [/stage="([a-z]+)"/.exec(labels)?.[1] ?? '', count]
    }),
  )
}
