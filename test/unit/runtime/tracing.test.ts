import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createTracer, noTracing, type RecordedSpan, type SpanRecorder } from '#shared/runtime/tracing.ts'

/** Records `parent > name` of each span when it ends, with what it was told. */
function createRecorder() {
  const ended: { path: string; attributes: object; thrown: unknown }[] = []
  const span = (path: string, given: object): RecordedSpan => {
    const attributes = { ...given }
    return {
      traceId: 't'.repeat(32),
      traceparent: `traceparent of ${path}`,
      startChild: (name, more) => span(`${path} > ${name}`, more),
      describe: (more) => void Object.assign(attributes, more),
      end: (thrown) => void ended.push({ path, attributes, thrown }),
    }
  }
  const recorder: SpanRecorder = {
    startRequest: (name, attributes) => span(name, attributes),
    startJob: (traceparent, name, attributes) => span(`(${traceparent}) > ${name}`, attributes),
    close: async () => undefined,
  }
  return { recorder, ended, paths: () => ended.map(({ path }) => path) }
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

describe('a traced request', () => {
  it('has its stages as children, each below the one it runs in', async () => {
    const { recorder, paths, ended } = createRecorder()
    const tracer = createTracer(recorder, createObserver())
    const request = tracer.startRequest('request-1', 'POST /v1', 'createSpeech')
    await request.run(async () => {
      await tracer.stage('validate', async () => tracer.describe({ model: 'voice' }))
      await tracer.stage('settle', () => tracer.stage('commit', () => delay(1)), { transaction: '0x1' })
    })
    request.end({ status: 200 })
    expect(paths()).toEqual(['POST /v1 > validate', 'POST /v1 > settle > commit', 'POST /v1 > settle', 'POST /v1'])
    expect(ended.map(({ attributes }) => attributes)).toEqual([
      { model: 'voice' },
      {},
      { transaction: '0x1' },
      { requestId: 'request-1', operation: 'createSpeech', status: 200 },
    ])
  })

  it('is kept apart from others at the same time', async () => {
    const { recorder, paths } = createRecorder()
    const tracer = createTracer(recorder, createObserver())
    const run = (name: string, ms: number) =>
      tracer.startRequest(name, name, 'o').run(async () => {
        await delay(ms)
        await tracer.stage('quote', () => delay(ms))
        return tracer.present()?.requestId
      })
    expect(await Promise.all([run('first', 4), run('second', 2)])).toEqual(['first', 'second'])
    expect(paths().sort()).toEqual(['first > quote', 'second > quote'])
    expect(tracer.present()).toBeNull()
  })

  it('is named to its job as a whole, whatever stage it is in', async () => {
    const tracer = createTracer(createRecorder().recorder, createObserver())
    const accepted = await tracer
      .startRequest('request-1', 'POST /v1', 'o')
      .run(() => tracer.stage('accept', async () => tracer.present()))
    expect(accepted).toEqual({
      requestId: 'request-1',
      traceparent: 'traceparent of POST /v1',
      traceId: 't'.repeat(32),
    })
  })

  it('goes on in the worker with the job’s wait and its run', async () => {
    const { recorder, paths, ended } = createRecorder()
    const observer = createObserver()
    const tracer = createTracer(recorder, observer)
    const origin = { requestId: 'request-1', traceparent: 'traceparent of POST /v1' }
    await tracer.continueRequest({ ...JOB, origin }, async () => {
      expect(tracer.present()).toMatchObject(origin)
      await tracer.stage('seal', async () => undefined)
    })
    const parent = '(traceparent of POST /v1)'
    expect(paths()).toEqual([`${parent} > queue`, `${parent} > run job > seal`, `${parent} > run job`])
    expect(ended.at(-1)?.attributes).toEqual({
      requestId: 'request-1',
      jobId: 'job',
      operation: 'createSpeech',
      model: 'voice',
      fence: '2',
    })
    expect(observer.seen).toEqual([
      'begun queue',
      'ended queue of createSpeech',
      'begun seal',
      'ended seal of createSpeech',
    ])
  })

  it('tells which stage threw, and passes it on', async () => {
    const { recorder, ended } = createRecorder()
    const observer = createObserver()
    const tracer = createTracer(recorder, observer)
    const failure = new Error('refused')
    const run = tracer.startRequest('r', 'POST /v1', 'o').run(() =>
      tracer.stage('verify', async () => {
        throw failure
      }),
    )
    await expect(run).rejects.toBe(failure)
    expect(ended).toEqual([{ path: 'POST /v1 > verify', attributes: {}, thrown: failure }])
    expect(observer.seen).toEqual(['begun verify', 'ended verify of o'])
  })
})

describe('without a recorder', () => {
  it('requests are known and stages are measured all the same', async () => {
    const observer = createObserver()
    const tracer = createTracer(null, observer)
    const origin = { requestId: 'request-1', traceparent: '00-a-b-01' }
    await tracer.continueRequest({ ...JOB, origin }, async () => {
      expect(tracer.present()).toEqual({ ...origin, traceId: null })
      await tracer.stage('seal', async () => undefined)
    })
    const request = tracer.startRequest('request-2', 'POST /v1', 'o')
    expect(request.run(() => tracer.present())).toEqual({ requestId: 'request-2', traceparent: null, traceId: null })
    request.end({ status: 200 })
    expect(observer.seen).toHaveLength(4)
  })

  it('and without an observer, work is only run', async () => {
    const job = { ...JOB, origin: { requestId: null, traceparent: null } }
    expect(await noTracing.continueRequest(job, async () => 1)).toBe(1)
    expect(await noTracing.stage('seal', async () => 2)).toBe(2)
    expect(noTracing.startRequest('r', 'n', 'o').run(() => 3)).toBe(3)
    expect(noTracing.present()).toBeNull()
  })
})
