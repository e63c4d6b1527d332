import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import { handBackJobs, type RunJobDependencies } from '../../../workers/job/run-job.ts'
import { startTestWorker, type TestWorker, type TestWorkerDependencies } from '../../support/processes/test-worker.ts'

let worker: TestWorker
/** What was enqueued, as `queue id`. */
let enqueued: string[]
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())
beforeEach(() => {
  enqueued = []
})

/** A process that serves some queues only, with a queue that records. */
function serving(...queues: QueueName[]): Pick<RunJobDependencies, 'serves' | 'queue' | 'held'> {
  return {
    serves: new Set(queues),
    held: new Set(),
    queue: {
      enqueue: async (jobId, queue) => {
        enqueued.push(`${queue} ${jobId}`)
      },
    },
  }
}

const calls = () => worker.upstream.calls.length

describe('a worker that serves transcriptions and no settlements', () => {
  it('hands the job over once its result is stored, and a settler completes it without another call', async () => {
    const { jobId } = await worker.accept()
    const before = calls()
    await worker.run(jobId, serving('transcriptions'))
    expect(await worker.view(jobId)).toMatchObject({
      state: 'generated',
      settlements: [],
      leased: false,
      put_off: false,
    })
    expect(enqueued).toEqual([`settlement ${jobId}`])
    await worker.run(jobId, serving('settlement'))
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
    expect(calls()).toBe(before + 1)
  })

  it('leaves the job to the sweeper at once when the queue is gone', async () => {
    const { jobId } = await worker.accept()
    const gone = { enqueue: () => Promise.reject(new Error('the queue is gone')) }
    await worker.run(jobId, { ...serving('transcriptions'), queue: gone })
    expect(await worker.view(jobId)).toMatchObject({ state: 'generated', leased: false })
    const due = await worker.ledger.execution.takeDueJobs(['generated'], 10)
    expect(due).toEqual([{ id: jobId, operation: 'createTranscription', state: 'generated' }])
  })

  it('is not given the job again by the sweeper while the queue has it', async () => {
    const { jobId } = await worker.accept()
    await worker.run(jobId, serving('transcriptions'))
    expect((await worker.ledger.execution.takeDueJobs(['generated'], 100)).map(({ id }) => id)).not.toContain(jobId)
  })
})

it('a settler hands a job over that is still to be carried out, and calls nobody', async () => {
  const { jobId } = await worker.accept()
  const before = calls()
  await worker.run(jobId, serving('settlement'))
  expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], leased: false })
  expect(enqueued).toEqual([`transcriptions ${jobId}`])
  expect(calls()).toBe(before)
})

it('a worker that serves both goes on in place', async () => {
  const { jobId } = await worker.accept()
  await worker.run(jobId, serving('transcriptions', 'settlement'))
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  expect(enqueued).toEqual([])
})

/** Starts a run that stays in its step until the returned function is called. */
async function stuckIn(jobId: string, changes: (wait: () => Promise<void>) => Partial<TestWorkerDependencies>) {
  const reached = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  const dependencies = {
    ...worker.dependencies,
    ...serving('transcriptions', 'settlement'),
    ...changes(async () => {
      reached.resolve()
      await goOn.promise
    }),
  }
  const running = worker.run(jobId, dependencies)
  await reached.promise
  return { dependencies, finish: async () => (goOn.resolve(), await running) }
}

describe('when a worker must stop before its jobs are done', () => {
  it('a settlement is handed back at once, and what the worker still does changes nothing', async () => {
    const { jobId } = await worker.accept()
    const { settler } = worker.dependencies
    const { dependencies, finish } = await stuckIn(jobId, (wait) => ({
      settler: {
        ...settler,
        broadcast: async (transaction) => {
          await wait()
          return await settler.broadcast(transaction)
        },
      },
    }))
    await handBackJobs(dependencies)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settling', leased: false, put_off: false })
    expect(enqueued).toEqual([`settlement ${jobId}`])
    await worker.run(jobId, serving('settlement'))
    const completed = await worker.view(jobId)
    expect(completed).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    await finish()
    expect(await worker.view(jobId)).toEqual(completed)
  })

  it('a job before its call is handed back, and the worker cannot call for it any more', async () => {
    const { jobId } = await worker.accept()
    const { uploads } = worker.dependencies
    const before = calls()
    const { dependencies, finish } = await stuckIn(jobId, (wait) => ({
      uploads: {
        get: async (key) => {
          await wait()
          return await uploads.get(key)
        },
      },
    }))
    await handBackJobs(dependencies)
    expect(enqueued).toEqual([`transcriptions ${jobId}`])
    await finish()
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], leased: false })
    expect(calls()).toBe(before)
  })

  it('a job in its provider call is kept: nobody else could learn the outcome', async () => {
    const { jobId } = await worker.accept()
    const { executionOf } = worker.dependencies
    const { dependencies, finish } = await stuckIn(jobId, (wait) => ({
      executionOf: (operationId) => ({
        ...executionOf(operationId),
        prepare: async (input) => {
          const prepared = await executionOf(operationId).prepare(input)
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
