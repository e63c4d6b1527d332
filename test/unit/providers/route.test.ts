import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import type { ProviderFailure } from '../../../workers/providers/provider.ts'
import { createRouter, type Router } from '../../../workers/providers/route.ts'
import { unserviceable } from '../../../workers/providers/unserviceable.ts'

// The circuit breaker reads the system clock itself.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] })
})
afterEach(() => {
  vi.useRealTimers()
})

const passes = (milliseconds: number) => vi.setSystemTime(Date.now() + milliseconds)

const deployment = (name: string, changes: Partial<Deployment> = {}): Deployment => ({
  name,
  serves: ['model'],
  priority: 0,
  weight: 1,
  ...changes,
})

const routerOf = (deployments: readonly Deployment[], random: () => number = () => 0.5) =>
  createRouter(deployments, {
    now: () => new Date(),
    random,
    maximumTimeoutMs: 270_000,
    failuresToOpen: 3,
    payersToOpen: 3,
    pauseMs: 10_000,
  })

const names = (router: Router, model = 'model') =>
  [...router.candidates(model)].map(({ deployment }) => deployment.name)

const failure = (code: ProviderFailure['code'], changes: Partial<ProviderFailure> = {}): ProviderFailure => ({
  outcome: 'failed',
  certainty: code === 'provider_outcome_unknown' ? 'ambiguous' : 'definite',
  code,
  reason: 'test',
  ...changes,
})
const success = { outcome: 'produced' } as const

const PAYER = '0xpayer'

/** Runs the first candidate; `undefined` when there is none. */
async function callOnce<Outcome extends { readonly outcome: string }>(
  router: Router,
  outcome: Outcome,
  payer: string = PAYER,
) {
  for (const slot of router.candidates('model')) return slot.run(async () => outcome, payer)
  return undefined
}

const circuitOf = (router: Router) => router.states()[0]?.circuit

/** Returns the first candidate's name and leaves the loop without running it. */
function peekFirst(router: Router): string | undefined {
  for (const slot of router.candidates('model')) return slot.deployment.name
  return undefined
}

/** Starts a call on the first candidate and leaves it pending. */
function startCall(router: Router, outcome: typeof success | ProviderFailure = success) {
  const { promise, resolve } = Promise.withResolvers<typeof outcome>()
  for (const slot of router.candidates('model')) {
    const ended = slot.run(() => promise, PAYER)
    return {
      end: async () => {
        resolve(outcome)
        await ended
      },
    }
  }
  return undefined
}

describe('order', () => {
  test('yields only deployments that serve the model, lowest priority first', () => {
    const router = routerOf([
      deployment('third', { priority: 7 }),
      deployment('first'),
      deployment('elsewhere', { serves: ['other'] }),
      deployment('second', { priority: 1 }),
    ])
    expect(names(router)).toEqual(['first', 'second', 'third'])
    expect(names(router, 'other')).toEqual(['elsewhere'])
    expect(names(router, 'nobody’s')).toEqual([])
  })

  test('within one priority the weights determine how often each deployment is first', () => {
    let seed = 1
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const router = routerOf(
      [deployment('a', { weight: 3 }), deployment('b'), deployment('spare', { priority: 1 })],
      random,
    )
    const firsts = Array.from({ length: 4000 }, () => names(router))
    const share = firsts.filter(([first]) => first === 'a').length / firsts.length
    expect(share).toBeGreaterThan(0.72)
    expect(share).toBeLessThan(0.78)
    expect(firsts.every((order) => order.length === 3 && order[2] === 'spare')).toBe(true)
  })

  test('checks and reserves a deployment only when it is requested', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const seen: unknown[] = []
    for (const slot of router.candidates('model')) {
      seen.push([slot.deployment.name, ...router.states().map(({ activeCalls }) => activeCalls)])
      await slot.run(async () => failure('provider_unavailable'), PAYER)
    }
    expect(seen).toEqual([
      ['a', 1, 0],
      ['b', 0, 1],
    ])
  })
})

describe('time limit', () => {
  test.each([
    [undefined, 270_000],
    [30_000, 30_000],
    [400_000, 270_000],
  ])('a deployment with a timeout of %s ms gets %d ms', async (timeoutMs, expected) => {
    const router = routerOf([deployment('a', timeoutMs === undefined ? {} : { timeoutMs })])
    const given: number[] = []
    for (const slot of router.candidates('model')) {
      await slot.run(async (limitMs) => {
        given.push(limitMs)
        return success
      }, PAYER)
    }
    expect(given).toEqual([expected])
  })
})

describe('concurrency', () => {
  test('skips a deployment at its concurrency limit until a call ends', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 2 }), deployment('b', { priority: 1 })])
    const first = startCall(router)
    startCall(router)
    expect(names(router)).toEqual(['b'])
    await first?.end()
    expect(names(router)).toEqual(['a', 'b'])
  })

  test('wakes those that wait for a full deployment in order, one for each call that ends', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 })])
    const { signal } = new AbortController()
    expect(router.whenFree('model', signal)).toBeNull()
    let current = startCall(router)
    const served: string[] = []
    const waiting = ['first', 'second'].map(async (name) => {
      await router.whenFree('model', signal)
      served.push(name)
      current = startCall(router)
    })
    await current?.end()
    await expect.poll(() => served).toEqual(['first'])
    await current?.end()
    await Promise.all(waiting)
    expect(served).toEqual(['first', 'second'])
  })

  test('lets nobody wait for a deployment that would not be called anyway', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 })])
    const { signal } = new AbortController()
    const call = startCall(router, failure('provider_unavailable', { retryAfterSeconds: 30 }))
    const [one, other] = [router.whenFree('model', signal), router.whenFree('model', signal)]
    await call?.end()
    await one
    await other
    expect(router.whenFree('model', signal)).toBeNull()
  })

  test('lets nobody wait while another deployment could be called, and ends a wait when its signal aborts', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 }), deployment('b', { priority: 1 })])
    const aborted = new AbortController()
    startCall(router)
    expect(router.whenFree('model', aborted.signal)).toBeNull()
    const single = routerOf([deployment('a', { maximumConcurrency: 1 })])
    const call = startCall(single)
    const abandoned = single.whenFree('model', aborted.signal)
    const next = single.whenFree('model', new AbortController().signal)
    aborted.abort()
    await abandoned
    await call?.end()
    await next
  })

  test('releases an unused reservation, however the loop ends', () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1, requestsPerMinute: 1 })])
    peekFirst(router)
    expect(() => {
      for (const { deployment } of router.candidates('model')) throw new Error(`stale at ${deployment.name}`)
    }).toThrow('stale at a')
    expect(names(router)).toEqual(['a'])
    expect(router.states()).toEqual([
      {
        name: 'a',
        circuit: 'closed',
        activeCalls: 0,
        recentCalls: 0,
        isAvailable: true,
        isDrained: false,
        weight: 1,
      },
    ])
  })

  test('a call that throws releases its reservation', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 })])
    for (const slot of router.candidates('model')) {
      await expect(slot.run(() => Promise.reject(new Error('defect')), PAYER)).rejects.toThrow('defect')
    }
    expect(names(router)).toEqual(['a'])
  })

  test('a slot runs only once, and not after its iteration', async () => {
    const router = routerOf([deployment('a')])
    const slots = []
    for (const slot of router.candidates('model')) {
      slots.push(slot)
      await slot.run(async () => success, PAYER)
      await expect(slot.run(async () => success, PAYER)).rejects.toThrow('once')
    }
    for (const slot of router.candidates('model')) slots.push(slot)
    await expect(slots[1]?.run(async () => success, PAYER)).rejects.toThrow('within its iteration')
  })
})

describe('requests per minute', () => {
  test('the rate limit counts any sixty seconds', async () => {
    const router = routerOf([deployment('a', { requestsPerMinute: 2 })])
    await callOnce(router, success)
    passes(40_000)
    await callOnce(router, failure('provider_rejected'))
    expect(names(router)).toEqual([])
    expect(router.unavailability('model')).toMatchObject({ retryAfterSeconds: 20 })
    passes(19_999)
    expect(names(router)).toEqual([])
    passes(1)
    expect(names(router)).toEqual(['a'])
  })

  test('pauses a deployment for as long as retry-after asks', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    await callOnce(router, failure('provider_unavailable', { retryAfterSeconds: 7 }))
    expect(names(router)).toEqual(['b'])
    passes(7000)
    expect(names(router)).toEqual(['a', 'b'])
  })

  test('does not pause a deployment because of what one request asked for', async () => {
    const router = routerOf([deployment('a')])
    await callOnce(router, failure('provider_unavailable', { concerns: 'request', retryAfterSeconds: 300 }))
    expect(names(router)).toEqual(['a'])
  })

  test('limits a pause to five minutes', async () => {
    const router = routerOf([deployment('a')])
    await callOnce(router, failure('provider_unavailable', { retryAfterSeconds: 86_400 }))
    expect(router.unavailability('model')).toMatchObject({ retryAfterSeconds: 300 })
  })
})

describe('circuit', () => {
  const open = async (router: Router) => {
    for (let count = 0; count < 3; count += 1) await callOnce(router, failure('provider_unavailable'))
  }
  const timeout = failure('provider_outcome_unknown', { timedOut: true })

  test('definite failures of one payer open the circuit, and the deployment is skipped for the pause', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    await open(router)
    expect(router.states()[0]).toMatchObject({ circuit: 'open', isAvailable: false })
    expect(names(router)).toEqual(['b'])
    passes(9999)
    expect(names(router)).toEqual(['b'])
    passes(1)
    expect(router.states()[0]).toMatchObject({ circuit: 'half_open', isAvailable: true })
    expect(names(router)).toEqual(['a', 'b'])
  })

  test.each([
    ['a success', success],
    ['a rejected input', failure('provider_rejected')],
    ['an empty output', failure('provider_empty_output', { certainty: 'empty' })],
  ])('definite failures open the circuit only when they are half of the latest calls: %s', async (_name, outcome) => {
    const router = routerOf([deployment('a')])
    for (let count = 0; count < 4; count += 1) await callOnce(router, outcome)
    await open(router)
    expect(circuitOf(router)).toBe('closed')
    await callOnce(router, failure('provider_unavailable'))
    expect(circuitOf(router)).toBe('open')
  })

  test('a model that was shut down opens the circuit with its first call, and again with each probe', async () => {
    const router = routerOf([deployment('retired'), deployment('spare', { priority: 1 })])
    await callOnce(router, success)
    for (let probe = 0; probe < 2; probe += 1) {
      await callOnce(router, failure('provider_unavailable', { isGone: true }))
      expect(circuitOf(router)).toBe('open')
      expect(names(router)).toEqual(['spare'])
      passes(10_000)
    }
    await callOnce(router, success)
    expect(circuitOf(router)).toBe('closed')
    await callOnce(router, failure('provider_unavailable'))
    expect(circuitOf(router)).toBe('closed')
  })

  test('an unsupported request is no call: it neither opens a circuit nor keeps it closed', async () => {
    const router = routerOf([deployment('a')])
    for (let count = 0; count < 20; count += 1) await callOnce(router, unserviceable('test'))
    expect(circuitOf(router)).toBe('closed')
    await open(router)
    expect(circuitOf(router)).toBe('open')
  })

  test('unknown outcomes of one payer never open the circuit, however many there are', async () => {
    const router = routerOf([deployment('a')])
    for (let count = 0; count < 50; count += 1) await callOnce(router, timeout, 'attacker')
    for (let count = 0; count < 50; count += 1) await callOnce(router, timeout, 'accomplice')
    expect(circuitOf(router)).toBe('closed')
  })

  test('unknown outcomes of three payers open the circuit', async () => {
    const router = routerOf([deployment('a')])
    await callOnce(router, timeout, 'first')
    await callOnce(router, failure('provider_outcome_unknown'), 'second')
    expect(circuitOf(router)).toBe('closed')
    await callOnce(router, timeout, 'third')
    expect(circuitOf(router)).toBe('open')
  })

  test('unknown outcomes of a few payers do not open the circuit while most payers are served', async () => {
    const router = routerOf([deployment('a')])
    for (let count = 0; count < 7; count += 1) await callOnce(router, success, `honest ${count}`)
    for (let round = 0; round < 10; round += 1) {
      for (let count = 0; count < 6; count += 1) await callOnce(router, timeout, `attacker ${count}`)
    }
    expect(circuitOf(router)).toBe('closed')
    await callOnce(router, timeout, 'honest 0')
    expect(circuitOf(router)).toBe('open')
  })

  test('the latest outcome of a payer counts, for two minutes', async () => {
    const router = routerOf([deployment('a')])
    for (const payer of ['first', 'second']) await callOnce(router, timeout, payer)
    await callOnce(router, success, 'second')
    await callOnce(router, timeout, 'third')
    expect(circuitOf(router)).toBe('closed')
    passes(120_000)
    for (const payer of ['second', 'fourth']) await callOnce(router, timeout, payer)
    expect(circuitOf(router)).toBe('closed')
    await callOnce(router, timeout, 'fifth')
    expect(circuitOf(router)).toBe('open')
  })

  test('failures that the request itself caused never open the circuit', async () => {
    const router = routerOf([deployment('a')])
    for (let count = 0; count < 10; count += 1) {
      await callOnce(router, { ...timeout, concerns: 'request' as const }, `payer ${count}`)
    }
    expect(circuitOf(router)).toBe('closed')
  })

  test('a half-open circuit allows one probe at a time; its success closes the circuit', async () => {
    const router = routerOf([deployment('a')])
    await open(router)
    passes(10_000)
    const probe = startCall(router)
    expect(names(router)).toEqual([])
    await probe?.end()
    expect(router.states()[0]).toMatchObject({ circuit: 'closed', activeCalls: 0 })
    expect(names(router)).toEqual(['a'])
  })

  test('a half-open circuit allows its probe while a call from before it opened is still running', async () => {
    const router = routerOf([deployment('a')])
    const long = startCall(router)
    await open(router)
    passes(10_000)
    expect(names(router)).toEqual(['a'])
    await long?.end()
  })

  test('a failed probe opens the circuit for another pause', async () => {
    const router = routerOf([deployment('a')])
    await open(router)
    passes(10_000)
    await callOnce(router, failure('provider_outcome_unknown'))
    expect(names(router)).toEqual([])
    passes(9999)
    expect(names(router)).toEqual([])
    passes(1)
    expect(names(router)).toEqual(['a'])
  })

  test('an unused probe leaves the circuit half-open for the next call', async () => {
    const router = routerOf([deployment('a')])
    await open(router)
    passes(10_000)
    peekFirst(router)
    expect(names(router)).toEqual(['a'])
  })

  test('a slot reserved before the circuit opened makes no call afterwards', async () => {
    const router = routerOf([deployment('a')])
    const called = vi.fn<() => Promise<typeof success>>(async () => success)
    for (const slot of router.candidates('model')) {
      await open(router)
      expect(await slot.run(called, PAYER)).toMatchObject({ code: 'provider_unavailable', certainty: 'definite' })
    }
    expect(called).not.toHaveBeenCalled()
  })
})

describe('when all are skipped', () => {
  test('reports in how many seconds the first deployment may be free', async () => {
    const router = routerOf([deployment('a'), deployment('b', { maximumConcurrency: 1, priority: 1 })])
    for (let count = 0; count < 3; count += 1) await callOnce(router, failure('provider_unavailable'))
    expect(router.states()[0]).toMatchObject({ circuit: 'open' })
    startCall(router)
    expect(names(router)).toEqual([])
    expect(router.unavailability('model')).toEqual({
      ...failure('provider_unavailable'),
      reason: 'no deployment may be called now',
      retryAfterSeconds: 1,
    })
  })

  test('reports no waiting time for a model without deployments', () => {
    expect(routerOf([]).unavailability('model')).toEqual({
      ...failure('provider_unavailable'),
      reason: 'no deployment serves the model',
    })
  })
})
