import type { Deployment } from './deployment.ts'
import { createLane, type DeploymentState, type Lane, type LaneDependencies, type Run, type Waiter } from './lane.ts'
import type { ProviderFailure } from './provider.ts'

/** Permission to call one deployment once. */
export interface Slot {
  readonly deployment: Deployment
  readonly run: Run
  /** Returns whether the deployment has been drained, or removed, since it was reserved: it must not be called then. */
  isWithdrawn(): boolean
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
  /** Returns how many deployments serve the model and are not drained, whether or not they may be called now. */
  countDeployments(publicModel: string): number
  /** Returns whether deployments serve the model, and all of them are drained. */
  isDrained(publicModel: string): boolean
  /** Returns the health of every deployment, and of removed ones until their last call has ended. */
  states(): readonly DeploymentState[]
}

/** A router whose deployments can be replaced while it works. */
export interface ReloadableRouter extends Router {
  /**
   * Replaces the deployments. One of the same name keeps its calls in flight, its limits count them, and it keeps its
   * circuit and pauses too while its ports are the same. Calls to a removed one end as usual.
   */
  apply(deployments: readonly Deployment[]): void
  /**
   * Lets removed deployments take the calls of a model while no other one does, until the deployments are replaced again.
   * Changes nothing when that was done already.
   */
  recall(publicModel: string, removed: readonly Deployment[]): void
}

export interface RouterDependencies extends LaneDependencies {
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/**
 * Creates the router that decides which deployment serves a public model: by priority, and by weight at random within
 * one priority. It skips deployments that are at their concurrency or rate limit, that asked for a pause, or whose
 * circuit is open. Limits and circuits are per process.
 */
export function createRouter(deployments: readonly Deployment[], dependencies: RouterDependencies): ReloadableRouter {
  let lanes = deployments.map((deployment) => createLane(deployment, dependencies))
  let removed: readonly Lane[] = []
  let recalled: ReadonlyMap<string, readonly Lane[]> = new Map()
  const allOf = (publicModel: string) => lanes.filter((lane) => lane.deployment().serves.includes(publicModel))
  const lanesOf = (publicModel: string) => {
    const working = allOf(publicModel).filter((lane) => lane.deployment().isDrained !== true)
    return working.length > 0 ? working : (recalled.get(publicModel) ?? [])
  }
  const isOffered = (lane: Lane, publicModel: string) => lanesOf(publicModel).includes(lane)
  return {
    apply(changed) {
      const known = [...new Set([...[...recalled.values()].flat(), ...removed, ...lanes])]
      const kept = new Map(known.map((lane) => [lane.deployment().name, lane]))
      lanes = changed.map((deployment) => {
        const lane = kept.get(deployment.name)
        lane?.replace(deployment)
        return lane ?? createLane(deployment, dependencies)
      })
      removed = known.filter((lane) => !lanes.includes(lane))
      recalled = new Map()
      // What they wait for may not come any more, or be possible already.
      for (const lane of known) lane.wakeAll()
    },
    recall(publicModel, deployments) {
      if (recalled.has(publicModel)) return
      // A lane that was recalled for another model of its deployment is shared, and so are its limits.
      const known = [...[...recalled.values()].flat(), ...removed]
      const found = deployments.map((deployment) => {
        const isSame = (lane: Lane) =>
          lane.deployment().name === deployment.name && lane.deployment().serves.includes(publicModel)
        return known.find(isSame) ?? createLane(deployment, dependencies)
      })
      removed = removed.filter((lane) => !found.includes(lane))
      recalled = new Map([...recalled, [publicModel, found]])
    },
    *candidates(publicModel) {
      for (const lane of inOrder(lanesOf(publicModel), dependencies.random)) {
        const reservation = isOffered(lane, publicModel) ? lane.reserve() : undefined
        if (reservation === undefined) continue
        const isWithdrawn = () => !isOffered(lane, publicModel)
        try {
          yield { deployment: lane.deployment(), run: reservation.run, isWithdrawn }
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
    isDrained: (publicModel) => allOf(publicModel).length > 0 && lanesOf(publicModel).length === 0,
    states: () => {
      removed = removed.filter((lane) => lane.state().activeCalls > 0)
      const taking = [...new Set([...recalled.values()].flat())].filter((lane) => lane.state().activeCalls > 0)
      return [...taking, ...removed, ...lanes].map((lane) => lane.state())
    },
  }
}

/**
 * Returns a weighted random order: sorting by random^(1/weight), highest first, puts each deployment first with a
 * probability proportional to its weight. Source: Efraimidis and Spirakis, 2006.
 */
function inOrder(lanes: readonly Lane[], random: () => number): Lane[] {
  return lanes
    .map((lane) => ({ lane, ...lane.deployment() }))
    .map(({ lane, priority, weight }) => ({ lane, priority, draw: random() ** (1 / weight) }))
    .sort((left, right) => left.priority - right.priority || right.draw - left.draw)
    .map(({ lane }) => lane)
}
