import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import type { LoadGate, Reservation } from './load-gate.ts'
import type { PayingCheck } from './paying-callers.ts'
import type { ReadQueueAge } from './queue-age.ts'

interface Dependencies {
  readonly gate: LoadGate
  readonly isPaying: PayingCheck
  readonly queueAge: ReadQueueAge
  readonly mp3Inspector: Pick<Mp3Inspector, 'unpaidRetryAfterSeconds'>
  readonly store: Pick<AdmissionStore, 'hasJob'>
}

/** The work that a request asks for; `operation` is `null` when only the body names it. */
export interface WorkToAdmit {
  readonly operation: AnyOperation | null
  readonly idempotencyKey: string | null
}

/** Admits requests before their bodies are read, while there is room for them. */
export interface Admission {
  /** Throws `overloaded` (503). The request counts until it is answered or its caller disconnects. */
  admit(request: FastifyRequest, reply: FastifyReply, work: WorkToAdmit): Promise<void>
  /** Returns the reservation of an admitted request; `undefined` for any other. */
  reservationOf(request: FastifyRequest): Reservation | undefined
}

export function createAdmission(dependencies: Dependencies): Admission {
  const { gate, isPaying, queueAge, mp3Inspector, store } = dependencies
  const reservations = new WeakMap<FastifyRequest, Reservation>()
  return {
    reservationOf: (request) => reservations.get(request),
    admit: async (request, reply, { operation, idempotencyKey }) => {
      const reservation = await gate.admit({
        isPaying: isPaying(request),
        announcedBytes: announcedBytes(request),
        decoderRetryAfterSeconds: operation?.upload ? mp3Inspector.unpaidRetryAfterSeconds() : null,
        queueAgeMs: async () => (operation ? await queueAge(operation.id) : 0),
        hasJob: async () => idempotencyKey !== null && (await store.hasJob(idempotencyKey)),
      })
      reservations.set(request, reservation)
      if (reply.raw.closed) reservation.release()
      else reply.raw.once('close', () => reservation.release())
    },
  }
}

/** Returns 0 for a body beyond its limit, which is rejected before it is read and takes no memory. */
function announcedBytes({ headers, routeOptions }: FastifyRequest): number {
  const announced = Number(headers['content-length'] ?? 0)
  return announced > routeOptions.bodyLimit ? 0 : announced
}
