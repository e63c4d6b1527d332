import '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'

const NOTICE_COOKIE = 'operator_notice'
const LIFETIME_SECONDS = 60
const LONGEST_SENTENCE = 1000

/** Shows a sentence on the next page, which a redirect leads to. */
export function leaveNotice(reply: FastifyReply, sentence: string): void {
  reply.setCookie(NOTICE_COOKIE, Buffer.from(sentence.slice(0, LONGEST_SENTENCE)).toString('base64url'), {
    maxAge: LIFETIME_SECONDS,
  })
}

/** Returns the sentence that an action left, once. */
export function takeNotice(request: FastifyRequest, reply: FastifyReply): string | null {
  const encoded = request.cookies[NOTICE_COOKIE]
  // A page that reads itself again in the background leaves the sentence to the one that a person opens.
  if (encoded === undefined || request.headers['hx-request'] !== undefined) return null
  reply.clearCookie(NOTICE_COOKIE)
  return Buffer.from(encoded, 'base64url').toString('utf8').slice(0, LONGEST_SENTENCE)
}
