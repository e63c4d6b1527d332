import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { Deployment } from './deployment.ts'
import {
  createLane,
  type DeploymentState,
  type Lane,
  type LaneDependencies,
  type Reservation,
  type Run,
} from './lane.ts'
import type { ProviderFailure } from './provider.ts'
import { createWaitingLine } from './waiting-line.ts'

/** Permission to call one deployment once. */
export interface Slot {
  readonly deployment: Deployment
  readonly run: Run
  /** Returns whether the deployment has been drained, or removed, since it was reserved: it must not be called then. */
  isWithdrawn(): boolean
}

/** What the choice of a job's deployments depends on. */
export interface RoutedJob {
  readonly acceptedAt: Date
  /** Ends the wait. */
  readonly signal: AbortSignal
  /** Digest of what the request begins with: requests with the same one prefer the same deployment, whose vendor caches it. */
  readonly prefix?: string | undefined
}

export interface Router {
  /**
   * Yields the deployments of a model, in the order to try them, each once. One is reserved when it is requested, in the
   * step in which it becomes free, and stays reserved until the next is requested or the loop ends: use `for await … of`
   * and run each slot within its iteration.
   *
   * While only limits of the operator's keep all of them from being called, or a probe does, waits in the order of
   * acceptance, at most a minute. Ends when waiting is no help, was in vain, or `signal` aborts.
   */
  candidates(publicModel: string, job: RoutedJob): AsyncIterable<Slot>
  /**
   * Returns the failure for when `candidates` yielded none: `provider_unavailable`, with the seconds until one may be
   * free. `null` when deployments work, and only their limits kept them from being called.
   */
  unavailability(publicModel: string): ProviderFailure | null
  /** Returns how many deployments serve the model and are not drained, whether or not they may be called now. */
  countDeployments(publicModel: string): number
  /** Returns whether deployments serve the model, and all of them are drained. */
  isDrained(publicModel: string): boolean
  /** Ends all waiting, now and in the future: the process is stopping. */
  stopWaiting(): void
  isStopping(): boolean
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
  /** How long a job waits under its lease before it is deferred. */
  readonly longestWaitMs?: number
}

/** As long as accepted work may wait before the API rejects new work of its kind, which deferred jobs do not count as. */
const LONGEST_WAIT_MS = 60_000

/**
 * Creates the router that decides which deployment serves a public model: by priority, and by weight within one
 * priority, at random or by the request's prefix. It skips deployments that are at their concurrency or rate limit, that asked for a pause, or whose
 * circuit is open. Limits and circuits are per process.
 */
export function createRouter(deployments: readonly Deployment[], dependencies: RouterDependencies): ReloadableRouter {
  const { random, longestWaitMs = LONGEST_WAIT_MS } = dependencies
  const newLane = (deployment: Deployment) => createLane(deployment, dependencies, () => line.serve())
  let lanes = deployments.map(newLane)
  let removed: readonly Lane[] = []
  let recalled: ReadonlyMap<string, readonly Lane[]> = new Map()
  let isStopping = false
  const allOf = (publicModel: string) => lanes.filter((lane) => lane.deployment().serves.includes(publicModel))
  const lanesOf = (publicModel: string) => {
    const working = allOf(publicModel).filter((lane) => lane.deployment().isDrained !== true)
    return working.length > 0 ? working : (recalled.get(publicModel) ?? [])
  }
  const line = createWaitingLine({
    take: ({ publicModel, tried, prefix }) => {
      const left = lanesOf(publicModel).filter((lane) => !tried.has(lane))
      return take(prefix === undefined ? inOrder(left, random) : inOrderOfPrefix(left, prefix))
    },
    changesInMs: () => {
      const taking = [...lanes, ...[...recalled.values()].flat()]
      const changes = taking.map((lane) => lane.changesInMs()).filter((inMs) => inMs > 0)
      return changes.length === 0 ? null : Math.min(...changes)
    },
    longestWaitMs,
  })
  return {
    apply(changed) {
      const known = [...new Set([...[...recalled.values()].flat(), ...removed, ...lanes])]
      const kept = new Map(known.map((lane) => [lane.deployment().name, lane]))
      lanes = changed.map((deployment) => {
        const lane = kept.get(deployment.name)
        lane?.replace(deployment)
        return lane ?? newLane(deployment)
      })
      removed = known.filter((lane) => !lanes.includes(lane))
      recalled = new Map()
      // What jobs wait for may not come any more, or be possible already.
      line.serve()
    },
    recall(publicModel, deployments) {
      if (recalled.has(publicModel)) return
      // A lane that was recalled for another model of its deployment is shared, and so are its limits.
      const known = [...[...recalled.values()].flat(), ...removed]
      const found = deployments.map((deployment) => {
        const isSame = (lane: Lane) =>
          lane.deployment().name === deployment.name && lane.deployment().serves.includes(publicModel)
        return known.find(isSame) ?? newLane(deployment)
      })
      removed = removed.filter((lane) => !found.includes(lane))
      recalled = new Map([...recalled, [publicModel, found]])
    },
    async *candidates(publicModel, job) {
      const tried = new Set<Lane>()
      for (;;) {
        const taken = await line.enter({ ...job, publicModel, tried })
        if (!taken) return
        const { lane, reservation } = taken
        tried.add(lane)
        const isWithdrawn = () => !lanesOf(publicModel).includes(lane)
        try {
          yield { deployment: lane.deployment(), run: reservation.run, isWithdrawn }
        } finally {
          reservation.release()
        }
      }
    },
    unavailability(publicModel) {
      const offered = lanesOf(publicModel)
      if (offered.some((lane) => ['none', 'limit'].includes(lane.obstacle()))) return null
      const waits = offered.map((lane) => lane.waitMs())
      return {
        outcome: 'failed',
        certainty: 'definite',
        code: 'provider_unavailable',
        reason: waits.length === 0 ? 'no deployment serves the model' : 'no deployment may be called now',
        ...(waits.length === 0 ? {} : { retryAfterSeconds: Math.max(1, Math.ceil(Math.min(...waits) / 1000)) }),
      }
    },
    countDeployments: (publicModel) => lanesOf(publicModel).length,
    isDrained: (publicModel) => allOf(publicModel).length > 0 && lanesOf(publicModel).length === 0,
    stopWaiting: () => {
      isStopping = true
      line.stop()
    },
    isStopping: () => isStopping,
    states: () => {
      removed = removed.filter((lane) => lane.state().activeCalls > 0)
      const taking = [...new Set([...recalled.values()].flat())].filter((lane) => lane.state().activeCalls > 0)
      return [...taking, ...removed, ...lanes].map((lane) => lane.state())
    },
  }
}

interface Taken {
  readonly lane: Lane
  readonly reservation: Reservation
}

/** Reserves the first deployment that may be called now. An outage ends with the vendor, which nobody waits for. */
function take(lanes: readonly Lane[]): Taken | 'wait' | 'none' {
  for (const lane of lanes) {
    const reservation = lane.reserve()
    if (reservation) return { lane, reservation }
  }
  return lanes.some((lane) => lane.obstacle() !== 'outage') ? 'wait' : 'none'
}

/**
 * Returns a weighted random order: sorting by random^(1/weight), highest first, puts each deployment first with a
 * probability proportional to its weight. Source: Efraimidis and Spirakis, 2006.
 */
function inOrder(lanes: readonly Lane[], random: (lane: Lane) => number): Lane[] {
  return lanes
    .map((lane) => ({ lane, ...lane.deployment() }))
    .map(({ lane, priority, weight }) => ({ lane, priority, draw: random(lane) ** (1 / weight) }))
    .sort((left, right) => left.priority - right.priority || right.draw - left.draw)
    .map(({ lane }) => lane)
}

/** How far a deployment's calls may exceed its share by weight before its prefixes go to the others. */
const CROWDED = 1.25

/**
 * Returns the order of one prefix, the same in every process: weighted rendezvous hashing. A deployment with more calls
 * in flight than its share comes last in its priority. Source: Mirrokni et al., "Consistent Hashing with Bounded Loads", 2018.
 */
function inOrderOfPrefix(lanes: readonly Lane[], prefix: string): Lane[] {
  const hashed = inOrder(lanes, (lane) => uniform(`${prefix} ${lane.deployment().name}`))
  const isCrowded = (lane: Lane) => {
    const { priority, weight } = lane.deployment()
    const peers = lanes.filter((other) => other.deployment().priority === priority)
    const calls = sumOf(peers, (peer) => peer.activeCalls()) + 1
    const share = weight / sumOf(peers, (peer) => peer.deployment().weight)
    return lane.activeCalls() >= Math.ceil(CROWDED * calls * share)
  }
  const rank = (lane: Lane) => lane.deployment().priority + (isCrowded(lane) ? 0.5 : 0)
  return hashed.sort((left, right) => rank(left) - rank(right))
}

function sumOf(lanes: readonly Lane[], amount: (lane: Lane) => number): number {
  return lanes.reduce((total, lane) => total + amount(lane), 0)
}

/** Returns the hash of a text as a number in [0, 1). */
function uniform(text: string): number {
  return Number.parseInt(sha256Hex(text).slice(0, 13), 16) / 16 ** 13
}
