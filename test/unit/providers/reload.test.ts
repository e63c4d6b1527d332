import { Registry } from 'prom-client'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type DeploymentEntry, parseDeployments } from '#shared/catalog/deployments-file.ts'
import type { ControlledDeployment } from '#shared/operators/controlled-deployments.ts'
import { composeGeneration } from '../../../workers/composition/generation.ts'
import type { WorkerConfig } from '../../../workers/config.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { unavailable } from '../../../workers/providers/failures.ts'
import { createLiveDeployments, type LiveDeployments } from '../../../workers/providers/live-deployments.ts'
import type { TextProvider } from '../../../workers/providers/provider.ts'
import { createRouter, type Router, type Slot } from '../../../workers/providers/route.ts'

const KEY = 'VENDOR_KEY'
const entryOf = (changes: Partial<DeploymentEntry> = {}): DeploymentEntry => {
  const [entry] = parseDeployments({
    deployments: [
      {
        name: 'first',
        adapter: 'gemini',
        base_url: 'http://vendor.test',
        api_key_env: KEY,
        upstream_model: 'gemini-2.5-pro',
        serves: ['model'],
        ...changes,
      },
    ],
  }).deployments
  if (!entry) throw new Error('no entry')
  return entry
}
const published = (changes: Partial<DeploymentEntry> = {}, isDrained = false): ControlledDeployment => ({
  entry: entryOf(changes),
  isDrained,
})
const portOf = (): TextProvider => ({ generateText: () => Promise.reject(new Error('not called')) })
const deployment = (name: string, changes: Partial<Deployment> = {}): Deployment => ({
  name,
  serves: ['model'],
  vendor: 'vendor',
  upstreamModel: 'model',
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
const PAYER = { payer: '0xpayer', hasPaid: true }
/** A job that waits for nothing. */
const HURRIED = { acceptedAt: new Date(0), signal: AbortSignal.abort() }
async function names(router: Router): Promise<string[]> {
  const found: string[] = []
  for await (const slot of router.candidates('model', HURRIED)) found.push(slot.deployment.name)
  return found
}
/** Starts a call on the first candidate and leaves it pending. */
async function startCall(router: Router) {
  const { promise, resolve } = Promise.withResolvers<typeof success | ReturnType<typeof unavailable>>()
  const { value: slot } = await router.candidates('model', HURRIED)[Symbol.asyncIterator]().next()
  if (!slot) throw new Error('no candidate')
  const ended = (slot as Slot).run(() => promise, PAYER)
  return {
    slot: slot as Slot,
    end: async (outcome: typeof success | ReturnType<typeof unavailable> = success) => {
      resolve(outcome)
      await ended
    },
  }
}
const stateOf = (router: Router, name = 'a') => router.states().find((state) => state.name === name)

describe('deployments that change while they serve', () => {
  let applied: readonly Deployment[]
  let live: LiveDeployments
  beforeEach(() => {
    live = createLiveDeployments(
      {
        apply: (deployments) => {
          applied = deployments
        },
        recall: () => undefined,
      },
      {
        environment: { [KEY]: 'secret-key' },
        providerKeys: { [KEY]: ['http://vendor.test', 'http://other.test'], MISSING_KEY: ['http://vendor.test'] },
        http: () => Promise.reject(new Error('not called')),
        longestTimeoutSeconds: 60,
      },
    )
  })

  const first = () => {
    const [deployment] = applied
    if (!deployment) throw new Error('no deployment')
    return deployment
  }
  test('a deployment whose weight, priority, limits or models change keeps its ports', () => {
    live.apply([published()])
    const { text } = first()
    expect(text).toBeDefined()
    live.apply([published({ weight: 5, priority: 2, max_concurrency: 3, serves: ['model', 'other'] }, true)])
    expect(first()).toMatchObject({
      weight: 5,
      priority: 2,
      maximumConcurrency: 3,
      serves: ['model', 'other'],
      isDrained: true,
    })
    expect(first().text).toBe(text)
  })

  test.each<[string, Partial<DeploymentEntry>]>([
    ['address', { base_url: 'http://other.test' }],
    ['upstream model', { upstream_model: 'gemini-2.5-flash' }],
  ])('a deployment with another %s gets ports of its own', (_, changes) => {
    live.apply([published()])
    const { text } = first()
    live.apply([published(changes)])
    expect(first().text).not.toBe(text)
  })

  test('deployments that cannot be used are left out and named, without a key', () => {
    live.apply([
      published(),
      { entry: entryOf({ name: 'without-key', api_key_env: 'MISSING_KEY' }), isDrained: false },
      { entry: entryOf({ name: 'too-slow', timeout_seconds: 61 }), isDrained: false },
    ])
    expect(applied.map(({ name }) => name)).toEqual(['first'])
    expect(live.current()).toEqual(applied)
    expect(live.unusable()).toEqual({
      'without-key': 'the environment variable MISSING_KEY is not set',
      'too-slow': expect.stringContaining('timeout_seconds is 61'),
    })
    expect(JSON.stringify(live.unusable())).not.toContain('secret-key')
    live.apply([published()])
    expect(live.unusable()).toEqual({})
  })
})

describe('deployments that are replaced', () => {
  // The circuit breaker reads the system clock itself.
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('a drained deployment gets no new call, and its calls in flight end as usual', async () => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const call = await startCall(router)
    router.apply([deployment('a', { isDrained: true }), deployment('b', { priority: 1 })])
    expect(await names(router)).toEqual(['b'])
    expect(stateOf(router)).toMatchObject({ isDrained: true, isAvailable: false, activeCalls: 1 })
    await call.end()
    expect(stateOf(router)).toMatchObject({ activeCalls: 0 })
    router.apply([deployment('a'), deployment('b', { priority: 1 })])
    expect(await names(router)).toEqual(['a', 'b'])
  })

  test('a slot that was reserved before its deployment was drained is withdrawn', async () => {
    const router = routerOf([deployment('a')])
    for await (const slot of router.candidates('model', HURRIED)) {
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
  ])('a deployment that %s after the first candidate was yielded is not the next one', async (_, changed) => {
    const router = routerOf([deployment('a'), deployment('b', { priority: 1 })])
    const yielded: string[] = []
    for await (const slot of router.candidates('model', HURRIED)) {
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
    await (await startCall(router)).end(unavailable('test'))
    router.apply([deployment('a', { text, weight: 7, priority: 3 })])
    expect(stateOf(router)).toMatchObject({ circuit: 'open', weight: 7 })
    router.apply([deployment('a', { text: portOf() })])
    expect(stateOf(router)).toMatchObject({ circuit: 'closed', isAvailable: true })
  })

  test('a call to a replaced upstream says nothing about the health of the new one', async () => {
    const router = routerOf([deployment('a', { text: portOf() })])
    const call = await startCall(router)
    router.apply([deployment('a', { text: portOf() })])
    await call.end({ ...unavailable('test'), retryAfterSeconds: 60 })
    expect(stateOf(router)).toMatchObject({ circuit: 'closed', isAvailable: true, activeCalls: 0 })
  })

  test('calls in flight count against the limits of the replacement', async () => {
    const router = routerOf([deployment('a', { text: portOf() })])
    const calls = [await startCall(router), await startCall(router)]
    router.apply([deployment('a', { text: portOf(), maximumConcurrency: 2 })])
    expect(await names(router)).toEqual([])
    await calls[0]?.end()
    expect(await names(router)).toEqual(['a'])
    router.apply([deployment('a', { requestsPerMinute: 1 })])
    expect(await names(router)).toEqual([])
  })

  test('a removed deployment is reported until its last call has ended, and counts them when it is published again', async () => {
    const router = routerOf([deployment('a')])
    const [first, second] = [await startCall(router), await startCall(router)]
    router.apply([])
    expect(stateOf(router)).toMatchObject({ activeCalls: 2 })
    await first.end()
    router.apply([deployment('a', { maximumConcurrency: 1 })])
    expect(await names(router)).toEqual([])
    router.apply([])
    await second.end()
    expect(router.states()).toEqual([])
  })

  test('a removed deployment that is recalled takes calls within its limits, until others are published', async () => {
    const limited = deployment('a', { maximumConcurrency: 1, serves: ['model', 'other'] })
    const router = routerOf([limited])
    const call = await startCall(router)
    router.apply([])
    router.recall('model', [limited])
    router.recall('other', [limited])
    expect([await names(router), router.countDeployments('model'), router.isDrained('model')]).toEqual([[], 1, false])
    await call.end()
    expect(await names(router)).toEqual(['a'])
    // Not what a second job recalls at the same time: the first one's calls would not count any more.
    const second = await startCall(router)
    router.recall('model', [limited])
    expect([await names(router), stateOf(router)]).toMatchObject([[], { activeCalls: 1 }])
    router.apply([deployment('b')])
    expect(await names(router)).toEqual(['b'])
    expect(second.slot.isWithdrawn()).toBe(true)
    await second.end()
    expect(router.states().map(({ name }) => name)).toEqual(['b'])
  })

  test('a removed deployment that is recalled takes no call while a published one does, and none of other models', async () => {
    const router = routerOf([deployment('a')])
    router.recall('model', [deployment('old')])
    expect(await names(router)).toEqual(['a'])
    router.apply([deployment('a', { isDrained: true })])
    router.recall('model', [deployment('old')])
    expect([await names(router), router.isDrained('model')]).toEqual([['old'], false])
    expect(router.countDeployments('other')).toBe(0)
  })

  test('jobs that wait for the end of a call look again', async () => {
    const full = deployment('a', { maximumConcurrency: 1 })
    const router = routerOf([full])
    const call = await startCall(router)
    const { signal } = new AbortController()
    const waiting = router.candidates('model', { acceptedAt: new Date(), signal })[Symbol.asyncIterator]().next()
    router.apply([full, deployment('b')])
    expect((await waiting).value).toMatchObject({ deployment: { name: 'b' } })
    await call.end()
  })
})

test('a clock that is set back keeps no deployment from being called', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { deployments, router } = composeGeneration(
    { PROVIDER_TIMEOUT_SECONDS: 60, environment: { [KEY]: 'secret' } } as unknown as WorkerConfig,
    { textJobs: 1, ffmpegPath: undefined, file: { deployments: [entryOf()] }, metrics: new Registry() },
  )
  deployments.apply([published({ requests_per_minute: 1 })])
  for await (const slot of router.candidates('model', HURRIED)) await slot.run(async () => success, PAYER)
  expect(router.states()).toMatchObject([{ recentCalls: 1, isAvailable: false }])
  vi.setSystemTime(Date.now() - 3_600_000)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(router.states()).toMatchObject([{ recentCalls: 0, isAvailable: true }])
})
