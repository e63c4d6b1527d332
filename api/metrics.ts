import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { LoadGate } from './admission/load-gate.ts'
import type { Mp3Inspector } from './request/audio/inspect-mp3.ts'

/** Told of each answer when it has been sent. */
export interface RequestMetrics {
  answered(
    request: { readonly operation: string; readonly status: number; readonly outcome: string },
    seconds: number,
  ): void
}

/** To the longest hold. */
const BUCKETS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** Adds what this API process answered. */
export function addRequestMetrics(registry: Registry): RequestMetrics {
  const register = { registers: [registry] }
  const requests = new Counter({
    name: 'farebox_requests_total',
    help: 'Answers by paid operation, or by route for all others, and by outcome: a code of the error table, completed, replayed, challenged, probed or ok',
    labelNames: ['operation', 'status', 'outcome'],
    ...register,
  })
  const durations = new Histogram({
    name: 'farebox_request_duration_seconds',
    help: 'From the head of a request to the end of its answer',
    labelNames: ['operation'],
    buckets: BUCKETS,
    ...register,
  })
  return {
    answered: ({ operation, status, outcome }, seconds) => {
      requests.inc({ operation, status, outcome })
      durations.observe({ operation }, seconds)
    },
  }
}

/** Adds how busy the audio decoders of this process are. */
export function addDecoderMetrics(registry: Registry, inspector: Pick<Mp3Inspector, 'load'>): void {
  const decoders = new Gauge({
    name: 'farebox_decoders',
    help: 'Audio decodes that run, those that wait for a place, and the places there are',
    labelNames: ['state'],
    registers: [registry],
    collect: () => {
      const { busy, waiting, places } = inspector.load()
      decoders.set({ state: 'busy' }, busy)
      decoders.set({ state: 'waiting' }, waiting)
      decoders.set({ state: 'places' }, places)
    },
  })
}

/** Adds how much of what this process takes on at most is taken. */
export function addLoadMetrics(registry: Registry, gate: Pick<LoadGate, 'present'>): void {
  const load = new Gauge({
    name: 'farebox_load',
    help: 'Bytes of request bodies in memory, and paying requests under way, which are bounded by MAXIMUM_BODY_MEGABYTES and MAXIMUM_HELD_CONNECTIONS',
    labelNames: ['of'],
    registers: [registry],
    collect: () => {
      const { bodyBytes, heldConnections } = gate.present()
      load.set({ of: 'body_bytes' }, bodyBytes)
      load.set({ of: 'held_connections' }, heldConnections)
    },
  })
}
