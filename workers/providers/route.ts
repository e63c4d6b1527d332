import { CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhenResult } from 'cockatiel'
import type { ProviderFailure } from './provider.ts'
import type { Deployment } from './registry.ts'
import { isUnserviceable } from './unserviceable.ts'

/** One permission to call one deployment once. */
export interface Slot {
  readonly deployment: Deployment
  /**
   * Makes the call, with the deployment's time limit, and learns from its outcome. Answers `provider_unavailable` without
   * calling when the deployment's circuit has opened since. Throws what the call throws; a second run throws.
   */
  run<Outcome extends { readonly outcome: string }>(
    call: (timeoutMs: number) => Promise<Outcome>,
  ): Promise<Outcome | ProviderFailure>
}

export interface DeploymentState {
  readonly name: string
  /** `half_open`: one call may try, or is trying, whether the deployment works again. */
  readonly circuit: 'closed' | 'open' | 'half_open'
  readonly activeCalls: number
  /** Calls begun in the last 60 seconds. */
  readonly recentCalls: number
  /** Whether a call could begin now. */
  readonly isAvailable: boolean
}

export interface Router {
  /**
   * The deployments that may be called now, in the order to try them. Each is looked at only when it is asked for, and its place
   * is held until the next one is asked for or the loop ends, so use it in a `for … of` and run each slot within its turn.
   */
  candidates(publicModel: string): Iterable<Slot>
  /** What to answer when `candidates` gave none: `provider_unavailable`, and in how many seconds one may be free. */
  unavailability(publicModel: string): ProviderFailure
  /** Health of every deployment, for metrics. */
  states(): readonly DeploymentState[]
}

export interface RouterDependencies {
  /** Must go with the system's clock, which the circuit breaker reads. */
  readonly now: () => Date
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** For a deployment without a time limit, and never exceeded by one with: the payment's deadline depends on it. */
  readonly maximumTimeoutMs: number
  /** Failures in a row that open a circuit. */
  readonly failuresToOpen?: number
  /** How long an open circuit rests before one call may try. */
  readonly pauseMs?: number
}

const minuteMs = 60_000

/** A vendor's `retry-after` is heeded up to this; a longer one is the operator's matter and costs one call each time. */
const longestRestMs = 5 * minuteMs

/** A call in flight ends at an unknown time; this is when to look again. */
const fullRetryMs = 1000

/**
 * Decides which deployment serves a public model: by priority, and by weight at random within one priority. Skips those that
 * are at their concurrency or rate limit, that asked for a pause, or whose circuit is open. Limits and circuits belong to this
 * process.
 */
export function createRouter(deployments: readonly Deployment[], dependencies: RouterDependencies): Router {
  const lanes = deployments.map((deployment) => createLane(deployment, dependencies))
  const lanesOf = (publicModel: string) => lanes.filter(({ deployment }) => deployment.serves.includes(publicModel))
  return {
    *candidates(publicModel) {
      for (const lane of inOrder(lanesOf(publicModel), dependencies.random)) {
        const place = lane.take()
        if (place === undefined) continue
        try {
          yield { deployment: lane.deployment, run: place.run }
        } finally {
          place.giveBack()
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
    states: () => lanes.map((lane) => lane.state()),
  }
}

/**
 * Weighted order without repetition: sorting by random^(1/weight), highest first, makes each deployment first with a
 * probability in proportion to its weight. Source: Efraimidis and Spirakis, 2006.
 */
function inOrder(lanes: readonly Lane[], random: () => number): Lane[] {
  return lanes
    .map((lane) => ({ lane, draw: random() ** (1 / lane.deployment.weight) }))
    .sort((left, right) => left.lane.deployment.priority - right.lane.deployment.priority || right.draw - left.draw)
    .map(({ lane }) => lane)
}

interface Place {
  readonly run: Slot['run']
  /** Has no effect while the call goes on, which gives the place back itself. */
  giveBack(): void
}

/** One deployment with its limits, its circuit, and the calls that go on. */
interface Lane {
  readonly deployment: Deployment
  /** Takes a place, or answers `undefined` when no call may begin now. */
  take(): Place | undefined
  /** Until a call may begin, as far as that is known; 0 for now. */
  waitMs(): number
  state(): DeploymentState
}

function createLane(deployment: Deployment, dependencies: RouterDependencies): Lane {
  const { maximumConcurrency = Number.POSITIVE_INFINITY, requestsPerMinute = Number.POSITIVE_INFINITY } = deployment
  const timeoutMs = Math.min(deployment.timeoutMs ?? Number.POSITIVE_INFINITY, dependencies.maximumTimeoutMs)
  const nowMs = () => dependencies.now().getTime()
  const circuit = createCircuit(dependencies)
  let activeCalls = 0
  let restsUntilMs = 0
  let begun: number[] = []

  const recent = () => {
    const since = nowMs() - minuteMs
    begun = begun.filter((startedMs) => startedMs > since)
    return begun
  }
  const waitMs = () => {
    const oldest = recent()[0]
    return Math.max(
      0,
      restsUntilMs - nowMs(),
      // The probe of a circuit is the only call until its outcome is known.
      circuit.waitMs() || (circuit.state() === 'half_open' && activeCalls > 0 ? fullRetryMs : 0),
      activeCalls >= maximumConcurrency ? fullRetryMs : 0,
      oldest !== undefined && begun.length >= requestsPerMinute ? oldest + minuteMs - nowMs() : 0,
    )
  }

  const take = (): Place => {
    const startedMs = nowMs()
    let use: 'held' | 'running' | 'over' = 'held'
    activeCalls += 1
    begun.push(startedMs)
    const end = () => {
      use = 'over'
      activeCalls -= 1
    }
    return {
      async run(call) {
        if (use !== 'held') throw new Error('a slot is run once, in its turn')
        use = 'running'
        try {
          const outcome = await circuit.run(() => call(timeoutMs))
          if (isFailure(outcome) && outcome.code === 'provider_unavailable') {
            const restMs = Math.min((outcome.retryAfterSeconds ?? 0) * 1000, longestRestMs)
            restsUntilMs = Math.max(restsUntilMs, nowMs() + restMs)
          }
          return outcome
        } finally {
          end()
        }
      },
      giveBack() {
        if (use !== 'held') return
        end()
        const index = begun.indexOf(startedMs)
        if (index >= 0) begun.splice(index, 1)
      },
    }
  }

  return {
    deployment,
    take: () => (waitMs() === 0 ? take() : undefined),
    waitMs,
    state: () => ({
      name: deployment.name,
      circuit: circuit.state(),
      activeCalls,
      recentCalls: recent().length,
      isAvailable: waitMs() === 0,
    }),
  }
}

interface Circuit {
  run<Outcome extends { readonly outcome: string }>(call: () => Promise<Outcome>): Promise<Outcome | ProviderFailure>
  /** Left of the pause; 0 when a call may begin or try. */
  waitMs(): number
  state(): DeploymentState['circuit']
}

/** Cockatiel's breaker, with the one thing it does not tell: when its pause is over. */
function createCircuit({ now, failuresToOpen = 5, pauseMs = 15_000 }: RouterDependencies): Circuit {
  const breaker = circuitBreaker(handleWhenResult(speaksAgainstTheDeployment), {
    breaker: new ConsecutiveBreaker(failuresToOpen),
    halfOpenAfter: pauseMs,
  })
  let opensAgainAtMs = 0
  breaker.onBreak(() => {
    opensAgainAtMs = now().getTime() + pauseMs
  })
  const waitMs = () => (breaker.state === CircuitState.Open ? Math.max(0, opensAgainAtMs - now().getTime()) : 0)
  return {
    waitMs,
    // A call that was permitted before the circuit opened would be refused by an exception.
    run: (call) => (waitMs() > 0 ? Promise.resolve(circuitOpened) : breaker.execute(call)),
    state: () => {
      if (breaker.state === CircuitState.Closed) return 'closed'
      return waitMs() > 0 ? 'open' : 'half_open'
    },
  }
}

const circuitOpened: ProviderFailure = {
  outcome: 'failed',
  certainty: 'definite',
  code: 'provider_unavailable',
  reason: 'not sent: the deployment’s circuit has just opened',
}

/** A refused input, an empty answer and a request beyond the deployment's abilities come from one that works. */
function speaksAgainstTheDeployment(outcome: unknown): boolean {
  if (!isFailure(outcome) || isUnserviceable(outcome)) return false
  return outcome.code === 'provider_unavailable' || outcome.code === 'provider_outcome_unknown'
}

function isFailure(outcome: unknown): outcome is ProviderFailure {
  return typeof outcome === 'object' && outcome !== null && 'outcome' in outcome && outcome.outcome === 'failed'
}
