import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Admission } from '../admission/admission.ts'
import { readBodyBytes } from '../request/body-bytes.ts'
import { parseJsonBody } from '../request/json-body.ts'
import { SMALL_BODY_BYTES, UnparsedJson } from '../request/worker-threads/request-preparer.ts'

/**
 * JSON bodies: parsed here when they are small, handed to the route as `UnparsedJson` when parsing them would hold everyone
 * up. `undefined` for none: a probe may name JSON and send nothing.
 */
export function addJsonBodies(app: FastifyInstance, { leaseOf }: Pick<Admission, 'leaseOf'>): void {
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: IncomingMessage) => {
    const lease = leaseOf(request)
    const bytes = await readBodyBytes(request, payload, (arrivedBytes) => lease?.count(arrivedBytes))
    if (bytes.length === 0) return undefined
    return bytes.length <= SMALL_BODY_BYTES ? parseJsonBody(bytes) : new UnparsedJson(bytes)
  })
}
