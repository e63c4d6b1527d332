import { type Caller, type Circuit, type CircuitDependencies, createCircuit, isFailure } from './circuit.ts'
import type { Deployment } from './deployment.ts'
import type { ProviderFailure } from './provider.ts'

/**
 * Makes the call with the deployment's time limit and records its outcome for the payer who caused it. Returns
 * `provider_unavailable` without calling when the deployment's circuit has opened in the meantime. Rethrows errors of
 * the call; throws when run twice.
 */
export type Run = <Outcome extends { readonly outcome: string }>(
  call: (timeoutMs: number) => Promise<Outcome>,
  caller: Caller,
) => Promise<Outcome | ProviderFailure>

export interface DeploymentState {
  readonly name: string
  /** `half_open`: one call may probe, or is probing, whether the deployment works again. */
  readonly circuit: 'closed' | 'open' | 'half_open'
  readonly activeCalls: number
  /** Calls started in the last 60 seconds. */
  readonly recentCalls: number
  /** Whether a call could start now. */
  readonly isAvailable: boolean
  readonly isDrained: boolean
  readonly weight: number
}

export interface LaneDependencies extends CircuitDependencies {
  /** The limit for deployments without one, and the upper bound for all: the payment's deadline depends on it. */
  readonly maximumTimeoutMs: number
}

const MINUTE_MS = 60_000

/** Upper limit on a vendor's `retry-after`. A longer one needs the operator; until then it costs one call each time. */
const MAXIMUM_PAUSE_MS = 5 * MINUTE_MS

/** Retry hint when a deployment is at its concurrency limit: the end of a call in flight is not known. */
const FULL_RETRY_MS = 1000

/** A reserved call. */
export interface Reservation {
  readonly run: Run
  /** Releases an unused reservation. Has no effect once the call runs, which releases it itself. */
  release(): void
}

/**
 * What keeps a call from starting now. `outage`: the vendor asked for a pause, or the circuit is open. `probe`: the call
 * that shows whether the vendor works again is in progress. `limit`: a limit of the operator's.
 */
export type Obstacle = 'none' | 'limit' | 'probe' | 'outage'

/** One deployment with its limits, its circuit and its calls in flight. */
export interface Lane {
  deployment(): Deployment
  /** Replaces the deployment by one of the same name. Another upstream begins with a closed circuit and no pause. */
  replace(deployment: Deployment): void
  /** Reserves a call, or returns `undefined` when none may start now. */
  reserve(): Reservation | undefined
  obstacle(): Obstacle
  /** Returns the calls in flight, reserved ones included. */
  activeCalls(): number
  /** Returns the time until a call may start, as far as it is known; 0 for now. */
  waitMs(): number
  /** Returns the time after which the rate limit or an outage is over; 0 when neither keeps a call from starting. */
  changesInMs(): number
  state(): DeploymentState
}

/** Creates a lane. `onFreed` is called after the end of each call, and of each reservation that was not used. */
export function createLane(first: Deployment, dependencies: LaneDependencies, onFreed: () => void): Lane {
  const nowMs = () => dependencies.now().getTime()
  let deployment = first
  let health = newHealth(dependencies)
  let activeCalls = 0
  const startTimes: number[] = []

  const recent = () => {
    const since = nowMs() - MINUTE_MS
    // Several times a call: a busy deployment has thousands, of which only the first ones are old.
    const first = startTimes.findIndex((startedMs) => startedMs > since)
    startTimes.splice(0, first === -1 ? startTimes.length : first)
    return startTimes
  }
  const isFull = () => activeCalls >= (deployment.maximumConcurrency ?? Number.POSITIVE_INFINITY)
  const rateLimitMs = () => {
    const { requestsPerMinute = Number.POSITIVE_INFINITY } = deployment
    // With a limit that was lowered, calls beyond it have to pass first.
    const blocking = recent().at(-requestsPerMinute)
    return blocking !== undefined && startTimes.length >= requestsPerMinute ? blocking + MINUTE_MS - nowMs() : 0
  }
  const outageMs = () => Math.max(0, health.pausedUntilMs - nowMs(), health.circuit.waitMs())
  // A half-open circuit allows one call, its probe, until the outcome is known.
  const isProbed = () => health.activeProbes > 0 && health.circuit.state() === 'half_open'
  const changesInMs = () => Math.max(outageMs(), rateLimitMs())
  const waitMs = () => Math.max(changesInMs(), isProbed() || isFull() ? FULL_RETRY_MS : 0)
  const obstacle = (): Obstacle => {
    if (outageMs() > 0) return 'outage'
    if (isProbed()) return 'probe'
    return isFull() || rateLimitMs() > 0 ? 'limit' : 'none'
  }

  const reserve = (): Reservation => {
    const startedMs = nowMs()
    // That of the upstream that is called, also after another has replaced it.
    const calledHealth = health
    const timeoutMs = Math.min(deployment.timeoutMs ?? Number.POSITIVE_INFINITY, dependencies.maximumTimeoutMs)
    const probes = calledHealth.circuit.state() === 'half_open' ? 1 : 0
    let state: 'reserved' | 'running' | 'ended' = 'reserved'
    activeCalls += 1
    calledHealth.activeProbes += probes
    startTimes.push(startedMs)
    const end = () => {
      state = 'ended'
      activeCalls -= 1
      calledHealth.activeProbes -= probes
    }
    return {
      async run(call, caller) {
        if (state !== 'reserved') throw new Error('a slot can be run once, within its iteration')
        state = 'running'
        try {
          const outcome = await calledHealth.circuit.run(() => call(timeoutMs), caller)
          const pauseMs = requestedPauseMs(outcome)
          if (pauseMs > 0) calledHealth.pausedUntilMs = Math.max(calledHealth.pausedUntilMs, nowMs() + pauseMs)
          return outcome
        } finally {
          end()
          onFreed()
        }
      },
      release() {
        if (state !== 'reserved') return
        end()
        const index = startTimes.indexOf(startedMs)
        if (index >= 0) startTimes.splice(index, 1)
        onFreed()
      },
    }
  }

  return {
    deployment: () => deployment,
    replace(changed) {
      if (!hasSamePorts(deployment, changed)) health = newHealth(dependencies)
      deployment = changed
    },
    reserve: () => (waitMs() === 0 ? reserve() : undefined),
    obstacle,
    activeCalls: () => activeCalls,
    waitMs,
    changesInMs,
    state: () => ({
      name: deployment.name,
      circuit: health.circuit.state(),
      activeCalls,
      recentCalls: recent().length,
      isAvailable: waitMs() === 0 && deployment.isDrained !== true,
      isDrained: deployment.isDrained === true,
      weight: deployment.weight,
    }),
  }
}

/** What calls have shown about one upstream. Calls that outlive a replacement still report to the one that they reached. */
interface UpstreamHealth {
  readonly circuit: Circuit
  activeProbes: number
  pausedUntilMs: number
}

function newHealth(dependencies: CircuitDependencies): UpstreamHealth {
  return { circuit: createCircuit(dependencies), activeProbes: 0, pausedUntilMs: 0 }
}

function hasSamePorts(one: Deployment, other: Deployment): boolean {
  return PORTS.every((port) => one[port] === other[port])
}

const PORTS = ['text', 'image', 'speech', 'transcription'] as const

/** Returns the pause that a failure asks for. One that a request asks for, such as with a 413, is not for the others. */
function requestedPauseMs(outcome: unknown): number {
  if (!isFailure(outcome) || outcome.code !== 'provider_unavailable' || outcome.concerns === 'request') return 0
  return Math.min((outcome.retryAfterSeconds ?? 0) * 1000, MAXIMUM_PAUSE_MS)
}
