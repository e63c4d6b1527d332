import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import { collectBytes } from './byte-buffer.ts'

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
