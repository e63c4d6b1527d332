import { setTimeout as delay } from 'node:timers/promises'
import { SpanStatusCode } from '@opentelemetry/api'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { describe, expect, it } from 'vitest'
import { createTracer } from '#shared/adapters/opentelemetry/tracer.ts'
import { noTracing } from '#shared/runtime/tracing.ts'

/** Collects exported spans. `paths` names each span as `parent > name`, in the order in which they ended. */
function createExporter() {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const ended = () => exporter.getFinishedSpans()
  const pathOf = (span: ReadableSpan): string => {
    const parentId = span.parentSpanContext?.spanId
    if (parentId === undefined) return span.name
    const parent = ended().find((other) => other.spanContext().spanId === parentId)
    return `${parent ? pathOf(parent) : `(${parentId})`} > ${span.name}`
  }
  return { spans: provider.getTracer('test'), ended, paths: () => ended().map(pathOf) }
}

function createObserver() {
  const seen: string[] = []
  return {
    seen,
    begun: (stage: string) => void seen.push(`begun ${stage}`),
    ended: (stage: string, operation: string, seconds: number) => {
      expect(seconds).toBeGreaterThanOrEqual(0)
      seen.push(`ended ${stage} of ${operation}`)
    },
  }
}

const JOB = { id: 'job', operation: 'createSpeech', publicModel: 'voice', fence: 2n, waitedMs: 1500 }
const TRACE_ID = 'a'.repeat(32)
const PARENT_ID = 'b'.repeat(16)

describe('a traced request', () => {
  it('exports each stage of a request as a child of the stage that it runs in', async () => {
    const { spans, paths, ended } = createExporter()
    const tracer = createTracer({ spans, observer: createObserver() })
    const request = tracer.startRequest('request-1', 'POST /v1', 'createSpeech')
    await request.run(async () => {
      await tracer.stage('validate', async () => tracer.describe({ model: 'voice' }))
      await tracer.stage('settle', () => tracer.stage('commit', () => delay(1)), { transaction: '0x1' })
    })
    request.end({ status: 200 })
    expect(paths()).toEqual(['POST /v1 > validate', 'POST /v1 > settle > commit', 'POST /v1 > settle', 'POST /v1'])
    expect(ended().map(({ attributes }) => attributes)).toEqual([
      { 'farebox.model': 'voice' },
      {},
      { 'farebox.transaction': '0x1' },
      { 'farebox.request_id': 'request-1', 'farebox.operation': 'createSpeech', 'farebox.status': 200 },
    ])
  })

  it('keeps the spans of concurrent requests apart', async () => {
    const { spans, paths, ended } = createExporter()
    const tracer = createTracer({ spans, observer: createObserver() })
    const run = async (name: string, ms: number) => {
      const request = tracer.startRequest(name, name, 'o')
      const current = await request.run(async () => {
        await delay(ms)
        await tracer.stage('quote', () => delay(ms))
        return tracer.current()
      })
      request.end({})
      return { requestId: current?.requestId, isOwnTrace: current?.traceId === request.traceId }
    }
    expect(await Promise.all([run('first', 4), run('second', 2)])).toEqual([
      { requestId: 'first', isOwnTrace: true },
      { requestId: 'second', isOwnTrace: true },
    ])
    expect(paths().sort()).toEqual(['first', 'first > quote', 'second', 'second > quote'])
    expect(new Set(ended().map((span) => span.spanContext().traceId)).size).toBe(2)
    expect(tracer.current()).toBeNull()
  })

  it('passes the span of the whole request to its job, from any stage', async () => {
    const { spans, ended } = createExporter()
    const tracer = createTracer({ spans, observer: createObserver() })
    const request = tracer.startRequest('request-1', 'POST /v1', 'o')
    const accepted = await request.run(() => tracer.stage('accept', async () => tracer.current()))
    request.end({})
    const context = ended().at(-1)?.spanContext()
    expect(accepted).toEqual({
      requestId: 'request-1',
      traceparent: `00-${context?.traceId}-${context?.spanId}-01`,
      traceId: context?.traceId,
    })
  })

  it('continues the trace in the worker with spans for the wait and the run of the job', async () => {
    const { spans, paths, ended } = createExporter()
    const observer = createObserver()
    const tracer = createTracer({ spans, observer })
    const origin = { requestId: 'request-1', traceparent: `00-${TRACE_ID}-${PARENT_ID}-01` }
    await tracer.continueRequest({ ...JOB, origin }, async () => {
      expect(tracer.current()).toEqual({ ...origin, traceId: TRACE_ID })
      await tracer.stage('seal', async () => undefined)
    })
    const parent = `(${PARENT_ID})`
    expect(paths()).toEqual([`${parent} > queue`, `${parent} > run job > seal`, `${parent} > run job`])
    expect(ended().map((span) => span.spanContext().traceId)).toEqual([TRACE_ID, TRACE_ID, TRACE_ID])
    expect(ended().at(-1)?.attributes).toEqual({
      'farebox.request_id': 'request-1',
      'farebox.job_id': 'job',
      'farebox.operation': 'createSpeech',
      'farebox.model': 'voice',
      'farebox.fence': '2',
    })
    expect(observer.seen).toEqual([
      'begun queue',
      'ended queue of createSpeech',
      'begun seal',
      'ended seal of createSpeech',
    ])
  })

  it('starts a new trace for a job whose traceparent cannot be read', async () => {
    const { spans, paths } = createExporter()
    const tracer = createTracer({ spans, observer: createObserver() })
    const origin = { requestId: null, traceparent: 'unreadable' }
    await tracer.continueRequest({ ...JOB, origin }, async () => undefined)
    expect(paths()).toEqual(['queue', 'run job'])
  })

  it('marks a stage that threw, without the error message, and rethrows the error', async () => {
    const { spans, ended } = createExporter()
    const observer = createObserver()
    const tracer = createTracer({ spans, observer })
    const failure = new TypeError('a prompt')
    const run = tracer.startRequest('r', 'POST /v1', 'o').run(() =>
      tracer.stage('verify', async () => {
        throw failure
      }),
    )
    await expect(run).rejects.toBe(failure)
    expect(ended().map(({ name, attributes, status }) => ({ name, attributes, status }))).toEqual([
      { name: 'verify', attributes: { 'error.type': 'TypeError' }, status: { code: SpanStatusCode.ERROR } },
    ])
    expect(observer.seen).toEqual(['begun verify', 'ended verify of o'])
  })
})

describe('without an exporter', () => {
  it('without an exporter, the tracer still knows the request and measures its stages', async () => {
    const observer = createObserver()
    const tracer = createTracer({ spans: null, observer })
    const origin = { requestId: 'request-1', traceparent: '00-a-b-01' }
    await tracer.continueRequest({ ...JOB, origin }, async () => {
      expect(tracer.current()).toEqual({ ...origin, traceId: null })
      await tracer.stage('seal', async () => undefined)
    })
    const request = tracer.startRequest('request-2', 'POST /v1', 'o')
    expect(request.run(() => tracer.current())).toEqual({ requestId: 'request-2', traceparent: null, traceId: null })
    request.end({ status: 200 })
    expect(observer.seen).toHaveLength(4)
  })

  it('noTracing only runs the work', async () => {
    const job = { ...JOB, origin: { requestId: null, traceparent: null } }
    expect(await noTracing.continueRequest(job, async () => 1)).toBe(1)
    expect(await noTracing.stage('seal', async () => 2)).toBe(2)
    expect(noTracing.startRequest('r', 'n', 'o').run(() => 3)).toBe(3)
    expect(noTracing.current()).toBeNull()
  })
})
