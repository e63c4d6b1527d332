import { expect, it } from 'vitest'
import { createJobPlaces } from '../../../workers/job/job-places.ts'

/** Starts a run that ends when the test says so. */
function startRun(places: ReturnType<typeof createJobPlaces>) {
  const work = Promise.withResolvers<void>()
  const started = Promise.withResolvers<() => void>()
  const settled = places.run(async (releasePlace) => {
    started.resolve(releasePlace)
    await work.promise
  })
  return { release: async () => (await started.promise)(), end: work.resolve, fail: work.reject, settled }
}

/** Returns whether a promise settles without anything else happening. */
async function isSettled(promise: Promise<void>): Promise<boolean> {
  const turn = new Promise<false>((resolve) => setImmediate(resolve, false))
  return await Promise.race([promise.then(() => true), turn])
}

const silent = { error: () => undefined }

it('frees the place of a job that only waits, and drains once the job has ended', async () => {
  const places = createJobPlaces(silent)
  const run = startRun(places)
  await run.release()
  await run.release()
  await run.settled
  const drained = places.drain(3_600_000)
  expect(await isSettled(drained)).toBe(false)
  run.end()
  await drained
  await places.drain(3_600_000)
})

it('stops draining at the deadline', async () => {
  const places = createJobPlaces(silent)
  const run = startRun(places)
  await run.release()
  await run.settled
  await places.drain(1)
})

it('keeps the place of a job that would be one too many without one', async () => {
  const places = createJobPlaces(silent, 1)
  const [first, second] = [startRun(places), startRun(places)]
  await first.release()
  await first.settled
  await second.release()
  expect(await isSettled(second.settled)).toBe(false)
  second.end()
  await second.settled
})

it('rejects for a job that fails with its place, and logs the failure of one without', async () => {
  const logged: unknown[] = []
  const places = createJobPlaces({ error: (_, fields) => void logged.push(fields?.error) })
  const [held, released] = [startRun(places), startRun(places)]
  held.fail(new Error('with its place'))
  await expect(held.settled).rejects.toThrow('with its place')
  await released.release()
  await released.settled
  released.fail(new Error('without'))
  await places.drain(3_600_000)
  expect(logged).toEqual([new Error('without')])
})
