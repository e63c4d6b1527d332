import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { unavailable } from '../../../workers/providers/failures.ts'
import type { TextProvider } from '../../../workers/providers/provider.ts'
import { createRouter, type Router } from '../../../workers/providers/route.ts'

// The circuit breaker reads the system clock itself.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] })
})
afterEach(() => {
  vi.useRealTimers()
})

const portOf = (): TextProvider => ({ generateText: () => Promise.reject(new Error('not called')) })

const deployment = (name: string, changes: Partial<Deployment> = {}): Deployment => ({
  name,
  serves: ['model'],
  priority: 0,
  weight: 1,
  ...changes,
})

const routerOf = (deployments: readonly Deployment[]) =>
  createRouter(deployments, {
    now: () => new Date(),
    random: () => 0.5,
    maximumTimeoutMs: 270_000,
    failuresToOpen: 1,
    payersToOpen: 1,
    pauseMs: 10_000,
  })

const success = { outcome: 'produced' } as const
const PAYER = '0xpayer'

const names = (router: Router) => [...router.candidates('model')].map(({ deployment: { name } }) => name)

/** Starts a call on the first candidate and leaves it pending. */
function startCall(router: Router) {
  const { promise, resolve } = Promise.withResolvers<typeof success | ReturnType<typeof unavailable>>()
  for (const slot of router.candidates('model')) {
    const ended = slot.run(() => promise, PAYER)
    return {
      slot,
      end: async (outcome: typeof success | ReturnType<typeof unavailable> = success) => {
        resolve(outcome)
        await ended
      },
    }
  }
  throw new Error('no candidate')
}

const stateOf = (router: Router, name = 'a') => router.states().find((state) => state.name === name)

describe('deployments that are replaced', () => {
  test('a drained deployment gets no new call, and its calls in flight end as usual', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const call = startCall(router)
    router.apply([deployment('a', { isDrained: true }), deployment('b', { priority: 1 })])
    expect(names(router)).toEqual(['b'])
    expect(stateOf(router)).toMatchObject({ isDrained: true, isAvailable: false, activeCalls: 1 })
    await call.end()
    expect(stateOf(router)).toMatchObject({ activeCalls: 0 })
    router.apply([deployment('a'), deployment('b', { priority: 1 })])
    expect(names(router)).toEqual(['a', 'b'])
  })

  test('a slot that was reserved before its deployment was drained is withdrawn', () => {
    const router = routerOf([deployment('a')])
    for (const slot of router.candidates('model')) {
      expect(slot.isWithdrawn()).toBe(false)
      router.apply([deployment('a', { isDrained: true })])
      expect(slot.isWithdrawn()).toBe(true)
    }
    expect(stateOf(router)).toMatchObject({ activeCalls: 0, recentCalls: 0 })
  })

  test.each([
    ['is drained', [deployment('a'), deployment('b', { isDrained: true })]],
    ['is removed', [deployment('a')]],
    ['no longer serves the model', [deployment('a'), deployment('b', { serves: ['other'] })]],
  ])('a deployment that %s after the first candidate was yielded is not the next one', (_, changed) => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const yielded: string[] = []
    for (const slot of router.candidates('model')) {
      yielded.push(slot.deployment.name)
      router.apply(changed)
    }
    expect(yielded).toEqual(['a'])
  })

  test('a model of which every deployment is drained is drained, one without a deployment is not', () => {
    const router = routerOf([deployment('a', { isDrained: true }), deployment('b')])
    expect([router.isDrained('model'), router.countDeployments('model')]).toEqual([false, 1])
    router.apply([deployment('a', { isDrained: true }), deployment('b', { isDrained: true })])
    expect([router.isDrained('model'), router.countDeployments('model')]).toEqual([true, 0])
    router.apply([])
    expect([router.isDrained('model'), router.countDeployments('model')]).toEqual([false, 0])
  })

  test('the circuit of an unchanged upstream stays open, that of another one begins closed', async () => {
    const text = portOf()
    const router = routerOf([deployment('a', { text })])
    await startCall(router).end(unavailable('test'))
    router.apply([deployment('a', { text, weight: 7, priority: 3 })])
    expect(stateOf(router)).toMatchObject({ circuit: 'open', weight: 7 })
    router.apply([deployment('a', { text: portOf() })])
    expect(stateOf(router)).toMatchObject({ circuit: 'closed', isAvailable: true })
  })

  test('a call to a replaced upstream says nothing about the health of the new one', async () => {
    const router = routerOf([deployment('a', { text: portOf() })])
    const call = startCall(router)
    router.apply([deployment('a', { text: portOf() })])
    await call.end({ ...unavailable('test'), retryAfterSeconds: 60 })
    expect(stateOf(router)).toMatchObject({ circuit: 'closed', isAvailable: true, activeCalls: 0 })
  })

  test('calls in flight count against the limits of the replacement', async () => {
    const router = routerOf([deployment('a', { text: portOf() })])
    const calls = [startCall(router), startCall(router)]
    router.apply([deployment('a', { text: portOf(), maximumConcurrency: 2 })])
    expect(names(router)).toEqual([])
    await calls[0]?.end()
    expect(names(router)).toEqual(['a'])
    router.apply([deployment('a', { requestsPerMinute: 1 })])
    expect(names(router)).toEqual([])
  })

  test('a removed deployment is reported until its last call has ended, and counts them when it is published again', async () => {
    const router = routerOf([deployment('a')])
    const [first, second] = [startCall(router), startCall(router)]
    router.apply([])
    expect(stateOf(router)).toMatchObject({ activeCalls: 2 })
    await first.end()
    router.apply([deployment('a', { maximumConcurrency: 1 })])
    expect(names(router)).toEqual([])
    router.apply([])
    await second.end()
    expect(router.states()).toEqual([])
  })

  test('jobs that wait for the end of a call look again', async () => {
    const full = deployment('a', { maximumConcurrency: 1 })
    const router = routerOf([full])
    const call = startCall(router)
    const waiting = router.whenFree('model', new AbortController().signal)
    expect(waiting).not.toBeNull()
    router.apply([full, deployment('b')])
    await waiting
    expect(names(router)).toEqual(['b'])
    await call.end()
  })
})
