import { expect, it } from 'vitest'
import type { LogFields } from '#shared/runtime/logger.ts'
import { startSweepers } from '../../workers/sweepers/sweeper.ts'

/**
 * Runs one sweep that finds these numbers of items in turn, and nothing afterwards. Returns the counts that it logs.
 */
async function sweep(found: readonly number[], batch?: number): Promise<readonly (number | undefined)[]> {
  const remaining = [...found]
  const logged: (number | undefined)[] = []
  const finished = Promise.withResolvers<void>()
  const log = (_: string, { count }: LogFields = {}) => void logged.push(count)
  const run = async () => {
    const count = remaining.shift() ?? 0
    if (count === 0) finished.resolve()
    return count
  }
  const logger = { info: log, warn: log, error: log }
  const sweepers = startSweepers([{ name: 'swept', run, ...(batch === undefined ? {} : { batch }) }], 1, logger)
  await finished.promise
  await sweepers.stop()
  return logged
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
  const logged: [string, number | undefined][] = []
  const finished = Promise.withResolvers<void>()
  const log = (message: string, { count }: LogFields = {}) => {
    logged.push([message, count])
    if (count !== undefined) finished.resolve()
  }
  const run = async () => {
    runs += 1
    if (runs === 2) throw new Error('the database is down')
    return runs === 1 ? 5 : 0
  }
  const sweepers = startSweepers([{ name: 'swept', batch: 5, run }], 1, { info: log, warn: log, error: log })
  await finished.promise
  await sweepers.stop()
  expect(logged).toEqual([
    ['swept failed', undefined],
    ['swept', 5],
  ])
})
