import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { startTraceCollector, type TraceCollector, traceOf } from '../../support/http/trace-collector.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

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

const metricsAt = async (port: number) => await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()

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
