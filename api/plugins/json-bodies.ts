import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Admission } from '../limits/admission.ts'
import { readBodyBytes, UNLIMITED_ARRIVAL } from '../request/body-bytes.ts'
import { parseJsonBody } from '../request/json-body.ts'
import { SMALL_BODY_BYTES } from '../request/worker-threads/messages.ts'
import { type RequestPreparer, UnparsedJson } from '../request/worker-threads/request-preparer.ts'

/**
 * Parses small JSON bodies and passes large ones to the route as `UnparsedJson`, since parsing those would block the
 * event loop. An empty body becomes `undefined`: a probe may announce JSON and send nothing.
 */
export function addJsonBodies(
  app: FastifyInstance,
  { reservationOf }: Pick<Admission, 'reservationOf'>,
  preparer: Pick<RequestPreparer, 'expectBody'>,
): void {
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: IncomingMessage) => {
    // No route reads it, and nothing has reserved memory for it.
    if (request.is404) return undefined
    preparer.expectBody(request.headers)
    const bytes = await readBodyBytes(request, payload, reservationOf(request) ?? UNLIMITED_ARRIVAL)
    if (bytes.length === 0) return undefined
    return bytes.length <= SMALL_BODY_BYTES ? parseJsonBody(bytes) : new UnparsedJson(bytes)
  })
}
