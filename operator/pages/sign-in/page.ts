import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { SignInLimits } from '#shared/ledger/operators/sign-in.ts'
import { LONGEST_PASSWORD, OPERATOR_NAME } from '#shared/operators/operator-account.ts'
import { isPassword } from '#shared/operators/password.ts'
import { clientGroup } from '#shared/runtime/client-address.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { sendView } from '../../rendering/console.ts'
import { requireSameOrigin } from '../../rendering/forms.ts'
import { addAction, done } from '../../rendering/page.ts'
import { findDevice, rememberDevice } from '../../sessions/known-device.ts'
import { type SessionDependencies, SIGN_IN_PATH, startSession, stopSession } from '../../sessions/session.ts'

export interface SignInDependencies extends SessionDependencies {
  readonly logger: Logger
  readonly now: () => Date
}

const LIMITS: SignInLimits = { windowSeconds: 900, byAccountAndAddress: 5, byAddress: 20, byAccount: 50, byDevice: 10 }

const fieldsSchema = z.object({
  name: z.string().trim().toLowerCase().regex(OPERATOR_NAME),
  password: z.string().min(1).max(LONGEST_PASSWORD),
  next: z.string().optional(),
})

const START = '/operator'
/** The same for a wrong name and a wrong password, so that neither can be found out alone. */
const WRONG = 'This account and password do not belong together.'

/** Adds the form that opens a session, and the button that ends it. */
export function addSignIn(app: FastifyInstance, dependencies: SignInDependencies): void {
  const isPublic = true
  app.get(SIGN_IN_PATH, { config: { isPublic } }, async (request, reply) => {
    const { next } = Object(request.query) as { next?: unknown }
    return await showForm(request, reply, { status: 200, problem: null, name: '', next: pathOf(next) })
  })
  app.post(
    SIGN_IN_PATH,
    {
      config: { isPublic },
      onRequest: requireSameOrigin,
      preHandler: (request, reply, done) => app.csrfProtection(request, reply, done),
    },
    async (request, reply) => await signIn(dependencies, request, reply),
  )
  addAction(app, {
    path: '/operator/sign-out',
    fields: z.object({}),
    page: '/operator',
    role: 'read',
    run: async (_input, _author, request) => {
      await stopSession(dependencies, request)
      return done('You are signed out.', SIGN_IN_PATH)
    },
  })
}

async function signIn(dependencies: SignInDependencies, request: FastifyRequest, reply: FastifyReply) {
  const entered = Object(request.body) as { name?: string; next?: string }
  const form = { name: entered.name ?? '', next: pathOf(entered.next) }
  const fields = fieldsSchema.safeParse(request.body)
  if (!fields.success) return await showForm(request, reply, { ...form, status: 422, problem: WRONG })
  const { name, password } = fields.data
  const { sessions, events, logger, now } = dependencies
  const device = await findDevice(request, name, now())
  const begun = await sessions.beginSignIn(name, { address: clientGroup(request.ip), device }, LIMITS)
  if (begun.outcome === 'throttled') {
    logger.warn('throttled a sign-in')
    await events.signIn('throttled', begun.account, request.ip)
    const minutes = Math.ceil(begun.retryAfterSeconds / 60)
    const problem = `Too many wrong passwords. Try again in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}.`
    reply.header('retry-after', String(begun.retryAfterSeconds))
    return await showForm(request, reply, { ...form, status: 429, problem })
  }
  const { account } = begun
  const isRight = await isPassword(password, account?.passwordHash ?? null)
  if (account && isRight && (await startSession(dependencies, request, reply, { ...account, device: begun.device }))) {
    await rememberDevice(reply, account.name, now())
    await events.signIn('opened', account.name, request.ip)
    return reply.redirect(form.next, 303)
  }
  // An unknown name may be a password that was typed into the wrong field.
  logger.warn('a sign-in failed', account ? { operator: account.name } : {})
  await events.signIn('refused', account?.name ?? null, request.ip)
  return await showForm(request, reply, { ...form, status: 422, problem: WRONG })
}

async function showForm(
  request: FastifyRequest,
  reply: FastifyReply,
  form: { readonly status: number; readonly problem: string | null; readonly name: string; readonly next: string },
) {
  const { status, ...data } = form
  return await sendView(request, reply, { title: 'Sign in', view: 'sign-in/sign-in', data, status })
}

/** Returns where a sign-in leads to: a page of the console, never another site. */
function pathOf(next: unknown): string {
  return typeof next === 'string' && /^\/operator(?:[/?][\x21-\x5b\x5d-\x7e]*)?$/.test(next) ? next : START
}
