import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { chatCompletion } from '../../../workers/executions/text.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { unserviceable } from '../../../workers/providers/failures.ts'
import type { ProviderFailure } from '../../../workers/providers/provider.ts'
import { createRouter, type RoutedJob, type Router } from '../../../workers/providers/route.ts'

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
  vendor: 'vendor',
  upstreamModel: 'model',
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

/** A job that waits for nothing. */
const HURRIED = { acceptedAt: new Date(0), signal: AbortSignal.abort() }

/** Returns the deployments that may be called now. */
async function names(router: Router, model = 'model', job: RoutedJob = HURRIED): Promise<string[]> {
  const found: string[] = []
  for await (const slot of router.candidates(model, job)) found.push(slot.deployment.name)
  return found
}

const failure = (code: ProviderFailure['code'], changes: Partial<ProviderFailure> = {}): ProviderFailure => ({
  outcome: 'failed',
  certainty: code === 'provider_outcome_unknown' ? 'ambiguous' : 'definite',
  code,
  reason: 'test',
  ...changes,
})
const success = { outcome: 'produced' } as const

const PAYER = { payer: '0xpayer', hasPaid: true }

/** Runs the first candidate; `undefined` when there is none. */
async function callOnce<Outcome extends { readonly outcome: string }>(
  router: Router,
  outcome: Outcome,
  payer: string = PAYER.payer,
  hasPaid = true,
) {
  for await (const slot of router.candidates('model', HURRIED))
    return await slot.run(async () => outcome, { payer, hasPaid })
  return undefined
}

const circuitOf = (router: Router) => router.states()[0]?.circuit

/** Returns the first candidate's name and leaves the loop without running it. */
async function peekFirst(router: Router): Promise<string | undefined> {
  for await (const slot of router.candidates('model', HURRIED)) return slot.deployment.name
  return undefined
}

interface StartedCall {
  readonly deployment: string
  end(): Promise<void>
}

/** Starts a call on the first candidate, waiting for it like a job unless it is hurried, and leaves it pending. */
function startCall(
  router: Router,
  outcome: typeof success | ProviderFailure = success,
  job: Parameters<Router['candidates']>[1] = HURRIED,
): Promise<StartedCall | undefined> {
  const started = Promise.withResolvers<StartedCall | undefined>()
  const hold = async () => {
    for await (const slot of router.candidates('model', job)) {
      const { promise, resolve } = Promise.withResolvers<typeof outcome>()
      const ended = slot.run(() => promise, PAYER)
      const end = async () => {
        resolve(outcome)
        await ended
      }
      started.resolve({ deployment: slot.deployment.name, end })
      await ended
      break
    }
    started.resolve(undefined)
  }
  void hold()
  return started.promise
}

/** A job that waits for its turn, accepted at this second. */
const patient = (acceptedAtSeconds = 0, { signal } = new AbortController()) => ({
  acceptedAt: new Date(acceptedAtSeconds * 1000),
  signal,
})

describe('order', () => {
  test('yields only deployments that serve the model, lowest priority first', async () => {
    const router = routerOf([
      deployment('third', { priority: 7 }),
      deployment('first'),
      deployment('elsewhere', { serves: ['other'] }),
      deployment('second', { priority: 1 }),
    ])
    expect(await names(router)).toEqual(['first', 'second', 'third'])
    expect(await names(router, 'other')).toEqual(['elsewhere'])
    expect(await names(router, 'nobody’s')).toEqual([])
  })

  test('within one priority the weights determine how often each deployment is first', async () => {
    let seed = 1
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const router = routerOf(
      [deployment('a', { weight: 3 }), deployment('b'), deployment('spare', { priority: 1 })],
      random,
    )
    const firsts = await Promise.all(Array.from({ length: 4000 }, () => names(router)))
    const share = firsts.filter(([first]) => first === 'a').length / firsts.length
    expect(share).toBeGreaterThan(0.72)
    expect(share).toBeLessThan(0.78)
    expect(firsts.every((order) => order.length === 3 && order[2] === 'spare')).toBe(true)
  })

  test('checks and reserves a deployment only when it is requested', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const seen: unknown[] = []
    for await (const slot of router.candidates('model', HURRIED)) {
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
    for await (const slot of router.candidates('model', HURRIED)) {
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
    const first = await startCall(router)
    await startCall(router)
    expect(await names(router)).toEqual(['b'])
    await first?.end()
    expect(await names(router)).toEqual(['a', 'b'])
  })

  test('of forty jobs that ask together each gets one of two places, in the order of acceptance', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 2 })])
    const served: number[] = []
    let most = 0
    const jobs = Array.from({ length: 40 }, async (_, index) => {
      for await (const slot of router.candidates('model', patient(index))) {
        most = Math.max(most, router.states()[0]?.activeCalls ?? 0)
        // The payment is checked between the reservation and the call.
        await Promise.resolve()
        await slot.run(async () => success, PAYER)
        served.push(index)
        break
      }
    })
    await Promise.all(jobs)
    expect(served).toEqual(Array.from({ length: 40 }, (_, index) => index))
    expect(most).toBe(2)
  })

  test('a place goes to the job that was accepted first, whenever it came and whichever model it asks for', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1, serves: ['model', 'other'] })])
    const call = await startCall(router)
    const served: string[] = []
    const waiting = (
      [
        ['late', 3],
        ['model', 2],
        ['other', 1],
        ['deferred', 0],
      ] as const
    ).map(async ([name, acceptedAtSeconds]) => {
      const model = name === 'other' ? 'other' : 'model'
      for await (const slot of router.candidates(model, patient(acceptedAtSeconds))) {
        served.push(name)
        await slot.run(async () => success, PAYER)
        break
      }
    })
    expect(await names(router)).toEqual([])
    await call?.end()
    await Promise.all(waiting)
    expect(served).toEqual(['deferred', 'other', 'model', 'late'])
  })

  test('a reservation that is not used passes to the next job', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 })])
    const held = router.candidates('model', patient())[Symbol.asyncIterator]()
    await held.next()
    const next = startCall(router, success, patient())
    await held.return?.()
    expect(await next).toMatchObject({ deployment: 'a' })
    expect(router.states()).toMatchObject([{ activeCalls: 1 }])
  })

  test('a job waits for the next deployment after a definite failure, and is never offered the same one again', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1, maximumConcurrency: 1 })])
    const busy = router.candidates('model', HURRIED)[Symbol.asyncIterator]()
    await busy.next()
    await busy.next()
    const tried: string[] = []
    const job = (async () => {
      for await (const slot of router.candidates('model', patient())) {
        tried.push(slot.deployment.name)
        await slot.run(async () => failure('provider_unavailable'), PAYER)
      }
    })()
    await expect.poll(() => tried).toEqual(['a'])
    await busy.return?.()
    await job
    expect(tried).toEqual(['a', 'b'])
  })

  test('nobody waits for a vendor that asked for a pause', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1 })])
    const call = await startCall(router, failure('provider_unavailable', { retryAfterSeconds: 30 }))
    const waiting = [startCall(router, success, patient()), startCall(router, success, patient())]
    await call?.end()
    expect(await Promise.all(waiting)).toEqual([undefined, undefined])
    expect(await startCall(router, success, patient())).toBeUndefined()
    expect(router.unavailability('model')).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 30 })
  })

  test('a job waits for a full deployment while the circuit of another is open', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1, maximumConcurrency: 1 })])
    for (let count = 0; count < 3; count += 1) await callOnce(router, failure('provider_unavailable'))
    const call = await startCall(router)
    const waiting = startCall(router, success, patient())
    await call?.end()
    expect(await waiting).toMatchObject({ deployment: 'b' })
  })

  test('a wait ends with its signal, with the process and after the longest wait, which is no outage', async () => {
    const full = deployment('a', { maximumConcurrency: 1 })
    const router = routerOf([full])
    const call = await startCall(router)
    const aborted = new AbortController()
    const abandoned = startCall(router, success, patient(0, aborted))
    const next = startCall(router, success, patient(1))
    aborted.abort()
    expect(await abandoned).toBeUndefined()
    const last = startCall(router, success, patient(2))
    await call?.end()
    expect(await next).toMatchObject({ deployment: 'a' })
    router.stopWaiting()
    expect([await last, await startCall(router, success, patient())]).toEqual([undefined, undefined])
    expect(router.isStopping()).toBe(true)

    const impatient = createRouter([full], {
      now: () => new Date(),
      random: () => 0.5,
      maximumTimeoutMs: 1,
      longestWaitMs: 1,
    })
    await startCall(impatient)
    expect(await startCall(impatient, success, patient())).toBeUndefined()
    expect([impatient.unavailability('model'), impatient.isStopping()]).toEqual([null, false])
  })

  test('releases an unused reservation, however the loop ends', async () => {
    const router = routerOf([deployment('a', { maximumConcurrency: 1, requestsPerMinute: 1 })])
    await peekFirst(router)
    const stale = async () => {
      for await (const { deployment } of router.candidates('model', HURRIED))
        throw new Error(`stale at ${deployment.name}`)
    }
    await expect(stale()).rejects.toThrow('stale at a')
    expect(await names(router)).toEqual(['a'])
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
    for await (const slot of router.candidates('model', HURRIED)) {
      await expect(slot.run(() => Promise.reject(new Error('defect')), PAYER)).rejects.toThrow('defect')
    }
    expect(await names(router)).toEqual(['a'])
  })

  test('a slot runs only once, and not after its iteration', async () => {
    const router = routerOf([deployment('a')])
    const slots = []
    for await (const slot of router.candidates('model', HURRIED)) {
      slots.push(slot)
      await slot.run(async () => success, PAYER)
      await expect(slot.run(async () => success, PAYER)).rejects.toThrow('once')
    }
    for await (const slot of router.candidates('model', HURRIED)) slots.push(slot)
    await expect(slots[1]?.run(async () => success, PAYER)).rejects.toThrow('within its iteration')
  })
})

describe('requests per minute', () => {
  test('the rate limit counts any sixty seconds', async () => {
    const router = routerOf([deployment('a', { requestsPerMinute: 2 })])
    await callOnce(router, success)
    passes(40_000)
    await callOnce(router, failure('provider_rejected'))
    expect(await names(router)).toEqual([])
    expect(router.unavailability('model')).toBeNull()
    passes(19_999)
    expect(await names(router)).toEqual([])
    passes(1)
    expect(await names(router)).toEqual(['a'])
  })

  test('a job waits until the rate limit allows its call', async () => {
    vi.useFakeTimers()
    const router = routerOf([deployment('a', { requestsPerMinute: 1 })])
    await callOnce(router, success)
    let started: StartedCall | undefined
    const waiting = startCall(router, success, patient()).then((call) => (started = call))
    await vi.advanceTimersByTimeAsync(59_000)
    expect(started).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1000)
    expect(await waiting).toMatchObject({ deployment: 'a' })
  })

  test('pauses a deployment for as long as retry-after asks', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    await callOnce(router, failure('provider_unavailable', { retryAfterSeconds: 7 }))
    expect(await names(router)).toEqual(['b'])
    passes(7000)
    expect(await names(router)).toEqual(['a', 'b'])
  })

  test('does not pause a deployment because of what one request asked for', async () => {
    const router = routerOf([deployment('a')])
    await callOnce(router, failure('provider_unavailable', { concerns: 'request', retryAfterSeconds: 300 }))
    expect(await names(router)).toEqual(['a'])
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
    expect(await names(router)).toEqual(['b'])
    passes(9999)
    expect(await names(router)).toEqual(['b'])
    passes(1)
    expect(router.states()[0]).toMatchObject({ circuit: 'half_open', isAvailable: true })
    expect(await names(router)).toEqual(['a', 'b'])
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
      expect(await names(router)).toEqual(['spare'])
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

  test('payers who have never paid have one vote together: four of them beside an honest one open nothing', async () => {
    const router = routerOf([deployment('a')])
    await callOnce(router, success, 'honest')
    for (let round = 0; round < 3; round += 1) {
      for (let count = 0; count < 4; count += 1) await callOnce(router, timeout, `stranger ${count}`, false)
    }
    expect(circuitOf(router)).toBe('closed')
    for (const payer of ['second', 'third']) await callOnce(router, timeout, payer)
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
    const probe = await startCall(router)
    expect(await names(router)).toEqual([])
    await probe?.end()
    expect(router.states()[0]).toMatchObject({ circuit: 'closed', activeCalls: 0 })
    expect(await names(router)).toEqual(['a'])
  })

  test.each([
    ['succeeds', success, 'a'],
    ['fails', failure('provider_outcome_unknown'), undefined],
  ])('jobs wait for a probe in progress, and are called when it succeeds: it %s', async (_, outcome, served) => {
    const router = routerOf([deployment('a')])
    await open(router)
    expect(await startCall(router, success, patient())).toBeUndefined()
    passes(10_000)
    const probe = await startCall(router, outcome)
    const waiting = [startCall(router, success, patient()), startCall(router, success, patient())]
    await probe?.end()
    expect((await Promise.all(waiting)).map((call) => call?.deployment)).toEqual([served, served])
  })

  test('a slot reserved before the circuit opened makes no call after another one’s probe has failed', async () => {
    const router = routerOf([deployment('a')])
    const called = vi.fn<() => Promise<typeof success>>(async () => success)
    for await (const slot of router.candidates('model', HURRIED)) {
      await open(router)
      passes(10_000)
      const probe = await startCall(router, failure('provider_unavailable'))
      const late = slot.run(called, PAYER)
      await probe?.end()
      expect(await late).toMatchObject({ code: 'provider_unavailable', certainty: 'definite' })
    }
    expect(called).not.toHaveBeenCalled()
  })

  test('a half-open circuit allows its probe while a call from before it opened is still running', async () => {
    const router = routerOf([deployment('a')])
    const long = await startCall(router)
    await open(router)
    passes(10_000)
    expect(await names(router)).toEqual(['a'])
    await long?.end()
  })

  test('a failed probe opens the circuit for another pause', async () => {
    const router = routerOf([deployment('a')])
    await open(router)
    passes(10_000)
    await callOnce(router, failure('provider_outcome_unknown'))
    expect(await names(router)).toEqual([])
    passes(9999)
    expect(await names(router)).toEqual([])
    passes(1)
    expect(await names(router)).toEqual(['a'])
  })

  test('an unused probe leaves the circuit half-open for the next call', async () => {
    const router = routerOf([deployment('a')])
    await open(router)
    passes(10_000)
    await peekFirst(router)
    expect(await names(router)).toEqual(['a'])
  })

  test('a slot reserved before the circuit opened makes no call afterwards', async () => {
    const router = routerOf([deployment('a')])
    const called = vi.fn<() => Promise<typeof success>>(async () => success)
    for await (const slot of router.candidates('model', HURRIED)) {
      await open(router)
      expect(await slot.run(called, PAYER)).toMatchObject({ code: 'provider_unavailable', certainty: 'definite' })
    }
    expect(called).not.toHaveBeenCalled()
  })
})

describe('when all are skipped', () => {
  test('reports in how many seconds the first deployment may be free', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    for (let count = 0; count < 3; count += 1) await callOnce(router, failure('provider_unavailable'))
    await callOnce(router, failure('provider_unavailable', { retryAfterSeconds: 4 }))
    expect(router.states()[0]).toMatchObject({ circuit: 'open' })
    expect(await names(router)).toEqual([])
    expect(router.unavailability('model')).toEqual({
      ...failure('provider_unavailable'),
      reason: 'no deployment may be called now',
      retryAfterSeconds: 4,
    })
  })

  test.each([
    ['a full deployment', { maximumConcurrency: 1 }],
    ['one at its rate limit', { requestsPerMinute: 1 }],
    ['one that has just become free', {}],
  ])('reports no outage while %s works', async (_, limits) => {
    const router = routerOf([deployment('a'), deployment('b', { ...limits, priority: 1 })])
    for (let count = 0; count < 3; count += 1) await callOnce(router, failure('provider_unavailable'))
    await startCall(router)
    expect(router.unavailability('model')).toBeNull()
  })

  test('reports no waiting time for a model without deployments', () => {
    expect(routerOf([]).unavailability('model')).toEqual({
      ...failure('provider_unavailable'),
      reason: 'no deployment serves the model',
    })
  })
})

const prefixed = (prefix: string) => ({ ...HURRIED, prefix })
const fleet = () => ['one', 'two', 'three', 'four'].map((name) => deployment(name))
const user = (content: string) => ({ role: 'user', content })
const long = (text: string) => text.repeat(1000)

const orderOf = (router: Router, prefix: string) => names(router, 'model', prefixed(prefix))

const firstOf = async (router: Router, prefix: string) => (await orderOf(router, prefix))[0]

describe('requests with the same prefix', () => {
  const prefixes = Array.from({ length: 400 }, (_, index) => `prefix ${index}`)

  test('prefer the same deployment in every process, whatever the order of the file', async () => {
    const [here, there] = [routerOf(fleet(), Math.random), routerOf(fleet().toReversed(), Math.random)]
    for (const prefix of prefixes) expect(await orderOf(here, prefix)).toEqual(await orderOf(there, prefix))
  })

  test('are spread by weight', async () => {
    const router = routerOf([deployment('light'), deployment('heavy', { weight: 3 })])
    const firsts = await Promise.all(prefixes.map((prefix) => firstOf(router, prefix)))
    const heavy = firsts.filter((name) => name === 'heavy').length / prefixes.length
    expect(heavy).toBeGreaterThan(0.65)
    expect(heavy).toBeLessThan(0.85)
  })

  test('keep theirs when another deployment is removed', async () => {
    const [all, fewer] = [routerOf(fleet()), routerOf(fleet().slice(1))]
    for (const prefix of prefixes) {
      const [first, second] = await orderOf(all, prefix)
      expect(await firstOf(fewer, prefix)).toBe(first === 'one' ? second : first)
    }
  })

  test('stay within the first priority', async () => {
    const router = routerOf([deployment('reserve', { priority: 1, weight: 100 }), ...fleet()])
    for (const prefix of prefixes) expect((await orderOf(router, prefix)).at(-1)).toBe('reserve')
  })

  test('go elsewhere while theirs has a quarter more calls than its share', async () => {
    const router = routerOf(fleet())
    const calls: StartedCall[] = []
    for (let call = 0; call < 40; call++) {
      const started = await startCall(router, success, prefixed('popular'))
      if (started) calls.push(started)
    }
    const active = router.states().map(({ activeCalls }) => activeCalls)
    expect(Math.max(...active)).toBeLessThanOrEqual(Math.ceil((1.25 * 40) / 4))
    expect(active.reduce((total, one) => total + one, 0)).toBe(40)
    await Promise.all(calls.map((call) => call.end()))
    expect(await firstOf(router, 'popular')).toBe(calls[0]?.deployment)
  })

  const remoteImages = { fetchAll: () => Promise.reject(new Error('no image is fetched')) }
  async function prefixOf(body: object): Promise<string | undefined> {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Begin.' },
    ]
    const effectiveRequest = chatCompletions.effectiveRequest(
      chatCompletions.bodySchema.parse({ model: 'textmodel-3.6-flash', messages, ...body }),
      null,
      publishedCatalog,
    )
    const job = { effectiveRequest, authorization: { payer: '0xpayer' }, terms: {}, requestBytes: 1, id: 'job' }
    const memory = { extendTo: () => true, shrinkTo: () => undefined }
    const input = { job: job as unknown as LeasedJob, audio: null }
    return (await chatCompletion(remoteImages).prepare(input, memory)).prefix
  }

  test('are those with the same tools and system instruction, when these are long enough to be cached', async () => {
    const system = { role: 'system', content: long('Obey. ') }
    const first = await prefixOf({ messages: [system, user('one')] })
    expect(first).toMatch(/^[0-9a-f]{64}$/)
    expect(await prefixOf({ messages: [system, user('two'), { role: 'assistant', content: 'ok' }, user('go')] })).toBe(
      first,
    )
    const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
    expect(await prefixOf({ messages: [system, user('one')], tools })).not.toBe(first)
  })

  test('are the steps of one conversation, when instructions are short', async () => {
    const steps = [user('Read this.'), { role: 'assistant', content: long('read ') }, user('Go on.')]
    const first = await prefixOf({ messages: steps })
    expect(await prefixOf({ messages: [...steps, { role: 'assistant', content: 'Done.' }, user('More.')] })).toBe(first)
    expect(await prefixOf({ messages: [user('Read that.'), ...steps.slice(1)] })).not.toBe(first)
  })

  test('have none when they are too short to be cached anywhere', async () => {
    expect(await prefixOf({})).toBeUndefined()
  })
})
