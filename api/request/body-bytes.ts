import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'

/** Follows the arrival of a body, and may end it. */
export interface BodyArrival {
  /** Records how many bytes have arrived. Throws `overloaded` when there is no room for them. */
  count(arrivedBytes: number): void
  /** Registers the function that ends the reading of a body that arrives too slowly. */
  onTooSlow(stop: (error: AppError) => void): void
}

/** The arrival of a body that only its length limits. */
export const UNLIMITED_ARRIVAL: BodyArrival = { count: () => undefined, onTooSlow: () => undefined }

/**
 * Reads a body into a separate buffer that can be transferred to a thread. Throws `body_too_large` as soon as the limit
 * is exceeded, and whatever `arrival` throws or reports.
 */
export async function readBodyBytes(
  request: FastifyRequest,
  payload: NodeJS.ReadableStream,
  arrival: BodyArrival,
): Promise<Buffer> {
  const { bodyLimit } = request.routeOptions
  const announced = request.headers['content-length']
  const announcedBytes = announced === undefined ? null : Number(announced)
  if (announcedBytes !== null && announcedBytes > bodyLimit) throw new AppError('body_too_large')
  const collected = collectBytes(announcedBytes ?? bodyLimit)
  let arrivedBytes = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  arrival.onTooSlow(reject)
  const onData = (chunk: Buffer) => {
    arrivedBytes += chunk.length
    try {
      if (arrivedBytes > bodyLimit) throw new AppError('body_too_large')
      arrival.count(arrivedBytes)
      collected.add(chunk)
    } catch (error) {
      // Bytes that still arrive are not collected.
      payload.off('data', onData)
      reject(error)
    }
  }
  const onEnd = () => {
    payload.off('close', onAborted)
    resolve()
  }
  // A stream that fails or is destroyed emits no `end`.
  const onAborted = (cause?: unknown) =>
    reject(new AppError('invalid_json', { message: 'The connection closed before the whole body had arrived.', cause }))
  payload.on('data', onData).on('end', onEnd).on('error', onAborted).on('close', onAborted)
  try {
    payload.resume()
    await promise
    if (announcedBytes !== null && arrivedBytes !== announcedBytes) throw new AppError('invalid_json')
    return collected.toBuffer()
  } catch (error) {
    collected.discard()
    throw error
  } finally {
    // Not destroyed: the caller, who is still sending, must be able to read the error response.
    payload.off('data', onData).off('end', onEnd).off('close', onAborted)
  }
}

const FIRST_CAPACITY_BYTES = 64 * 1024

/**
 * Returns the size of the memory for a body of at most `maximumBytes`, of which `arrivedBytes` have arrived: it is
 * doubled whenever it is full. Announcing a large body therefore takes little memory until the bytes follow. The sizes
 * are the maximum halved several times, so that no body is copied once more shortly before it is complete.
 */
export function capacityFor(arrivedBytes: number, maximumBytes: number): number {
  if (arrivedBytes <= FIRST_CAPACITY_BYTES) return Math.min(FIRST_CAPACITY_BYTES, maximumBytes)
  let capacity = maximumBytes
  while (Math.ceil(capacity / 2) >= arrivedBytes) capacity = Math.ceil(capacity / 2)
  return capacity
}

/**
 * Collects at most `maximumBytes` bytes in memory that grows with them. Growing copies each byte once on average and
 * frees the previous memory immediately.
 */
export function collectBytes(maximumBytes: number) {
  let memory = new ArrayBuffer(capacityFor(0, maximumBytes))
  let end = 0
  return {
    add: (chunk: Buffer) => {
      const capacity = capacityFor(end + chunk.length, maximumBytes)
      if (capacity > memory.byteLength) memory = memory.transfer(capacity)
      end += chunk.copy(new Uint8Array(memory), end)
    },
    /** Returns the collected bytes. Ends the collection. */
    toBuffer: () => {
      if (memory.byteLength - end > FORM_OVERHEAD_BYTES) memory = memory.transfer(end)
      return Buffer.from(memory, 0, end)
    },
    /** Frees the memory of a body that is no longer needed, without waiting for the garbage collector. */
    discard: () => {
      memory = memory.transfer(0)
    },
  }
}

/** How much larger an upload's buffer may be than the upload: the rest of its form. */
const FORM_OVERHEAD_BYTES = 64 * 1024

/**
 * Returns the buffer of a large array for transfer to another thread, or nothing when other arrays may share it, as
 * small ones do.
 */
export function transferableMemoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  const isOwn = byteLength > FORM_OVERHEAD_BYTES && buffer.byteLength - byteLength <= FORM_OVERHEAD_BYTES
  return isOwn && buffer instanceof ArrayBuffer ? [buffer] : []
}
