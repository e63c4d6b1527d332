import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { SpanStatusCode } from '@opentelemetry/api'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { Registry } from 'prom-client'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createTracer } from '#shared/adapters/opentelemetry/tracer.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { addNodeMetrics } from '#shared/runtime/process-metrics.ts'
import { takeRandomBytes } from '#shared/runtime/random-bytes.ts'
import { noTracing } from '#shared/runtime/tracing.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

const up = { host: 'one.example', isAnswering: true, headAgeMs: 2500, poolRefusals: 2 }
const down = { host: 'one.example', isAnswering: false, headAgeMs: 40_000, poolRefusals: 1 }
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
/**
 * Returns arguments for a Node process that runs `code` with `createLogger` and a `log` in scope. A separate process,
 * because pino writes to the file descriptor itself; with a compile cache, because compiling takes most of its time.
 */
function programOf(code: string): string[] {
  const logger = new URL('../../shared/runtime/logger.ts', import.meta.url).href
  const program = `
    const { enableCompileCache } = await import('node:module')
    enableCompileCache()
    const { createLogger } = await import(${JSON.stringify(logger)})
    const log = createLogger({ process: 'test', level: 'debug' })
    ${code}`
  return ['--input-type=module', '--eval', program]
}
function runAndReadLog(code: string): Record<string, unknown>[] {
  return linesOf(execFileSync(process.execPath, programOf(code), { encoding: 'utf8' }))
}
function linesOf(output: string): Record<string, unknown>[] {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('random bytes', () => {
  it('gives no byte away twice, however many are taken at a time', () => {
    const taken = Array.from({ length: 5000 }, (_, index) => takeRandomBytes(16 + (index % 3) * 8).toString('hex'))
    expect(new Set(taken.map((hex) => hex.slice(0, 32))).size).toBe(taken.length)
    expect(new Set(Array.from({ length: 5000 }, newId)).size).toBe(5000)
  })
})

describe('metrics of the process', () => {
  it.each([
    [[up, down], 0],
    [[down, up], 0],
    [[up, up], 1],
  ])('reports two URLs of one host as answering only while both answer', async (states, value) => {
    const registry = new Registry()
    addNodeMetrics(registry, () => states)
    expect(await registry.metrics()).toContain(`farebox_rpc_node_answering{node="one.example"} ${value}\n`)
  })

  it('reports the age of the newest block of each node, of two URLs of one host the older one', async () => {
    const registry = new Registry()
    const unknown = { host: 'two.example', isAnswering: false, headAgeMs: null, poolRefusals: 0 }
    addNodeMetrics(registry, () => [down, unknown, up])
    const metrics = await registry.metrics()
    expect(metrics).toContain('farebox_rpc_node_head_age_seconds{node="one.example"} 40\n')
    expect(metrics).not.toContain('head_age_seconds{node="two.example"}')
  })

  it('counts the transactions that each node refused for its pool, of two URLs of one host together', async () => {
    const registry = new Registry()
    addNodeMetrics(registry, () => [down, up])
    for (let scrape = 0; scrape < 2; scrape += 1)
      expect(await registry.metrics()).toContain('farebox_rpc_node_pool_refusals_total{node="one.example"} 3\n')
  })
})

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

describe('log lines', () => {
  it('the logger writes one JSON object per line with all given fields, and drops no line', () => {
    const lines = runAndReadLog(`
      log.info('an info', { requestId: 'r', jobId: 'j', operation: 'o', method: 'POST', route: '/v1', status: 200 })
      log.warn('a warning', { code: 'c', state: 's', durationMs: 3, deployment: 'd', reason: 'why', count: 4 })
      for (let index = 0; index < 2000; index += 1) log.error('an error', { count: index })`)
    expect(lines).toHaveLength(2002)
    expect(lines[0]).toMatchObject({
      msg: 'an info',
      process: 'test',
      requestId: 'r',
      jobId: 'j',
      operation: 'o',
      method: 'POST',
      route: '/v1',
      status: 200,
    })
    expect(lines[1]).toMatchObject({
      msg: 'a warning',
      code: 'c',
      state: 's',
      durationMs: 3,
      deployment: 'd',
      reason: 'why',
      count: 4,
    })
    expect(lines.at(-1)).toMatchObject({ msg: 'an error', count: 1999, time: expect.stringMatching(/^\d{4}-.*Z$/) })
  })

  it('the logger writes nothing below its level, and nothing at all when silent', () => {
    const lines = runAndReadLog(`
      for (const level of ['warn', 'silent']) {
        const quiet = createLogger({ process: level, level })
        quiet.info('low')
        quiet.error('high')
      }`)
    expect(lines).toMatchObject([{ process: 'warn', msg: 'high' }])
  })

  it.each(['{ status: 502 }', '{ $metadata: { httpStatusCode: 502, extendedRequestId: "id" } }'])(
    'the logger writes the HTTP status that an error has, with %s',
    (properties) => {
      const error = `Object.assign(new Error('UnknownError'), ${properties})`
      const [line] = runAndReadLog(`log.warn('failed', { error: ${error} })`)
      expect(line).toMatchObject({ error: { message: 'UnknownError', status: 502 } })
      expect(JSON.stringify(line)).not.toContain('extendedRequestId')
    },
  )

  it('the logger writes type, code, first message line, frames and causes of an error', () => {
    const [line] = runAndReadLog(`
      const cause = Object.assign(new TypeError('the cause'), { code: 'ECONNRESET' })
      log.error('failed', { error: new RangeError('the message', { cause }) })`)
    expect(line).toMatchObject({
      error: {
        type: 'RangeError',
        message: 'the message',
        frames: expect.arrayContaining([expect.stringContaining('    at ')]),
        cause: { type: 'TypeError', code: 'ECONNRESET', message: 'the cause' },
      },
    })
  })

  it('the logger writes to its end what an operator must do', () => {
    const message = `S3_ACCESS_KEY_ID: may not list ${'objects '.repeat(30)}; grant s3:ListBucket there`
    const [line] = runAndReadLog(`
      const { StartFailure } = await import('#shared/runtime/start-process.ts')
      log.warn('cannot be used', { error: new StartFailure(${JSON.stringify(`${message}\na second line`)}) })`)
    expect(line).toMatchObject({ error: { message } })
  })

  describe('an error that contains secrets', () => {
    const secretExpressions: [string, string][] = [
      [
        'properties that libraries add to errors',
        `Object.assign(new Error('safe'), {
          query: 'canary', parameters: ['canary'], values: ['canary'], url: 'https://canary', body: { canary: 1 },
          request: { headers: { authorization: 'canary' } }, config: 'canary', detail: 'canary', stdout: 'canary' })`,
      ],
      ['lines after the first one of a message', `new Error('safe\\nURL: https://canary\\nRequest body: canary')`],
      ['lines of a message that look like frames', `new Error('safe\\n    at canary (file:///canary)')`],
      [
        'the properties of a cause',
        `new Error('safe', { cause: Object.assign(new Error('safe'), { url: 'canary' }) })`,
      ],
      ['the later lines of a cause’s message', `new Error('safe', { cause: new Error('safe\\ncanary') })`],
      ['a cause that is not an error', `new Error('safe', { cause: { secret: 'canary' } })`],
      ['a thrown string', `'canary'`],
      ['a thrown object', `({ message: 'canary', stack: 'canary' })`],
      ['the errors inside of an AggregateError', `new AggregateError([new Error('x\\ncanary')], 'safe')`],
      ['a code that is not a string', `Object.assign(new Error('safe'), { code: { canary: 1 } })`],
      ['a very long message', `new Error('x'.repeat(300) + 'canary')`],
    ]
    let lines: Record<string, unknown>[]
    beforeAll(() => {
      // Frames of evaluated code quote the program, so the canary is decoded only at run time.
      const encoded = secretExpressions.map(([, expression]) => Buffer.from(`(${expression})`).toString('base64'))
      lines = runAndReadLog(`for (const [count, expression] of ${JSON.stringify(encoded)}.entries()) {
        const error = (0, eval)(atob(expression))
        log.error('failed', { error, count })
        log.error('failed again', { error: new Error('outer', { cause: error }), count })
      }`)
    })

    it.each(secretExpressions.map(([name], index) => [name, index] as const))(
      'the log never contains %s',
      (_, index) => {
        const ofError = lines.filter(({ count }) => count === index)
        expect(ofError).toHaveLength(2)
        expect(JSON.stringify(ofError)).not.toContain('canary')
      },
    )
  })

  it('the logger adds the current request to every line that names none itself', () => {
    const lines = runAndReadLog(`
      const traced = createLogger({
        process: 'traced', level: 'debug', currentRequest: () => ({ requestId: 'present', traceId: 'trace' }),
      })
      traced.info('one')
      traced.warn('two', { requestId: 'own', count: 1 })
      const untraced = createLogger({
        process: 'untraced', level: 'debug', currentRequest: () => ({ requestId: 'present', traceId: null }),
      })
      untraced.warn('three')
      log.warn('four')`)
    expect(lines.map(({ msg, requestId, traceId }) => [msg, requestId, traceId])).toEqual([
      ['one', 'present', 'trace'],
      ['two', 'own', 'trace'],
      ['three', 'present', undefined],
      ['four', undefined, undefined],
    ])
    expect(lines[2]).not.toHaveProperty('traceId')
    expect(lines[3]).not.toHaveProperty('requestId')
  })
})

describe('lines before a process ends', () => {
  const startProcess = new URL('../../shared/runtime/start-process.ts', import.meta.url).href
  const start = `const { startProcess, StartFailure } = await import(${JSON.stringify(startProcess)})
    await startProcess('test', async () => {
      log.info('the last')
      throw new StartFailure('A_SETTING: unusable')
    })`

  it.each([
    ['of a process that has nothing left to do', "log.info('the last')", 0],
    ['of a process that exits', "log.info('the last'); process.exit(3)", 3],
    ['of a failed start', start, 1],
    ['of a process with an uncaught exception', "log.info('the last'); throw new Error('crash')", 1],
    ['of a process with an unhandled rejection', "log.info('the last'); Promise.reject(new Error('crash'))", 1],
  ])('the last log line %s is written', (_, code, status) => {
    const ended = spawnSync(process.execPath, programOf(code), { encoding: 'utf8' })
    expect(ended.status).toBe(status)
    expect(linesOf(ended.stdout)).toMatchObject([{ msg: 'the last' }])
  })

  it.each(['warn', 'error'])('a line at level %s is written immediately, after all lines before it', (level) => {
    const code = `log.info('first'); log.${level}('second'); process.kill(process.pid, 'SIGKILL')`
    const ended = spawnSync(process.execPath, programOf(code), { encoding: 'utf8' })
    expect(ended.signal).toBe('SIGKILL')
    expect(linesOf(ended.stdout)).toMatchObject([{ msg: 'first' }, { msg: 'second' }])
  })
})

describe('the logger', () => {
  it('a single line is written while the process continues without further lines', async () => {
    const running = spawn(process.execPath, programOf("log.info('alone'); setInterval(() => undefined, 60_000)"))
    try {
      const [line] = (await once(createInterface(running.stdout), 'line')) as [string]
      expect(JSON.parse(line)).toMatchObject({ msg: 'alone' })
      expect(running.exitCode).toBeNull()
    } finally {
      running.kill('SIGKILL')
    }
  })

  it('a process continues when the reader of its log is gone', async () => {
    const running = spawn(
      process.execPath,
      programOf("setInterval(() => { log.info('unread'); log.warn('unread'); console.error('alive') }, 10)"),
    )
    try {
      await once(running.stdout, 'data')
      running.stdout.destroy()
      for (let received = 0; received < 5; received += 1) await once(running.stderr, 'data')
      expect(running.exitCode).toBeNull()
    } finally {
      running.kill('SIGKILL')
    }
  })
})

const refuse = () => {
  throw new Error('too late')
}

describe('work with a deadline', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('returns its result or its error when it ends in time, and leaves no timer', async () => {
    await expect(withDeadline(1000, Promise.resolve('done'), refuse)).resolves.toBe('done')
    await expect(withDeadline(1000, Promise.reject(new Error('failed')), refuse)).rejects.toThrow('failed')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('returns or throws what its caller says when it takes longer, and may still fail then', async () => {
    const work = Promise.withResolvers<string>()
    const outcomes = Promise.allSettled([
      withDeadline(1000, work.promise, () => 'late'),
      withDeadline(1000, work.promise, refuse),
    ])
    await vi.advanceTimersByTimeAsync(1000)
    work.reject(new Error('failed afterwards'))
    expect(await outcomes).toEqual([
      { status: 'fulfilled', value: 'late' },
      { status: 'rejected', reason: new Error('too late') },
    ])
  })
})
