import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import '../sessions/request.ts'

const LIFETIME_SECONDS = 60
const LONGEST_SENTENCE = 1000

/** Shows a sentence on the next page, which a redirect leads to. Signed for this browser: no other site can word it. */
export async function leaveNotice(request: FastifyRequest, reply: FastifyReply, sentence: string): Promise<void> {
  const { consoleCookies: cookies } = request.server
  const value = await cookies.sign(purposeOf(request), sentence.slice(0, LONGEST_SENTENCE))
  reply.setCookie(cookies.notice, value, { maxAge: LIFETIME_SECONDS })
}

/** Returns the sentence that an action left, once. */
export async function takeNotice(request: FastifyRequest, reply: FastifyReply): Promise<string | null> {
  const { consoleCookies: cookies } = request.server
  const value = request.cookies[cookies.notice]
  // A page that reads itself again in the background leaves the sentence to the one that a person opens.
  if (value === undefined || request.headers['hx-request'] !== undefined) return null
  // The page that says that the database is down is shown in any case.
  const sentence = await cookies.verify(purposeOf(request), value).catch(() => null)
  reply.clearCookie(cookies.notice)
  return sentence
}

/** The cookie of the session stays the same until somebody signs in. */
function purposeOf({ cookies, server }: FastifyRequest): string {
  return `notice in ${cookies[server.consoleCookies.session] ?? ''}`
}
