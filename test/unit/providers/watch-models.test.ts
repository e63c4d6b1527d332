import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { LogFields } from '#shared/runtime/logger.ts'
import type { ModelStatus } from '../../../workers/providers/model-look-up.ts'
import { type ModelWatch, type ModelWatchDependencies, watchModels } from '../../../workers/providers/watch-models.ts'

const HOUR_MS = 3_600_000

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-11-22T12:00:00Z') })
  lines = []
})
afterEach(async () => {
  await watch?.stop()
  vi.useRealTimers()
})

let watch: ModelWatch | undefined
let lines: [string, string, LogFields | undefined][]
const logger = {
  info: (message: string, fields?: LogFields) => void lines.push(['info', message, fields]),
  warn: (message: string, fields?: LogFields) => void lines.push(['warn', message, fields]),
  error: (message: string, fields?: LogFields) => void lines.push(['error', message, fields]),
}

async function start(deployments: ReturnType<ModelWatchDependencies['deployments']>): Promise<ModelWatch> {
  watch = watchModels({ deployments: () => deployments, logger, now: () => new Date() })
  await vi.advanceTimersByTimeAsync(0)
  return watch
}

const LISTED: ModelStatus = { outcome: 'listed' }

const found = (status: ModelStatus, knownRetirement?: string) =>
  start([
    {
      name: 'a',
      lookUpModel: () => Promise.resolve(status),
      ...(knownRetirement === undefined ? {} : { knownRetirement: new Date(knownRetirement) }),
    },
  ])

describe('looking models up', () => {
  test('asks every vendor at start, and then daily', async () => {
    const lookUpModel = vi.fn(() => Promise.resolve(LISTED))
    const { models } = await start([{ name: 'a', lookUpModel, voices: { darian: 'id-1' } }, { name: 'b' }])
    expect(lookUpModel).toHaveBeenCalledExactlyOnceWith(['id-1'], expect.objectContaining({ timeoutMs: 10_000 }))
    expect(models()).toMatchObject([{ deployment: 'a', status: LISTED }])
    await vi.advanceTimersByTimeAsync(23 * HOUR_MS)
    expect(lookUpModel).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(HOUR_MS)
    expect(lookUpModel).toHaveBeenCalledTimes(2)
    expect(lines).toEqual([])
  })

  test('asks a vendor that did not answer again after an hour', async () => {
    const lookUpModel = vi.fn<() => Promise<ModelStatus>>(() => Promise.resolve(LISTED))
    lookUpModel.mockResolvedValueOnce({ outcome: 'unknown', reason: 'HTTP 500' })
    const { models } = await start([{ name: 'a', lookUpModel }])
    expect(lines).toEqual([['info', 'could not look the model up', { deployment: 'a', reason: 'HTTP 500' }]])
    await vi.advanceTimersByTimeAsync(HOUR_MS)
    expect(models()).toMatchObject([{ status: LISTED }])
    await vi.advanceTimersByTimeAsync(2 * HOUR_MS)
    expect(lookUpModel).toHaveBeenCalledTimes(2)
  })

  test('asks a vendor that does not list models of this kind again after a day', async () => {
    const lookUpModel = vi.fn<() => Promise<ModelStatus>>(() =>
      Promise.resolve({ outcome: 'unknown', reason: 'unlisted', isUnlisted: true }),
    )
    await start([{ name: 'a', lookUpModel }])
    await vi.advanceTimersByTimeAsync(23 * HOUR_MS)
    expect(lookUpModel).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(HOUR_MS)
    expect(lookUpModel).toHaveBeenCalledTimes(2)
  })

  test('a vendor that never answers delays neither the start nor the stop', async () => {
    const lookUpModel = vi.fn(
      (_voices: readonly string[], { signal }: { signal?: AbortSignal }) =>
        new Promise<ModelStatus>((resolve) => {
          signal?.addEventListener('abort', () => resolve({ outcome: 'unknown', reason: 'aborted by the caller' }))
        }),
    )
    const { models, stop } = await start([
      { name: 'hanging', lookUpModel },
      { name: 'b', lookUpModel: () => Promise.resolve(LISTED) },
    ])
    expect(models()).toMatchObject([{ deployment: 'b' }])
    await stop()
    expect(models()).toMatchObject([{ deployment: 'b' }])
    expect(lines).toEqual([])
  })
})

describe('reports to operators', () => {
  test('a model that the vendor does not have is an error', async () => {
    await found({ outcome: 'missing' })
    expect(lines).toEqual([['error', 'the vendor does not have the model', { deployment: 'a' }]])
  })

  test.each([
    ['2026-12-21', 1],
    ['2026-11-01', 1],
    ['2027-01-14', 0],
  ])('a model that retires on %s causes %d warnings', async (day, count) => {
    await found({ outcome: 'listed', retiresAt: new Date(day) })
    const warning = ['warn', 'the vendor retires the model', { deployment: 'a', reason: `on ${day}` }]
    expect(lines).toEqual(count === 0 ? [] : [warning])
  })

  test('a retirement that is known without the vendor counts, and the vendor’s own date comes first', async () => {
    const { models } = await found(LISTED, '2026-12-01')
    expect(models()[0]?.retiresAt).toEqual(new Date('2026-12-01'))
    await watch?.stop()
    const later = await found({ outcome: 'listed', retiresAt: new Date('2027-03-01') }, '2026-12-01')
    expect(later.models()[0]?.retiresAt).toEqual(new Date('2027-03-01'))
  })

  test('voices that the account does not have are an error', async () => {
    await found({ outcome: 'listed', missingVoices: ['one', 'another'] })
    expect(lines).toEqual([['error', 'the vendor’s account does not have all voices', { deployment: 'a', count: 2 }]])
  })
})
