import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import type { JobDependencies } from '../../../workers/job/dependencies.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { handBackJobs } from '../../../workers/job/run-job.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import {
  routedTo,
  startTestWorker,
  type TestWorker,
  type TestWorkerDependencies,
} from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

let worker: TestWorker
/** Jobs that were enqueued, as `queue id`. */
let enqueued: string[]
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())
beforeEach(() => {
  enqueued = []
})

/** Returns dependencies of a worker that serves the given queues only, with a queue that records. */
function serving(...queues: QueueName[]): Pick<JobDependencies, 'serves' | 'queue' | 'leases'> {
  return {
    serves: new Set(queues),
    leases: createJobLeases(worker.dependencies),
    queue: {
      enqueue: async (jobId, queue) => {
        enqueued.push(`${queue} ${jobId}`)
      },
    },
  }
}

const calls = () => worker.upstream.calls.length

describe('a worker that serves transcriptions and no settlements', () => {
  it('a job is handed over once its result is stored, and a settler completes it without another call', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    await worker.run(jobId, serving('transcriptions'))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'generated',
      settlements: [],
      leased: false,
      deferred: false,
    })
    expect(enqueued).toEqual([`settlement ${jobId}`])
    await worker.run(jobId, serving('settlement'))
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
    expect(calls()).toBe(before + 1)
  })

  it('a worker that cannot enqueue the job releases it, and the sweeper may take it immediately', async () => {
    const { jobId } = await worker.accept()
    const gone = { enqueue: () => Promise.reject(new Error('the queue is gone')) }
    await worker.run(jobId, { ...serving('transcriptions'), queue: gone })
    expect(await worker.view(jobId)).toMatchObject({ state: 'generated', leased: false })
    const due = await worker.ledger.execution.takeDueJobs(['generated'], 10)
    expect(due).toEqual([{ id: jobId, operation: 'createTranscription', state: 'generated' }])
  })

  it('the sweeper does not take a job that was just handed over through the queue', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, serving('transcriptions'))
    expect((await worker.ledger.execution.takeDueJobs(['generated'], 100)).map(({ id }) => id)).not.toContain(jobId)
  })
})

it('a settler hands over a job whose provider was not called yet, without calling it', async () => {
  const { jobId } = await worker.accept()
  const before = calls()
  await worker.run(jobId, serving('settlement'))
  expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], leased: false })
  expect(enqueued).toEqual([`transcriptions ${jobId}`])
  expect(calls()).toBe(before)
})

it('a worker that serves both queues continues with the settlement itself', async () => {
  const { jobId } = await worker.accept()
  await worker.run(jobId, serving('transcriptions', 'settlement'))
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  expect(enqueued).toEqual([])
})

const pausing = (...paused: QueueName[]) => ({
  ...serving('transcriptions', 'settlement'),
  pausedQueues: new Set(paused),
})

describe('a queue that operators have paused', () => {
  it('keeps a job that was delivered before it was paused, without a provider call', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    await worker.run(jobId, pausing('transcriptions'))
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], leased: false, deferred: false })
    expect(enqueued).toEqual([`transcriptions ${jobId}`])
    expect(calls()).toBe(before)
  })

  it('lets a job that runs end its step, and keeps its next one', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, pausing('settlement'))
    expect(await worker.view(jobId)).toMatchObject({ state: 'generated', attempts: ['succeeded'], settlements: [] })
    expect(enqueued).toEqual([`settlement ${jobId}`])
    await worker.run(jobId)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  })
})

const drained = () => routedTo([{ ...worker.deployment, isDrained: true }], PATIENCE_MS)

describe('a model of which operators have drained every deployment', () => {
  it('defers its accepted jobs without a provider call, and completes them once a deployment is enabled', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    await worker.run(jobId, drained())
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true })
    expect(calls()).toBe(before)
    await worker.runNow(jobId)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
  })

  it('fails a job uncharged that has waited for longer than a job may wait for its start', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, drained())
    await worker.runDeferredFor(jobId, 301, drained())
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'work_not_started',
      failure_reason: 'deferred for too long: every deployment of the model is drained',
      attempts: [],
      settlements: [],
    })
  })

  it('makes no call with a deployment that is drained while the payment is checked again', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    const router = createRouter([worker.deployment], {
      now: () => new Date(),
      random: Math.random,
      maximumTimeoutMs: PATIENCE_MS,
    })
    const { verifier } = worker.dependencies
    await worker.run(jobId, {
      router,
      verifier: {
        ...verifier,
        verify: async (...input) => {
          router.apply([{ ...worker.deployment, isDrained: true }])
          return await verifier.verify(...input)
        },
      },
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true })
    expect(calls()).toBe(before)
  })
})

describe('a model of which a publication removed every deployment', () => {
  it('has its accepted jobs called by those that were removed, and fails a job that none served', async () => {
    const [served, unserved] = [await worker.accept(), await worker.accept()]
    const router = createRouter([], { now: () => new Date(), random: Math.random, maximumTimeoutMs: PATIENCE_MS })
    const asked: string[] = []
    const recallRemoved: TestWorkerDependencies['recallRemoved'] = ({ publicModel, acceptedAt }) => {
      asked.push(`${publicModel} ${acceptedAt.getTime() > 0}`)
      router.recall(publicModel, [worker.deployment])
      return Promise.resolve(true)
    }
    await worker.run(served.jobId, { router, recallRemoved })
    expect(await worker.view(served.jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true })
    await worker.runNow(served.jobId, { router, recallRemoved })
    expect(await worker.view(served.jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
    expect(asked).toEqual([`${worker.deployment.serves[0]} true`])
    router.apply([])
    await worker.run(unserved.jobId, { router })
    expect(await worker.view(unserved.jobId)).toMatchObject({ state: 'failed', failure_code: 'provider_unavailable' })
  })
})

/** Creates a router with one place at a deployment, which is taken until `release`. */
async function busyRouter({ longestWaitMs = PATIENCE_MS } = {}) {
  const busy = { ...worker.deployment, name: 'busy', maximumConcurrency: 1 }
  const router = createRouter([busy], {
    now: () => new Date(),
    random: Math.random,
    maximumTimeoutMs: PATIENCE_MS,
    longestWaitMs,
  })
  const job = { acceptedAt: new Date(), signal: AbortSignal.abort() }
  const held = router.candidates(worker.deployment.serves[0] ?? '', job)[Symbol.asyncIterator]()
  await held.next()
  return { busy, router, release: () => held.return?.() }
}

describe('a deployment that is withdrawn while the payment is checked again', () => {
  it('lets its job wait for one that is at its limit, instead of failing', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    const { busy, router, release } = await busyRouter()
    router.apply([busy, worker.deployment])
    const { verifier } = worker.dependencies
    const withdrawn = Promise.withResolvers<void>()
    const running = worker.run(jobId, {
      router,
      verifier: {
        ...verifier,
        verify: async (...input) => {
          router.apply([busy, { ...worker.deployment, isDrained: true }])
          withdrawn.resolve()
          return await verifier.verify(...input)
        },
      },
    })
    await withdrawn.promise
    expect(calls()).toBe(before)
    await release()
    await running
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
  })
})

describe('a model whose deployments are at their limits', () => {
  it('serves every one of many jobs that are ready in the same moment, and fails none', async () => {
    const { router } = routedTo([{ ...worker.deployment, maximumConcurrency: 2 }], PATIENCE_MS)
    const jobs = await Promise.all(Array.from({ length: 6 }, () => worker.accept()))
    const before = calls()
    const ready = Promise.withResolvers<void>()
    let screened = 0
    const screener = {
      screen: async () => {
        screened += 1
        await ready.promise
        return { outcome: 'passed' } as const
      },
    }
    const running = Promise.all(jobs.map(({ jobId }) => worker.run(jobId, { router, screener })))
    await until(() => screened === jobs.length)
    ready.resolve()
    await running
    const views = await Promise.all(jobs.map(({ jobId }) => worker.view(jobId)))
    expect(views.map(({ state, attempts }) => [state, attempts])).toEqual(jobs.map(() => ['completed', ['succeeded']]))
    expect(calls()).toBe(before + jobs.length)
  })

  it('defers a job that has waited in vain, without a failure, and completes it later', async () => {
    const { jobId } = await worker.accept()
    const { router, release } = await busyRouter({ longestWaitMs: 1 })
    await worker.run(jobId, { router })
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', leased: false, deferred: true, attempts: [] })
    await release()
    await worker.runNow(jobId, { router })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
  })

  it('fails a job uncharged that has waited for longer than a job may wait for its start', async () => {
    const { jobId } = await worker.accept()
    const { router } = await busyRouter({ longestWaitMs: 1 })
    await worker.run(jobId, { router })
    await worker.runDeferredFor(jobId, 301, { router })
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'work_not_started',
      failure_reason: 'deferred for too long: every deployment of the model is at its limits',
      charge_amount: null,
      attempts: [],
      settlements: [],
    })
  })

  it('fails a job uncharged whose authorization has become too short during the wait', async () => {
    const { jobId } = await worker.accept({ signed: { deadline: BigInt(Math.floor(Date.now() / 1000) + 30) } })
    const { router } = await busyRouter({ longestWaitMs: 1 })
    await worker.run(jobId, { router, providerTimeoutMs: 20_000, settlementMarginMs: 11_000 })
    expect(await worker.view(jobId)).toMatchObject({
      state: 'failed',
      failure_code: 'authorization_too_short',
      attempts: [],
      settlements: [],
    })
  })

  it('hands its waiting jobs over to other workers when its worker stops, as if they had not been delivered', async () => {
    const { jobId } = await worker.accept()
    const { router } = await busyRouter()
    const running = worker.run(jobId, { ...serving('transcriptions', 'settlement'), router })
    await until(async () => (await worker.view(jobId)).leased)
    router.stopWaiting()
    await running
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', leased: false, deferred: false, attempts: [] })
    expect(enqueued).toEqual([`transcriptions ${jobId}`])
    await worker.run(jobId)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
  })
})

/** Starts a run that is blocked in a step until `finish` is called. */
async function blockedIn(jobId: string, changes: (wait: () => Promise<void>) => Partial<TestWorkerDependencies>) {
  const reached = Promise.withResolvers<void>()
  const resume = Promise.withResolvers<void>()
  const dependencies = {
    ...worker.dependencies,
    ...serving('transcriptions', 'settlement'),
    ...changes(async () => {
      reached.resolve()
      await resume.promise
    }),
  }
  const running = worker.run(jobId, dependencies)
  await reached.promise
  return { dependencies, finish: async () => (resume.resolve(), await running) }
}

describe('a worker that must stop before its jobs are done', () => {
  it('a stopping worker hands back a settlement immediately, and its later steps change nothing', async () => {
    const { jobId } = await worker.accept()
    const { settler } = worker.dependencies
    const { dependencies, finish } = await blockedIn(jobId, (wait) => ({
      settler: {
        ...settler,
        broadcast: async (transaction) => {
          await wait()
          return await settler.broadcast(transaction)
        },
      },
    }))
    await handBackJobs(dependencies)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settling', leased: false, deferred: false })
    expect(enqueued).toEqual([`settlement ${jobId}`])
    await worker.run(jobId, serving('settlement'))
    const completed = await worker.view(jobId)
    expect(completed).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    await finish()
    expect(await worker.view(jobId)).toEqual(completed)
  })

  it('a stopping worker hands back a job before its provider call, and can no longer make that call', async () => {
    const { jobId } = await worker.accept()
    const { uploads } = worker.dependencies
    const before = calls()
    const { dependencies, finish } = await blockedIn(jobId, (wait) => ({
      uploads: {
        ...uploads,
        open: async (key) => {
          await wait()
          return await uploads.open(key)
        },
      },
    }))
    await handBackJobs(dependencies)
    expect(enqueued).toEqual([`transcriptions ${jobId}`])
    await finish()
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], leased: false })
    expect(calls()).toBe(before)
  })

  it('a stopping worker keeps a job in its provider call, whose outcome no other worker could learn', async () => {
    const { jobId } = await worker.accept()
    const { executionOf } = worker.dependencies
    const { dependencies, finish } = await blockedIn(jobId, (wait) => ({
      executionOf: (operationId) => ({
        ...executionOf(operationId),
        prepare: async (...input) => {
          const prepared = await executionOf(operationId).prepare(...input)
          return {
            call: async (deployment, options) => {
              await wait()
              return await prepared.call(deployment, options)
            },
          }
        },
      }),
    }))
    await handBackJobs(dependencies)
    expect(enqueued).toEqual([])
    expect(await worker.view(jobId)).toMatchObject({ state: 'generating', leased: true })
    await finish()
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
  })
})
