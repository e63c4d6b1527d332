import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import { collectBytes } from './byte-buffer.ts'

/**
 * Reads a body whose size is bounded into memory of its own, of which a thread can take possession. Throws `body_too_large`
 * while it still arrives; `onBytes` may throw too, and is told of every chunk.
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
    payload.off('close', onCut)
    resolve()
  }
  // A stream that errs or is destroyed does not end.
  const onCut = (cause?: unknown) => reject(new AppError('invalid_json', { message: 'The body was cut off.', cause }))
  payload.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut)
  try {
    payload.resume()
    await promise
    if (announcedBytes !== null && arrivedBytes !== announcedBytes) throw new AppError('invalid_json')
    return collected.whole()
  } finally {
    // Not destroyed: the caller must still be able to read the refusal, and sends the rest meanwhile.
    payload.off('data', onData).off('end', onEnd).off('close', onCut)
  }
}
