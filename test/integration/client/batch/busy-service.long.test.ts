import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type BatchFolder, makeBatchFolder } from './support/batch-bench.ts'

const NAMES = Array.from({ length: 8 }, (_, index) => `${index}.mp3`)
let sandbox: SharedSandbox
let batch: BatchFolder

beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(async () => {
  await sandbox.stop()
})
beforeEach(async () => {
  batch = await makeBatchFolder(sandbox)
  await batch.record(NAMES)
})
afterEach(async () => {
  await batch.remove()
})

/** Returns a `fetch` whose first uploads are answered by something before the service. */
function withFirstUploads(count: number, answer: () => Response | Promise<Response>): typeof fetch {
  let left = count
  return async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : String(input))
    if (pathname !== '/v1/audio/transcriptions' || left <= 0) return await fetch(input, init)
    left -= 1
    return await answer()
  }
}

const overloaded = () =>
  Response.json(
    { error: { code: 'overloaded', message: 'Busy.', payment: 'none', retry: 'same_request' } },
    { status: 503, headers: { 'retry-after': '1' } },
  )

describe('a batch and a service that is busy', () => {
  it('sends less at a time while uploads are turned away, and more again afterwards', async () => {
    const { outcome, events } = await batch.run({ concurrency: 4 }, { fetch: withFirstUploads(4, overloaded) })
    expect(outcome).toMatchObject({ finished: 8, failed: 0, charged: 8n * 5034n })
    const limits = events.flatMap((event) => (event.event === 'concurrency' ? [[event.concurrency, event.reason]] : []))
    expect(limits.slice(0, 2)).toEqual([
      [2, 'overloaded'],
      [3, 'recovered'],
    ])
    expect(events.filter(({ event }) => event === 'waiting')).toHaveLength(4)
  })

  it('ends when the service stays away for longer than its patience, and says so once', async () => {
    const away = withFirstUploads(Number.POSITIVE_INFINITY, () => Promise.reject(new TypeError('fetch failed')))
    const { outcome, events } = await batch.run({ concurrency: 2, patienceMs: 0 }, { fetch: away })
    expect(outcome).toMatchObject({ finished: 0, stoppedBy: 'service', stopError: { code: 'connection_lost' } })
    expect(outcome.failed).toBeLessThanOrEqual(2)
    expect(outcome.notBegun).toBe(8 - outcome.failed)
    expect(events.filter(({ event }) => event === 'stopping')).toHaveLength(1)
    expect((await batch.run()).outcome).toMatchObject({ finished: 8, charged: 8n * 5034n })
  })
})
