import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { Forbidden } from '../sessions/forbidden.ts'

/** Larger than any catalog or deployments file that an operator edits in a form. */
const MAXIMUM_BODY_BYTES = 4 * 1024 * 1024

/** A NUL character as addresses and forms carry it. PostgreSQL stores none, and no browser sends one that was typed. */
const NUL = /%00|\0/

/** Reads bodies of forms, and of nothing else. Of fields with the same name, the last one counts. */
export function addFormBodies(app: FastifyInstance): void {
  // Not before the session's cookie is read, which the page with the refusal needs.
  app.addHook('preValidation', async ({ url }) => refuseNul(url))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: MAXIMUM_BODY_BYTES },
    async (_request: FastifyRequest, body: string) => {
      refuseNul(body)
      return Object.fromEntries(new URLSearchParams(body))
    },
  )
}

function refuseNul(text: string): void {
  if (NUL.test(text)) throw Object.assign(new Error('a NUL character'), { statusCode: 400 })
}

/**
 * Refuses a change that another site's page sends. Browsers send `Sec-Fetch-Site` to origins that they trust, and
 * `Origin` with every form that is posted.
 */
export async function requireSameOrigin({ headers, host }: FastifyRequest): Promise<void> {
  const { 'sec-fetch-site': site, origin } = headers
  const isSame = site === undefined ? isOriginOf(origin, host) : site === 'same-origin'
  if (!isSame) throw new Forbidden('The form was sent by another site.')
}

function isOriginOf(origin: string | undefined, host: string): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host
}

/** Fields whose content is never sent back. */
const SECRET_FIELD = /password|^_csrf$/i

/** Returns what was entered, without secrets. */
export function enteredFields(body: unknown): Record<string, string> {
  const fields = Object.entries(Object(body) as Record<string, string>)
  return Object.fromEntries(fields.filter(([name]) => !SECRET_FIELD.test(name)))
}

/** Returns the first sentence about each field. */
export function fieldErrorsOf(error: z.ZodError): Record<string, string> {
  return Object.fromEntries(error.issues.toReversed().map(({ path, message }) => [String(path[0]), message]))
}
