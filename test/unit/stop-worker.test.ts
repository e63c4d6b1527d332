import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { type RunningWorker, stopWorker } from '../../workers/stop-worker.ts'

const DRAIN_MS = 30_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A worker with one job, which stops. Notes what it does, in order. */
function stopping(sweepers: RunningWorker['sweepers'], noted: string[]): Promise<void> {
  const note = (what: string) => async () => void noted.push(what)
  const job = { id: 'job' } as LeasedJob
  const dependencies = {
    memory: { stopWaiting: () => undefined },
    router: { stopWaiting: () => undefined },
    leases: { jobs: () => [job] },
    executionStore: { handOverJob: async () => void noted.push('handed back') },
    close: note('closed'),
  } as unknown as RunningWorker['dependencies']
  const [consumer, slots] = [{ close: note('takes no jobs') }, { drain: note('drained') }]
  return stopWorker(
    {
      dependencies,
      consumer,
      slots,
      sweepers,
      reporting: { stop: note('gone') },
      metrics: { close: note('not scraped') },
    },
    DRAIN_MS,
  )
}

it('takes no more jobs and hands back those that it has although a sweep takes longer than the stop, and is scraped until then', async () => {
  const noted: string[] = []
  const stopped = stopping({ stop: () => new Promise(() => undefined) }, noted)
  await vi.advanceTimersByTimeAsync(0)
  expect(noted).toEqual(['takes no jobs', 'drained'])
  // DRAIN_SECONDS is for jobs, and covers the longest provider call.
  await vi.advanceTimersByTimeAsync(DRAIN_MS / 3)
  expect(noted).toEqual(['takes no jobs', 'drained', 'handed back', 'not scraped', 'gone', 'closed'])
  await stopped
})

it('lets a sweep end before it closes what that uses', async () => {
  const noted: string[] = []
  const sweep = async () => {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    noted.push('swept')
  }
  const stopped = stopping({ stop: sweep }, noted)
  await vi.advanceTimersByTimeAsync(1000)
  await stopped
  expect(noted).toEqual(['takes no jobs', 'drained', 'swept', 'handed back', 'not scraped', 'gone', 'closed'])
})
