import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import { collectBytes } from './byte-buffer.ts'

/**
 * Reads a body into a separate buffer that can be transferred to a thread. Throws `body_too_large` as soon as the limit
 * is exceeded. `onBytes` is called for every chunk, and what it throws ends the reading.
 */
export async function readBodyBytes(
  request: FastifyRequest,
  payload: NodeJS.ReadableStream,
  onBytes: (arrivedBytes: number) => void,
): Promise<Buffer> {
  const { bodyLimit } = request.routeOptions
  const announced = request.headers['content-length']
  const announcedBytes = announced === undefined ? null : Number(announced)
  if (announcedBytes !== null && announcedBytes > bodyLimit) throw new AppError('body_too_large')
  const collected = collectBytes(announcedBytes)
  let arrivedBytes = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (chunk: Buffer) => {
    arrivedBytes += chunk.length
    try {
      if (arrivedBytes > bodyLimit) throw new AppError('body_too_large')
      onBytes(arrivedBytes)
      collected.add(chunk)
    } catch (error) {
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
  } finally {
    // Not destroyed: the caller, who is still sending, must be able to read the error response.
    payload.off('data', onData).off('end', onEnd).off('close', onAborted)
  }
}
