import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { Allowances } from './allowances.ts'

/** Wrong tokens that a client may present; an operator who mistypes is not locked out for long. */
const GUESSES_PER_MINUTE = 10
const GUESSES = 'operator-guesses'

/**
 * Restricts every route of `app`, which should be a separate scope, to requests that present `token`: as a bearer
 * token, or as the password of any user, for which browsers prompt. Others get 401, and 429 after too many wrong tokens
 * from their network. Only reading is allowed.
 */
export function addOperatorAuthentication(app: FastifyInstance, token: string, allowances: Allowances): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const presented = readToken(request.headers.authorization)
    const isWrong = presented !== undefined && !isSame(presented, token)
    if (presented !== undefined) limitGuesses(allowances, request.ip, isWrong)
    if (presented === undefined || isWrong)
      return reply
        .status(401)
        .header('www-authenticate', 'Basic realm="farebox operators", charset="UTF-8"')
        .send({ error: 'operator_token_required' })
    // Browsers also send the password with requests from foreign pages, so no request may change anything.
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return reply.status(405).header('allow', 'GET, HEAD').send({ error: 'read_only' })
  })
}

/** Throws `rate_limited` once the guesses are used up, for the correct token too: otherwise guessing could continue. */
function limitGuesses(allowances: Allowances, address: string, isWrong: boolean): void {
  if (!isWrong && allowances.has(GUESSES, address, GUESSES_PER_MINUTE)) return
  const { retryAfterSeconds } = allowances.take(GUESSES, address, GUESSES_PER_MINUTE)
  if (retryAfterSeconds === null) return
  const message = 'Too many wrong operator tokens from this address. Retry after the delay in Retry-After.'
  throw new AppError('rate_limited', { message, retryAfterSeconds })
}

function readToken(authorization: string | undefined): string | undefined {
  const [, scheme = '', credentials = ''] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization ?? '') ?? []
  if (scheme.toLowerCase() === 'bearer') return credentials
  const [, password] = /^[^:]*:(.*)$/s.exec(Buffer.from(credentials, 'base64').toString('utf8')) ?? []
  return password
}

/**
 * Compares digests: they have the same length, and their comparison does not reveal how much of the token was right.
 */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
