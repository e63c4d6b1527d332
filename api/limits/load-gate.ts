import type { AppError } from '#shared/errors/app-error.ts'
import { type ClientGroups, overloaded, UNPAID_SHARE } from '../request/fair-pool.ts'
import { type BodyReservation, createBodyMemory, type ExpectedBody } from './body-memory.ts'

/** Limits of the load on one API process. */
export interface LoadLimits {
  /** Bytes of request bodies in memory. */
  readonly bodyBytes: number
  readonly held: HeldLimits
  /** How long accepted work may have waited for a worker. */
  readonly queueAgeMs: number
}

/** A request as known before its body is read. */
export interface RequestedWork {
  /** Whether it carries a payment that is worth verifying. */
  readonly isPaying: boolean
  /** Whether it is admitted beyond the share of unpaid requests: its payer has paid before. */
  readonly hasPriority: boolean
  readonly body: Omit<ExpectedBody, 'share'>
  /** Seconds until a decoder may be free; `null` when one is free now, or none is needed. */
  readonly decoderRetryAfterSeconds: number | null
  /** Returns how long the oldest job of this kind has waited. */
  queueAgeMs(): Promise<number>
  /** Returns whether the request's key already has a job that did not fail: then the request adds no work. */
  hasJob(): Promise<boolean>
  /** Returns whether the request's key is bound by a description of its upload: then the upload must be decoded. */
  isUninspected(): Promise<boolean>
}

/**
 * A request's body in memory, reference-counted: it is freed when every `retain` has been matched by a `release`, or
 * earlier by `releaseBody`.
 */
export interface Reservation extends Omit<BodyReservation, 'release'> {
  readonly hasPriority: boolean
  /** Called when the body is no longer in memory. */
  readonly releaseBody: () => void
  retain(): void
  release(): void
}

export interface LoadGate {
  /**
   * Throws `overloaded` (503) when the work does not fit. Called before the body is read and before any payment is
   * checked.
   */
  admit(work: RequestedWork): Promise<Reservation>
  /** Does the same for work whose body was already read, and is counted by another reservation. */
  admitRead(work: Omit<RequestedWork, 'body'>): Promise<void>
  /** Throws `overloaded` when an unpaid request of this kind would not be admitted, whatever the length of its body. */
  requireCapacity(work: Pick<RequestedWork, 'decoderRetryAfterSeconds' | 'queueAgeMs'>): Promise<void>
  /** Takes a slot for a caller whose job is accepted. None is taken earlier, so refused requests occupy no slot. */
  readonly hold: HeldSlots['take']
  /** Takes one of the few slots of callers who wait for `subject` without a job, apart from those of `hold`. */
  readonly holdWithoutWork: (
    caller: Pick<WaitingCaller, 'client'> & { readonly subject: string },
  ) => (() => void) | null
  /** Ends the reading of bodies that arrive too slowly. Called once a second. */
  readonly judgeSpeeds: () => void
  /** Returns what is reserved now, for metrics and tests. */
  readonly currentLoad: () => { readonly bodyBytes: number; readonly heldConnections: number }
}

/** Time limit from the first byte of a request to the last: 25 MiB at 0.9 Mbit/s. */
export const REQUEST_TIMEOUT_MS = 240_000

/** Callers without a job that may wait, as a share of those with one, and how many of them for one subject. */
const SHARE_WITHOUT_WORK = 1 / 10
const MAXIMUM_PER_SUBJECT = 32

const HELD_RETRY_SECONDS = 5
const MAXIMUM_RETRY_SECONDS = 60

/**
 * Creates the gate, which counts the work in progress in this process and admits what still fits. `now` is monotonic,
 * in milliseconds.
 */
export function createLoadGate(limits: LoadLimits, now: () => number = () => performance.now()): LoadGate {
  const bodies = createBodyMemory(limits.bodyBytes, now)
  const slots = createHeldSlots(limits.held)
  const slotsWithoutWork = createHeldSlots(limitsWithoutWork(limits.held))

  /** Returns the reason why there is no room for new work, or `null`. */
  async function refusalOf(work: Omit<RequestedWork, 'body' | 'hasJob'>): Promise<AppError | null> {
    const { isPaying, hasPriority, decoderRetryAfterSeconds } = work
    const waitingMs = await work.queueAgeMs()
    const share = shareOf(hasPriority)
    // The upload of a signed retry was inspected for its quote, unless it was only described.
    if (decoderRetryAfterSeconds !== null && (!isPaying || (await work.isUninspected())))
      return overloaded('Every audio decoder is busy.', decoderRetryAfterSeconds)
    // Only paid requests take a slot.
    if (isPaying && slots.taken() >= limits.held.total * share)
      return overloaded('Too many paid requests are in progress.', HELD_RETRY_SECONDS)
    if (waitingMs <= limits.queueAgeMs * share) return null
    const seconds = Math.ceil(waitingMs / 2000)
    return overloaded('Accepted work is waiting for a worker.', Math.min(seconds, MAXIMUM_RETRY_SECONDS))
  }

  const admitRead: LoadGate['admitRead'] = async (work) => {
    const refusal = await refusalOf(work)
    // A caller who has already paid is answered regardless of the load.
    if (refusal && !(work.isPaying && (await work.hasJob()))) throw refusal
  }

  return {
    admitRead,
    admit: async (work) => {
      const { hasPriority } = work
      await admitRead(work)
      // No `await` from here on: the request must be counted before the next one is checked.
      return createReservation(hasPriority, bodies.reserve({ ...work.body, share: shareOf(hasPriority) }))
    },
    requireCapacity: async (work) => {
      const refusal = await refusalOf({ ...work, isPaying: false, hasPriority: false, isUninspected: async () => true })
      if (refusal) throw refusal
    },
    hold: slots.take,
    holdWithoutWork: ({ client, subject }) => slotsWithoutWork.take({ client, payer: subject, jobId: subject }),
    judgeSpeeds: bodies.judgeSpeeds,
    currentLoad: () => ({ bodyBytes: bodies.usedBytes(), heldConnections: slots.taken() }),
  }
}

function limitsWithoutWork({ total }: HeldLimits): HeldLimits {
  const all = Math.ceil(total * SHARE_WITHOUT_WORK)
  return { total: all, perClient: Math.ceil(all / 2), perPayer: MAXIMUM_PER_SUBJECT, perJob: MAXIMUM_PER_SUBJECT }
}

function createReservation(hasPriority: boolean, { release, ...arrival }: BodyReservation): Reservation {
  let holders = 1
  return {
    ...arrival,
    hasPriority,
    releaseBody: release,
    retain: () => {
      holders += 1
    },
    release: () => {
      holders -= 1
      if (holders === 0) release()
    },
  }
}

function shareOf(hasPriority: boolean): number {
  return hasPriority ? 1 : UNPAID_SHARE
}

/** Limits of the callers that one process keeps waiting for their results. */
interface HeldLimits {
  readonly total: number
  readonly perPayer: number
  /** Per network of the callers. */
  readonly perClient: number
  readonly perJob: number
}

/** A caller whose job is accepted and whose connection is to be held. */
interface WaitingCaller {
  readonly client: ClientGroups
  readonly payer: string
  readonly jobId: string
}

/** The slots of waiting callers. */
interface HeldSlots {
  /**
   * Takes a slot and returns the function that frees it; `null` when there is none. The caller is then answered with
   * the job's current state and loses nothing: the same request attaches to the job later.
   */
  readonly take: (caller: WaitingCaller) => (() => void) | null
  readonly taken: () => number
}

/** Creates the slots, all of them free. */
function createHeldSlots(limits: HeldLimits): HeldSlots {
  let taken = 0
  const counts = new Map<string, number>()
  return {
    taken: () => taken,
    take: ({ client, payer, jobId }) => {
      const counted: [key: string, limit: number][] = [
        [`job ${jobId}`, limits.perJob],
        [`payer ${payer}`, limits.perPayer],
        ...client.map((group): [string, number] => [`client ${group}`, limits.perClient]),
      ]
      if (taken >= limits.total || counted.some(([key, limit]) => (counts.get(key) ?? 0) >= limit)) return null
      taken += 1
      for (const [key] of counted) counts.set(key, (counts.get(key) ?? 0) + 1)
      return () => {
        taken -= 1
        for (const [key] of counted) {
          const left = (counts.get(key) ?? 0) - 1
          if (left > 0) counts.set(key, left)
          else counts.delete(key)
        }
      }
    },
  }
}
