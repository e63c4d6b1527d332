import { AppError } from '#shared/errors/app-error.ts'
import { type BodyArrival, capacityFor } from '../request/body-bytes.ts'
import { type ClientGroups, createFairPool, type FairPool, overloaded, SHARE_OF_FREE } from '../request/fair-pool.ts'

/** Memory of a request in addition to its body. */
const REQUEST_OVERHEAD_BYTES = 16 * 1024

/** Bodies up to this size have memory reserved for them, so that large uploads never block a chat request. */
const SMALL_BODY_BYTES = 64 * 1024
const SMALL_BODY_SHARE = 1 / 8

/** A body is not judged slow before this time, which is also the time limit of small ones. */
const SLOW_START_MS = 15_000
/** The average speed that a body must have after that: 0.5 Mbit/s. */
const MINIMUM_BYTES_PER_SECOND = 64 * 1024
/**
 * Speeds are judged once a second. During a longer step the process was blocked and could not read what had arrived, so
 * only this much of the step counts.
 */
const LONGEST_STEP_MS = 2000

/** Bodies are read, and most work is done, within seconds. */
const BODY_RETRY_SECONDS = 2

/** What is known about a body before it is read. */
export interface ExpectedBody {
  readonly client: ClientGroups
  /** The part of the memory that is open to this request. */
  readonly share: number
  /** `null` for a body that does not announce its length. */
  readonly announcedBytes: number | null
  /** The longest body that its endpoint reads. */
  readonly maximumBytes: number
  readonly idempotencyKey: string | null
  /** Returns whether the whole body has arrived. */
  isComplete(): boolean
}

/** The memory of one body. */
export interface BodyReservation extends BodyArrival {
  /** Called when the body is no longer in memory. */
  readonly release: () => void
}

/** The memory for request bodies. */
export interface BodyMemory {
  /** Throws `overloaded` when there is no room for another body. */
  reserve(body: ExpectedBody): BodyReservation
  /** Ends the reading of bodies that arrive too slowly, with `request_timeout`. Called once a second. */
  readonly judgeSpeeds: () => void
  readonly usedBytes: () => number
}

interface ArrivingBody {
  readonly expected: ExpectedBody
  ageMs: number
  arrivedBytes: number
  stop: ((error: AppError) => void) | null
}

/**
 * Creates the memory for `limit` bytes. `now` is monotonic, in milliseconds.
 *
 * Memory is reserved as bytes arrive and not as they are announced: otherwise a few bytes from one stranger would
 * reserve all of it. What a client announces limits only the client itself: as many large bodies at a time as fit into
 * its share, so that those that are admitted complete instead of exhausting the memory together.
 */
export function createBodyMemory(limit: number, now: () => number): BodyMemory {
  const small = createFairPool(limit * SMALL_BODY_SHARE)
  const large = createFairPool(limit * (1 - SMALL_BODY_SHARE))
  const announced = createFairPool(Number.POSITIVE_INFINITY)
  const arriving = new Set<ArrivingBody>()
  const keysOfLargeBodies = new Set<string>()
  let judgedAt = now()

  function poolFor({ client, share }: ExpectedBody, isSmall: boolean, bytes: number): FairPool {
    const pool = (isSmall ? [small, large] : [large]).find((candidate) => candidate.fits(client, bytes, share))
    if (!pool) throw overloaded('The memory for request bodies is in use.', BODY_RETRY_SECONDS)
    return pool
  }

  /** Throws unless the large bodies that this client has announced leave room for another; a lone one always fits. */
  function announceLargeBody({ client, share, ...body }: ExpectedBody): () => void {
    // A body without an announced length counts as a small one; its memory is counted as it arrives.
    const bytes = REQUEST_OVERHEAD_BYTES + (body.announcedBytes ?? SMALL_BODY_BYTES)
    const clientLimit = (limit * (1 - SMALL_BODY_SHARE) * share * SHARE_OF_FREE) / (SHARE_OF_FREE + 1)
    const alreadyAnnounced = Math.max(...client.map((group) => announced.usedBy(group)))
    if (alreadyAnnounced > 0 && alreadyAnnounced + bytes > clientLimit)
      throw overloaded('Too many large bodies of this address are being received.', BODY_RETRY_SECONDS)
    const key = body.idempotencyKey === null ? null : JSON.stringify([client[0], body.idempotencyKey])
    if (key !== null && keysOfLargeBodies.has(key))
      throw overloaded('Another body with this x-idempotency-key is being received.', BODY_RETRY_SECONDS)
    announced.take(client, bytes)
    if (key !== null) keysOfLargeBodies.add(key)
    return () => {
      announced.release(client, bytes)
      if (key !== null) keysOfLargeBodies.delete(key)
    }
  }

  return {
    reserve: (expected) => {
      const { client, announcedBytes, maximumBytes } = expected
      const longest = announcedBytes ?? maximumBytes
      const isLarge = announcedBytes !== null && announcedBytes > SMALL_BODY_BYTES
      const bytesFor = (arrivedBytes: number) => REQUEST_OVERHEAD_BYTES + capacityFor(arrivedBytes, longest)
      let reserved = bytesFor(0)
      let pool = poolFor(expected, !isLarge, reserved)
      let withdraw: (() => void) | null = isLarge ? announceLargeBody(expected) : null
      pool.take(client, reserved)
      const body: ArrivingBody = { expected, ageMs: 0, arrivedBytes: 0, stop: null }
      if (longest > 0) arriving.add(body)
      const release = () => {
        arriving.delete(body)
        pool.release(client, reserved)
        reserved = 0
        withdraw?.()
        withdraw = null
      }
      const resize = (bytes: number, isSmall: boolean) => {
        pool.release(client, reserved)
        reserved = 0
        pool = poolFor(expected, isSmall, bytes)
        if (!isSmall) withdraw ??= announceLargeBody(expected)
        pool.take(client, bytes)
        reserved = bytes
      }
      return {
        count: (arrivedBytes) => {
          body.arrivedBytes = arrivedBytes
          if (arrivedBytes === announcedBytes) arriving.delete(body)
          const bytes = bytesFor(arrivedBytes)
          if (bytes <= reserved) return
          try {
            resize(bytes, arrivedBytes <= SMALL_BODY_BYTES)
          } catch (error) {
            // The rest is not read, and what has arrived makes room for others.
            release()
            throw error
          }
        },
        onTooSlow: (stop) => {
          body.stop = stop
        },
        release,
      }
    },
    judgeSpeeds: () => {
      const stepMs = Math.min(now() - judgedAt, LONGEST_STEP_MS)
      judgedAt = now()
      for (const body of arriving) {
        if (body.expected.isComplete()) arriving.delete(body)
        body.ageMs += stepMs
        const requiredBytes = ((body.ageMs - SLOW_START_MS) / 1000) * MINIMUM_BYTES_PER_SECOND
        if (body.stop === null || body.arrivedBytes >= requiredBytes || !arriving.delete(body)) continue
        body.stop(new AppError('request_timeout'))
      }
    },
    usedBytes: () => small.used() + large.used(),
  }
}
