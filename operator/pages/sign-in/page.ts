import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { LONGEST_PASSWORD, OPERATOR_NAME } from '#shared/operators/operator-account.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { sendView } from '../../rendering/console.ts'
import { requireSameOrigin } from '../../rendering/forms.ts'
import { addAction, done } from '../../rendering/page.ts'
import { checkPassword, throttledSentence } from '../../sessions/check-password.ts'
import { rememberDevice } from '../../sessions/known-device.ts'
import { type SessionDependencies, SIGN_IN_PATH, startSession, stopSession } from '../../sessions/session.ts'

export interface SignInDependencies extends SessionDependencies {
  readonly logger: Logger
  readonly now: () => Date
}

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
  const checked = await checkPassword(sessions, request, name, password)
  if (checked.outcome === 'throttled') {
    logger.warn('throttled a sign-in')
    await events.signIn('throttled', checked.account, request.ip)
    reply.header('retry-after', String(checked.retryAfterSeconds))
    const problem = throttledSentence(checked.retryAfterSeconds)
    return await showForm(request, reply, { ...form, status: 429, problem })
  }
  const account = checked.outcome === 'right' ? checked.account.name : checked.account
  if (checked.outcome === 'right') {
    const isOpen = await startSession(dependencies, request, reply, { ...checked.account, device: checked.device })
    if (isOpen) {
      await rememberDevice(reply, checked.account.name, now())
      await events.signIn('opened', account, request.ip)
      return reply.redirect(form.next, 303)
    }
  }
  // An unknown name may be a password that was typed into the wrong field.
  logger.warn('a sign-in failed', account === null ? {} : { operator: account })
  await events.signIn('refused', account, request.ip)
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
