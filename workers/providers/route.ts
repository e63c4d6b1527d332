import { type CircuitDependencies, createCircuit, isFailure } from './circuit.ts'
import type { Deployment } from './deployment.ts'
import type { ProviderFailure } from './provider.ts'

/** Permission to call one deployment once. */
export interface Slot {
  readonly deployment: Deployment
  /**
   * Makes the call with the deployment's time limit and records its outcome for the payer who caused it. Returns
   * `provider_unavailable` without calling when the deployment's circuit has opened in the meantime. Rethrows errors of
   * the call; throws when run twice.
   */
  run<Outcome extends { readonly outcome: string }>(
    call: (timeoutMs: number) => Promise<Outcome>,
    payer: string,
  ): Promise<Outcome | ProviderFailure>
}

export interface DeploymentState {
  readonly name: string
  /** `half_open`: one call may probe, or is probing, whether the deployment works again. */
  readonly circuit: 'closed' | 'open' | 'half_open'
  readonly activeCalls: number
  /** Calls started in the last 60 seconds. */
  readonly recentCalls: number
  /** Whether a call could start now. */
  readonly isAvailable: boolean
}

export interface Router {
  /**
   * Yields the deployments that may be called now, in the order to try them. Each is checked only when it is requested
   * and stays reserved until the next is requested or the loop ends: use `for … of` and run each slot within its
   * iteration.
   */
  candidates(publicModel: string): Iterable<Slot>
  /**
   * Returns the failure for when `candidates` yielded none: `provider_unavailable`, with the seconds until one may be
   * free.
   */
  unavailability(publicModel: string): ProviderFailure
  /**
   * Resolves when a call in flight ends, if concurrency limits are all that keeps the model's deployments from being
   * called now, or when `signal` aborts; `null` when waiting for a call would not help, or is not needed. Those that
   * wait are woken one by one, in order: the next call must follow immediately. Check again afterwards.
   */
  whenFree(publicModel: string, signal: AbortSignal): Promise<void> | null
  /** Returns how many deployments serve the model, whether or not they may be called now. */
  countDeployments(publicModel: string): number
  /** Returns the health of every deployment, for metrics. */
  states(): readonly DeploymentState[]
}

export interface RouterDependencies extends CircuitDependencies {
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The limit for deployments without one, and the upper bound for all: the payment's deadline depends on it. */
  readonly maximumTimeoutMs: number
}

const MINUTE_MS = 60_000

/** Upper limit on a vendor's `retry-after`. A longer one needs the operator; until then it costs one call each time. */
const MAXIMUM_PAUSE_MS = 5 * MINUTE_MS

/** Retry hint when a deployment is at its concurrency limit: the end of a call in flight is not known. */
const FULL_RETRY_MS = 1000

/**
 * Creates the router that decides which deployment serves a public model: by priority, and by weight at random within
 * one priority. It skips deployments that are at their concurrency or rate limit, that asked for a pause, or whose
 * circuit is open. Limits and circuits are per process.
 */
export function createRouter(deployments: readonly Deployment[], dependencies: RouterDependencies): Router {
  const lanes = deployments.map((deployment) => createLane(deployment, dependencies))
  const lanesOf = (publicModel: string) => lanes.filter(({ deployment }) => deployment.serves.includes(publicModel))
  return {
    *candidates(publicModel) {
      for (const lane of inOrder(lanesOf(publicModel), dependencies.random)) {
        const reservation = lane.reserve()
        if (reservation === undefined) continue
        try {
          yield { deployment: lane.deployment, run: reservation.run }
        } finally {
          reservation.release()
        }
      }
    },
    unavailability(publicModel) {
      const waits = lanesOf(publicModel).map((lane) => lane.waitMs())
      return {
        outcome: 'failed',
        certainty: 'definite',
        code: 'provider_unavailable',
        reason: waits.length === 0 ? 'no deployment serves the model' : 'no deployment may be called now',
        ...(waits.length === 0 ? {} : { retryAfterSeconds: Math.max(1, Math.ceil(Math.min(...waits) / 1000)) }),
      }
    },
    whenFree(publicModel, signal) {
      const all = lanesOf(publicModel)
      const full = all.filter((lane) => lane.isOnlyFull())
      if (full.length === 0 || all.some((lane) => lane.waitMs() === 0)) return null
      const { promise, resolve } = Promise.withResolvers<void>()
      const waiter: Waiter = {
        isWaiting: true,
        wake: () => {
          waiter.isWaiting = false
          signal.removeEventListener('abort', waiter.wake)
          resolve()
        },
      }
      signal.addEventListener('abort', waiter.wake, { once: true })
      for (const lane of full) lane.enqueue(waiter)
      return promise
    },
    countDeployments: (publicModel) => lanesOf(publicModel).length,
    states: () => lanes.map((lane) => lane.state()),
  }
}

/**
 * Returns a weighted random order: sorting by random^(1/weight), highest first, puts each deployment first with a
 * probability proportional to its weight. Source: Efraimidis and Spirakis, 2006.
 */
function inOrder(lanes: readonly Lane[], random: () => number): Lane[] {
  return lanes
    .map((lane) => ({ lane, draw: random() ** (1 / lane.deployment.weight) }))
    .sort((left, right) => left.lane.deployment.priority - right.lane.deployment.priority || right.draw - left.draw)
    .map(({ lane }) => lane)
}

interface Reservation {
  readonly run: Slot['run']
  /** Releases an unused reservation. Has no effect once the call runs, which releases it itself. */
  release(): void
}

/** Something that waits for the end of a call, perhaps at several deployments. */
interface Waiter {
  isWaiting: boolean
  readonly wake: () => void
}

/** One deployment with its limits, its circuit and its calls in flight. */
interface Lane {
  readonly deployment: Deployment
  /** Reserves a call, or returns `undefined` when none may start now. */
  reserve(): Reservation | undefined
  /** Returns the time until a call may start, as far as it is known; 0 for now. */
  waitMs(): number
  /** Returns whether a call could start now but for the concurrency limit. */
  isOnlyFull(): boolean
  /** Wakes the waiter at the end of a call, after those that came before it; all, when calls are not possible. */
  enqueue(waiter: Waiter): void
  state(): DeploymentState
}

function createLane(deployment: Deployment, dependencies: RouterDependencies): Lane {
  const { maximumConcurrency = Number.POSITIVE_INFINITY, requestsPerMinute = Number.POSITIVE_INFINITY } = deployment
  const timeoutMs = Math.min(deployment.timeoutMs ?? Number.POSITIVE_INFINITY, dependencies.maximumTimeoutMs)
  const nowMs = () => dependencies.now().getTime()
  const circuit = createCircuit(dependencies)
  let activeCalls = 0
  let activeProbes = 0
  let pausedUntilMs = 0
  let startTimes: number[] = []
  let waiters: Waiter[] = []

  const recent = () => {
    const since = nowMs() - MINUTE_MS
    startTimes = startTimes.filter((startedMs) => startedMs > since)
    return startTimes
  }
  const isFull = () => activeCalls >= maximumConcurrency
  const otherWaitMs = () => {
    const oldest = recent()[0]
    return Math.max(
      0,
      pausedUntilMs - nowMs(),
      // A half-open circuit allows one call, its probe, until the outcome is known.
      circuit.waitMs() || (circuit.state() === 'half_open' && activeProbes > 0 ? FULL_RETRY_MS : 0),
      oldest !== undefined && startTimes.length >= requestsPerMinute ? oldest + MINUTE_MS - nowMs() : 0,
    )
  }
  const waitMs = () => Math.max(otherWaitMs(), isFull() ? FULL_RETRY_MS : 0)
  const wakeNext = () => {
    const present = waiters.filter(({ isWaiting }) => isWaiting)
    const woken = present.splice(0, otherWaitMs() === 0 ? 1 : present.length)
    waiters = present
    for (const waiter of woken) waiter.wake()
  }

  const reserve = (): Reservation => {
    const startedMs = nowMs()
    const probes = circuit.state() === 'half_open' ? 1 : 0
    let state: 'reserved' | 'running' | 'ended' = 'reserved'
    activeCalls += 1
    activeProbes += probes
    startTimes.push(startedMs)
    const end = () => {
      state = 'ended'
      activeCalls -= 1
      activeProbes -= probes
      wakeNext()
    }
    return {
      async run(call, payer) {
        if (state !== 'reserved') throw new Error('a slot can be run once, within its iteration')
        state = 'running'
        try {
          const outcome = await circuit.run(() => call(timeoutMs), payer)
          // A pause that one request asks for, such as with a 413, is not for the others.
          if (isFailure(outcome) && outcome.code === 'provider_unavailable' && outcome.concerns !== 'request') {
            const pauseMs = Math.min((outcome.retryAfterSeconds ?? 0) * 1000, MAXIMUM_PAUSE_MS)
            pausedUntilMs = Math.max(pausedUntilMs, nowMs() + pauseMs)
          }
          return outcome
        } finally {
          end()
        }
      },
      release() {
        if (state !== 'reserved') return
        end()
        const index = startTimes.indexOf(startedMs)
        if (index >= 0) startTimes.splice(index, 1)
      },
    }
  }

  return {
    deployment,
    reserve: () => (waitMs() === 0 ? reserve() : undefined),
    waitMs,
    isOnlyFull: () => isFull() && otherWaitMs() === 0,
    enqueue: (waiter) => void waiters.push(waiter),
    state: () => ({
      name: deployment.name,
      circuit: circuit.state(),
      activeCalls,
      recentCalls: recent().length,
      isAvailable: waitMs() === 0,
    }),
  }
}
