import { randomBytes } from 'node:crypto'
import { fastifyCookie } from '@fastify/cookie'
import { fastifyCsrfProtection } from '@fastify/csrf-protection'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Operator } from '#shared/operators/operator-account.ts'
import { clientGroup } from '#shared/runtime/client-address.ts'
import { createCookies } from './cookies.ts'
import type { SessionEvents } from './events.ts'
import './request.ts'

const TOKEN_BYTES = 32
const LIFETIME_SECONDS = 12 * 3600
const IDLE_SECONDS = 3600

export const SIGN_IN_PATH = '/operator/sign-in'

export interface SessionDependencies {
  readonly sessions: OperatorStore
  readonly events: SessionEvents
  /** Whether the console is reached over TLS, so that browsers send its cookies over nothing else. */
  readonly isSecure: boolean
}

/**
 * Requires a session on every route that is not public. CSRF tokens are derived from the session's token, so they end
 * with it; before a sign-in the cookie holds a random value that opens nothing.
 */
export async function addSessions(app: FastifyInstance, dependencies: SessionDependencies): Promise<void> {
  const cookies = createCookies(dependencies.isSecure, dependencies.sessions)
  app.decorate('consoleCookies', cookies)
  app.decorate('sessionEvents', dependencies.events)
  await app.register(fastifyCookie, { parseOptions: cookies.options })
  await app.register(fastifyCsrfProtection, {
    cookieKey: cookies.session,
    cookieOpts: cookies.options,
    getToken: ({ body }) => (Object(body) as Record<string, string>)['_csrf'],
  })
  app.decorateRequest('operator', null)
  app.addHook('onRequest', async (request, reply) => {
    if (isVisitFromAnotherSite(request)) return reply.type('text/html; charset=utf-8').send(OPEN_AGAIN)
    if (request.routeOptions.config.isPublic) return
    const token = request.cookies[cookies.session]
    request.operator =
      token === undefined ? null : await dependencies.sessions.useSession(sha256Hex(token), IDLE_SECONDS)
    if (!request.operator) return sendToSignIn(request, reply)
  })
}

/** Browsers keep a `SameSite=Strict` cookie back on the way from another site, and send it when this page opens itself. */
const OPEN_AGAIN = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>farebox</title>
<p><a href="">Open the console</a></p></html>
`

/** Returns whether a link on another site was followed: answering with a sign-in would replace an open session. */
function isVisitFromAnotherSite({ method, headers, cookies, server }: FastifyRequest): boolean {
  const isFollowed = headers['sec-fetch-site'] === 'cross-site' && headers['sec-fetch-mode'] === 'navigate'
  return method === 'GET' && isFollowed && cookies[server.consoleCookies.session] === undefined
}

function sendToSignIn(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // A page that reads itself again in the background is opened again as a whole, which leads to the sign-in.
  if (request.headers['hx-request'] !== undefined) return reply.status(204).header('hx-refresh', 'true').send()
  const isPage = request.method === 'GET' || request.method === 'HEAD'
  const next = isPage ? `?next=${encodeURIComponent(request.url)}` : ''
  return reply.redirect(`${SIGN_IN_PATH}${next}`, 303)
}

/**
 * Opens a session under a new token, whatever cookie the browser sent, and ends the one that it replaces. Returns `false`
 * when the account has changed since its password was checked.
 */
export async function startSession(
  { sessions }: Pick<SessionDependencies, 'sessions'>,
  request: FastifyRequest,
  reply: FastifyReply,
  { name, passwordHash, device }: Operator & { readonly passwordHash: string; readonly device: string | null },
): Promise<boolean> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const { session } = request.server.consoleCookies
  const previous = request.cookies[session]
  const isOpen = await sessions.openSession({
    operator: name,
    passwordHash,
    // As sign-ins are counted: a host has a whole /64 of IPv6.
    address: clientGroup(request.ip),
    device,
    tokenSha256: sha256Hex(token),
    lifetimeSeconds: LIFETIME_SECONDS,
    replaces: previous === undefined ? null : sha256Hex(previous),
  })
  if (isOpen) reply.setCookie(session, token)
  return isOpen
}

/** Ends the session of a request. */
export async function stopSession(
  { sessions }: Pick<SessionDependencies, 'sessions'>,
  request: FastifyRequest,
): Promise<void> {
  const token = request.cookies[request.server.consoleCookies.session]
  if (token !== undefined) await sessions.endSession(sha256Hex(token))
}
