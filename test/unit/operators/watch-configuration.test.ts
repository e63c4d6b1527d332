import { describe, expect, it } from 'vitest'
import type { Configuration } from '#shared/operators/configuration.ts'
import { watchConfiguration } from '#shared/operators/watch-configuration.ts'
import type { Logger } from '#shared/runtime/logger.ts'

const configurationOf = (revision: bigint): Configuration => ({
  revision,
  catalog: { number: 0n, overrides: { models: {} } },
  deployments: { number: 1n, file: { deployments: [] } },
  controls: new Map(),
  pausedQueues: new Set(),
})

/** A watch over a configuration that the test changes. */
function startWatch(first: bigint | null) {
  const state = { revision: first, isReachable: true, isUsable: true, readings: 0, polls: 0, prepared: 0 }
  const [applied, errors]: [bigint[], unknown[]] = [[], []]
  const logger: Logger = { info: () => undefined, warn: () => undefined, error: (message) => void errors.push(message) }
  const requireReachable = () => {
    if (!state.isReachable) throw new Error('unreachable')
  }
  const watch = watchConfiguration({
    reader: {
      readRevision: async () => {
        state.polls += 1
        requireReachable()
        return state.revision ?? 0n
      },
      readConfiguration: async () => {
        state.readings += 1
        return state.revision === null ? null : configurationOf(state.revision)
      },
    },
    prepare: async () => {
      requireReachable()
      state.prepared += 1
    },
    apply: async ({ revision }) => {
      if (!state.isUsable) throw new Error('not usable')
      applied.push(revision)
    },
    logger,
    pollMs: 1,
  })
  return { state, applied, errors, watch }
}

describe('the watch of the configuration', () => {
  it('applies what is in force at the start, and each change once', async () => {
    const { state, applied, watch } = startWatch(3n)
    await watch.firstPoll
    expect(watch.appliedRevision()).toBe(3n)
    state.revision = 5n
    await expect.poll(() => watch.appliedRevision()).toBe(5n)
    const { polls } = state
    await expect.poll(() => state.polls).toBeGreaterThan(polls + 5)
    await watch.close()
    expect(applied).toEqual([3n, 5n])
    expect(state.readings).toBe(2)
    expect(state.prepared).toBe(1)
  })

  it('applies nothing before the first publication', async () => {
    const { state, applied, watch } = startWatch(null)
    await watch.firstPoll
    expect(watch.appliedRevision()).toBeNull()
    state.revision = 1n
    await expect.poll(() => applied).toEqual([1n])
    await watch.close()
  })

  it('keeps the last configuration while the database is out, and reports it once', async () => {
    const { state, applied, errors, watch } = startWatch(1n)
    await watch.firstPoll
    state.isReachable = false
    const { polls } = state
    await expect.poll(() => state.polls).toBeGreaterThan(polls + 5)
    expect(watch.appliedRevision()).toBe(1n)
    expect(errors).toHaveLength(1)
    Object.assign(state, { isReachable: true, revision: 2n })
    await expect.poll(() => applied).toEqual([1n, 2n])
    await watch.close()
  })

  it('prepares again until the database can be reached', async () => {
    const { state, watch } = startWatch(1n)
    await watch.close()
    const late = startWatch(1n)
    late.state.isReachable = false
    expect(state.prepared).toBe(1)
    await late.watch.firstPoll
    late.state.isReachable = true
    await expect.poll(() => late.watch.appliedRevision()).toBe(1n)
    await late.watch.close()
  })

  it('a configuration that cannot be applied leaves the last one in force and is tried again', async () => {
    const { state, errors, watch } = startWatch(1n)
    await watch.firstPoll
    Object.assign(state, { isUsable: false, revision: 2n })
    await expect.poll(() => errors.length).toBe(1)
    expect(watch.appliedRevision()).toBe(1n)
    state.isUsable = true
    await expect.poll(() => watch.appliedRevision()).toBe(2n)
    await watch.close()
  })
})
