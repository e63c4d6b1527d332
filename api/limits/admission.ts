import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { clientGroups } from '#shared/runtime/client-address.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { DecoderCaller } from '../request/audio/decoder-queue.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import type { ReadCall } from '../request/call.ts'
import type { LoadGate, RequestedWork, Reservation } from './load-gate.ts'
import type { PayingCallers } from './paying-callers.ts'

interface Dependencies {
  readonly gate: Pick<LoadGate, 'admit' | 'admitRead' | 'requireCapacity' | 'hold' | 'holdWithoutWork'>
  readonly payingCallers: PayingCallers
  readonly queueAge: ReadQueueAge
  readonly mp3Inspector: Pick<Mp3Inspector, 'retryAfterSeconds'>
  /** Called before a recording arrives that probably has to be inspected. */
  readonly expectUpload: () => void
  readonly store: Pick<AcceptanceStore, 'hasJob' | 'findBinding'>
}

/** The work that a request asks for; `operation` is `null` when only the body names it. */
interface WorkToAdmit {
  readonly operation: AnyOperation | null
  readonly idempotencyKey: string | null
}

/** Admits requests before their bodies are read, while there is room for them. */
export interface Admission {
  /** Throws `overloaded` (503). The request counts until it is answered or its caller disconnects. */
  admit(request: FastifyRequest, reply: FastifyReply, work: WorkToAdmit): Promise<void>
  /**
   * Decides in the same way about a call that was read from the body of an admitted request. Returns whether it has
   * priority.
   */
  admitRead(call: ReadCall, work: WorkToAdmit): Promise<boolean>
  /**
   * Throws `overloaded` (503) when the operation's endpoint would not admit an unpaid request of this client now. An
   * upload that was already inspected needs no decoder.
   */
  requireCapacity(request: Pick<FastifyRequest, 'ip'>, operation: AnyOperation, isInspected: boolean): Promise<void>
  /** Returns the reservation of an admitted request; `undefined` for any other. */
  reservationOf(request: FastifyRequest): Reservation | undefined
  /**
   * Takes a slot for a caller whose job is accepted, and returns the function that frees it. Returns `null` when the
   * caller must be answered immediately.
   */
  hold(
    request: Pick<FastifyRequest, 'ip'>,
    job: { readonly jobId: string; readonly payer: string },
  ): (() => void) | null
  /**
   * Takes a slot for a caller who waits without a job of their own, for `subject`. These slots are few, and separate
   * from those of callers whose jobs are accepted.
   */
  holdWithoutWork(request: Pick<FastifyRequest, 'ip'>, subject: string): (() => void) | null
}

export function createAdmission(dependencies: Dependencies): Admission {
  const { gate, payingCallers, queueAge, mp3Inspector, expectUpload, store } = dependencies
  const reservations = new WeakMap<FastifyRequest, Reservation>()
  const decoderRetryAfter = (operation: AnyOperation | null, caller: DecoderCaller) =>
    operation?.upload ? mp3Inspector.retryAfterSeconds(caller) : null
  const workOf = (
    call: Pick<FastifyRequest, 'ip' | 'headers'>,
    { operation, idempotencyKey }: WorkToAdmit,
  ): Omit<RequestedWork, 'body'> => {
    const isPaying = payingCallers.isPaying(call)
    const hasPriority = isPaying && payingCallers.isKnownPayer(call)
    return {
      isPaying,
      hasPriority,
      decoderRetryAfterSeconds: decoderRetryAfter(operation, { client: clientGroups(call.ip), hasPriority }),
      queueAgeMs: async () => (operation ? await queueAge(operation.id) : 0),
      hasJob: async () => idempotencyKey !== null && (await store.hasJob(idempotencyKey)),
      isUninspected: async () => {
        const binding = idempotencyKey === null ? null : await store.findBinding(idempotencyKey)
        return binding?.description?.isReplaced === false
      },
    }
  }
  return {
    reservationOf: (request) => reservations.get(request),
    hold: (request, job) => gate.hold({ ...job, client: clientGroups(request.ip) }),
    holdWithoutWork: (request, subject) => gate.holdWithoutWork({ subject, client: clientGroups(request.ip) }),
    requireCapacity: async ({ ip }, operation, isInspected) => {
      const caller = { client: clientGroups(ip), hasPriority: false }
      const decoderRetryAfterSeconds = isInspected ? null : decoderRetryAfter(operation, caller)
      await gate.requireCapacity({ decoderRetryAfterSeconds, queueAgeMs: async () => await queueAge(operation.id) })
    },
    admitRead: async (call, work) => {
      const requested = workOf(call, work)
      await gate.admitRead(requested)
      return requested.hasPriority
    },
    admit: async (request, reply, work) => {
      const body = { client: clientGroups(request.ip), idempotencyKey: work.idempotencyKey, ...expectedBody(request) }
      const requested = workOf(request, work)
      const reservation = await gate.admit({ ...requested, body })
      // A request with a payment for what was quoted has been inspected, and a probe sends nothing.
      if (work.operation?.upload && !requested.isPaying && body.announcedBytes !== 0) expectUpload()
      reservations.set(request, reservation)
      if (reply.raw.closed) reservation.release()
      else reply.raw.once('close', () => reservation.release())
    },
  }
}

function expectedBody({ raw, headers, routeOptions: { bodyLimit } }: FastifyRequest) {
  const announced = headers['content-length']
  // A body beyond its limit is rejected before it is read and takes no memory.
  const announcedBytes = Number(announced) > bodyLimit ? 0 : Number(announced ?? 0)
  const isChunked = headers['transfer-encoding'] !== undefined
  return { announcedBytes: isChunked ? null : announcedBytes, maximumBytes: bodyLimit, isComplete: () => raw.complete }
}

/** Ages are needed to the second only, so a reading is reused for one second. */
const READING_LIFETIME_MS = 1000

/** Returns how long the oldest waiting job of an operation has waited, in milliseconds; 0 for an empty queue. */
type ReadQueueAge = (operationId: string) => Promise<number>

/**
 * Creates a reader that reads the ages of all queues at most once a second. No request is rejected here because the
 * ledger cannot be read: the steps that need it report that.
 */
export function createQueueAgeReader(
  store: Pick<AcceptanceStore, 'readQueueAges'>,
  logger: Logger,
  monotonicNow: () => number,
): ReadQueueAge {
  let reading: Promise<ReadonlyMap<string, number>> = Promise.resolve(new Map())
  let validUntil = Number.NEGATIVE_INFINITY
  return async (operationId) => {
    if (monotonicNow() >= validUntil) {
      validUntil = Number.POSITIVE_INFINITY
      reading = store
        .readQueueAges()
        .catch((error: unknown) => {
          logger.warn('failed to read the queue ages', { error })
          return new Map<string, number>()
        })
        .finally(() => {
          validUntil = monotonicNow() + READING_LIFETIME_MS
        })
    }
    return (await reading).get(operationId) ?? 0
  }
}
