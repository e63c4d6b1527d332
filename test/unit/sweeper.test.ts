import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { LogFields } from '#shared/runtime/logger.ts'
import { type Sweep, startSweepers, sweepIntervalMs } from '../../workers/sweepers/sweeper.ts'

const INTERVAL_MS = 1000
/** More rounds than any sweep here needs, so that one which never runs ends as well. */
const ROUNDS = 10

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Lets one sweep do all of its rounds, and returns the messages and counts that it logs. */
async function logOf(run: Sweep['run'], batch?: number): Promise<readonly (readonly [string, number | undefined])[]> {
  const logged: [string, number | undefined][] = []
  const log = (message: string, { count }: LogFields = {}) => void logged.push([message, count])
  const sweep = { name: 'swept', run, ...(batch === undefined ? {} : { batch }) }
  const sweepers = startSweepers([sweep], INTERVAL_MS, { info: log, warn: log, error: log })
  await vi.advanceTimersByTimeAsync(ROUNDS * INTERVAL_MS)
  await sweepers.stop()
  return logged
}

/** Runs one sweep that finds these numbers of items in turn, and nothing afterwards. Returns the counts that it logs. */
async function sweep(found: readonly number[], batch?: number): Promise<readonly (number | undefined)[]> {
  const remaining = [...found]
  return (await logOf(async () => remaining.shift() ?? 0, batch)).map(([, count]) => count)
}

it('a sweep goes on within its round while its batches are full', async () => {
  expect(await sweep([5, 5, 5, 2], 5)).toEqual([17])
})

it('a sweep whose last batch was full finds out that nothing is left', async () => {
  expect(await sweep([5, 5], 5)).toEqual([10])
})

it('a sweep without batches runs once in each round', async () => {
  expect(await sweep([5, 5, 2])).toEqual([5, 5, 2])
})

it('a sweep that fails in its second batch reports the items of the first one', async () => {
  let runs = 0
  const run = async () => {
    runs += 1
    if (runs === 2) throw new Error('the database is down')
    return runs === 1 ? 5 : 0
  }
  expect(await logOf(run, 5)).toEqual([
    ['swept failed', undefined],
    ['swept', 5],
  ])
})

it.each([
  [3000, 200],
  [15_000, 1000],
  [60_000, 1000],
])('with leases of %d ms sweeps run every %d ms', (leaseMs, intervalMs) => {
  expect(sweepIntervalMs(leaseMs)).toBe(intervalMs)
})
