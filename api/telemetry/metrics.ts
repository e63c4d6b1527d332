import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { LoadGate } from '../limits/load-gate.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'

/** Metrics of the responses, recorded when each has been sent. */
export interface RequestMetrics {
  recordResponse(
    request: { readonly operation: string; readonly status: number; readonly outcome: string },
    seconds: number,
  ): void
}

/** Seconds, up to the longest hold. */
const DURATION_BUCKETS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** Adds the counters of this process's responses. */
export function addRequestMetrics(registry: Registry): RequestMetrics {
  const register = { registers: [registry] }
  const requests = new Counter({
    name: 'farebox_requests_total',
    help: 'Responses by paid operation (by route for all others) and by outcome: an error code, completed, replayed, challenged, probed or ok',
    labelNames: ['operation', 'status', 'outcome'],
    ...register,
  })
  const durations = new Histogram({
    name: 'farebox_request_duration_seconds',
    help: 'Time from the head of a request to the end of its response',
    labelNames: ['operation'],
    buckets: DURATION_BUCKETS,
    ...register,
  })
  // The labels are from bounded sets. Looking their counters up anew for each response costs more than counting it.
  const ofOperation = new Map<
    string,
    { duration: Histogram.Internal<'operation'>; counters: Map<string, Counter.Internal> }
  >()
  return {
    recordResponse: ({ operation, status, outcome }, seconds) => {
      let known = ofOperation.get(operation)
      if (!known) {
        known = { duration: durations.labels({ operation }), counters: new Map() }
        ofOperation.set(operation, known)
      }
      const key = `${status} ${outcome}`
      let counter = known.counters.get(key)
      if (!counter) {
        counter = requests.labels({ operation, status, outcome })
        known.counters.set(key, counter)
      }
      counter.inc()
      known.duration.observe(seconds)
    },
  }
}

/** Adds the load of this process's audio decoders. */
export function addDecoderMetrics(registry: Registry, inspector: Pick<Mp3Inspector, 'load'>): void {
  const decoders = new Gauge({
    name: 'farebox_decoders',
    help: 'Audio decodes that are running, audio decodes that are waiting, and the limit of concurrent decodes',
    labelNames: ['state'],
    registers: [registry],
    collect: () => {
      const { busy, waiting, slots } = inspector.load()
      decoders.set({ state: 'busy' }, busy)
      decoders.set({ state: 'waiting' }, waiting)
      decoders.set({ state: 'places' }, slots)
    },
  })
}

/** Adds the load of this process, which the load gate limits. */
export function addLoadMetrics(registry: Registry, gate: Pick<LoadGate, 'currentLoad'>): void {
  const load = new Gauge({
    name: 'farebox_load',
    help: 'Bytes of request bodies in memory (limited by MAXIMUM_BODY_MEGABYTES) and callers that wait for their results (limited by MAXIMUM_HELD_CONNECTIONS)',
    labelNames: ['of'],
    registers: [registry],
    collect: () => {
      const { bodyBytes, heldConnections } = gate.currentLoad()
      load.set({ of: 'body_bytes' }, bodyBytes)
      load.set({ of: 'held_connections' }, heldConnections)
    },
  })
}
