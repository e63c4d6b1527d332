import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Deployment } from '../providers/deployment.ts'
import type { DeploymentState } from '../providers/lane.ts'
import type { Router, Slot } from '../providers/route.ts'

const CIRCUITS = ['closed', 'half_open', 'open'] as const

/** Adds the health of each deployment as the router of this process sees it. */
export function addDeploymentMetrics(registry: Registry, router: Pick<Router, 'states'>): void {
  const register = { registers: [registry] }
  const circuit = new Gauge({
    name: 'farebox_deployment_circuit',
    help: '1 for the current circuit state of a deployment',
    labelNames: ['deployment', 'state'],
    ...register,
    // Read at each scrape; the router has the current state in memory.
    collect: () => {
      // Deployments that were removed are not reported any more.
      circuit.reset()
      for (const { name, circuit: current } of router.states())
        for (const state of CIRCUITS) circuit.set({ deployment: name, state }, state === current ? 1 : 0)
    },
  })
  const addCount = (name: string, help: string, countOf: (state: DeploymentState) => number) => {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['deployment'],
      ...register,
      collect: () => {
        gauge.reset()
        for (const state of router.states()) gauge.set({ deployment: state.name }, countOf(state))
      },
    })
  }
  addCount('farebox_deployment_active_calls', 'Calls to a deployment in progress', ({ activeCalls }) => activeCalls)
  addCount(
    'farebox_deployment_recent_calls',
    'Calls to a deployment started in the last 60 seconds',
    ({ recentCalls }) => recentCalls,
  )
}

/** Up to the longest timeout of a call. */
const CALL_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 300, 660]

/** Returns the fields that had to be mended of an answer that a call produced. */
function mendedFields(outcome: {
  readonly outcome: string
  readonly product?: { readonly mended?: readonly string[] | undefined }
}): readonly string[] {
  return outcome.product?.mended ?? []
}

/**
 * Wraps the router to measure the duration of each call by outcome, `produced` or the code of the failure, and to count
 * the fields of answers that were not as documented.
 */
export function measuredRouter(registry: Registry, router: Router): Router {
  const durations = new Histogram({
    name: 'farebox_provider_call_duration_seconds',
    help: 'Duration of the calls of this process to a deployment, by outcome',
    labelNames: ['deployment', 'outcome'],
    buckets: CALL_BUCKETS,
    registers: [registry],
  })
  const mended = new Counter({
    name: 'farebox_provider_answers_mended_total',
    help: 'Answers of a deployment that were delivered although a field was not as the vendor documents it, by field',
    labelNames: ['deployment', 'field'],
    registers: [registry],
  })
  const measured = (slot: Slot): Slot => ({
    deployment: slot.deployment,
    isWithdrawn: () => slot.isWithdrawn(),
    run: async (call, caller) => {
      const startedAt = performance.now()
      let ended = 'thrown'
      try {
        const outcome = await slot.run(call, caller)
        ended = 'code' in outcome ? outcome.code : outcome.outcome
        for (const field of mendedFields(outcome)) mended.inc({ deployment: slot.deployment.name, field })
        return outcome
      } finally {
        durations.observe({ deployment: slot.deployment.name, outcome: ended }, (performance.now() - startedAt) / 1000)
      }
    },
  })
  return {
    ...router,
    async *candidates(publicModel, job) {
      for await (const slot of router.candidates(publicModel, job)) yield measured(slot)
    },
  }
}

/** Adds the days on which the models of deployments retire, as far as this version knows them. */
export function addRetirementMetric(
  registry: Registry,
  deployments: () => readonly Pick<Deployment, 'name' | 'knownRetirement'>[],
): void {
  const gauge = new Gauge({
    name: 'farebox_deployment_model_retirement_timestamp_seconds',
    help: 'When the vendor retires the model of a deployment, as announced',
    labelNames: ['deployment'],
    registers: [registry],
    collect: () => {
      gauge.reset()
      for (const { name, knownRetirement } of deployments())
        if (knownRetirement !== undefined) gauge.set({ deployment: name }, knownRetirement.getTime() / 1000)
    },
  })
}
