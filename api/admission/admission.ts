import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import type { Lease, LoadGate } from './load-gate.ts'
import type { PayingCheck } from './paying-callers.ts'
import type { ReadQueueAge } from './queue-age.ts'

interface Dependencies {
  readonly gate: LoadGate
  readonly isPaying: PayingCheck
  readonly queueAge: ReadQueueAge
  readonly mp3Inspector: Pick<Mp3Inspector, 'unpaidRetryAfterSeconds'>
  readonly store: Pick<AdmissionStore, 'hasJob'>
}

/** Which work a request asks for; `null` when its body only tells. */
export interface WorkToAdmit {
  readonly operation: AnyOperation | null
  readonly idempotencyKey: string | null
}

/** Lets requests in, as long as there is room for them, before their bodies are read. */
export interface Admission {
  /** Throws `overloaded` (503). The request counts until it is answered or its caller is gone. */
  admit(request: FastifyRequest, reply: FastifyReply, work: WorkToAdmit): Promise<void>
  /** Of a request that was admitted; `undefined` of any other. */
  leaseOf(request: FastifyRequest): Lease | undefined
}

export function createAdmission(dependencies: Dependencies): Admission {
  const { gate, isPaying, queueAge, mp3Inspector, store } = dependencies
  const leases = new WeakMap<FastifyRequest, Lease>()
  return {
    leaseOf: (request) => leases.get(request),
    admit: async (request, reply, { operation, idempotencyKey }) => {
      const lease = await gate.admit({
        isPaying: isPaying(request),
        announcedBytes: announcedBytes(request),
        decoderRetryAfterSeconds: operation?.upload ? mp3Inspector.unpaidRetryAfterSeconds() : null,
        queueAgeMs: async () => (operation ? await queueAge(operation.id) : 0),
        hasJob: async () => idempotencyKey !== null && (await store.hasJob(idempotencyKey)),
      })
      leases.set(request, lease)
      if (reply.raw.closed) lease.release()
      else reply.raw.once('close', () => lease.release())
    },
  }
}

/** A body beyond its limit is refused when it is to be read; it takes no room. */
function announcedBytes({ headers, routeOptions }: FastifyRequest): number {
  const announced = Number(headers['content-length'] ?? 0)
  return announced > routeOptions.bodyLimit ? 0 : announced
}
