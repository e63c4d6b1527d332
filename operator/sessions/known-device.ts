import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { KnownDevice } from '#shared/ledger/operators/sign-in.ts'
import './request.ts'

const ID_BYTES = 16
const LIFETIME_SECONDS = 180 * 86_400

/**
 * Lets a browser that has signed in be known to the account from now on, under a new id each time: OWASP's device cookies.
 * "The main idea behind the protocol is to issue a special 'device' cookie to every client (browser) when it is used to
 * successfully authenticate a user in a system", by which untrusted clients are locked out together and "trusted clients
 * individually" (owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies, read in November 2026).
 * It opens nothing: without it a browser is a stranger's, with it the password is still needed.
 */
export async function rememberDevice(reply: FastifyReply, operator: string, now: Date): Promise<void> {
  const { consoleCookies: cookies } = reply.server
  const text = `${now.getTime()} ${randomBytes(ID_BYTES).toString('base64url')}`
  const value = await cookies.sign(purposeOf(operator), text)
  reply.setCookie(cookies.deviceOf(operator), value, { maxAge: LIFETIME_SECONDS })
}

/** Returns the browser that a request comes from, where an operator has signed in with it; `null` for any other. */
export async function findDevice(request: FastifyRequest, operator: string, now: Date): Promise<KnownDevice | null> {
  const { consoleCookies: cookies } = request.server
  const text = await cookies.verify(purposeOf(operator), request.cookies[cookies.deviceOf(operator)])
  const [milliseconds, id] = text?.split(' ') ?? []
  if (id === undefined) return null
  const knownSince = new Date(Number(milliseconds))
  const isTooOld = now.getTime() - knownSince.getTime() > LIFETIME_SECONDS * 1000
  return isTooOld ? null : { id, knownSince }
}

function purposeOf(operator: string): string {
  return `device of ${operator}`
}
