import '@fastify/csrf-protection'
import '../sessions/request.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Author } from '#shared/operators/author.ts'
import type { Operator, Role } from '#shared/operators/operator-account.ts'
import { Forbidden } from '../sessions/forbidden.ts'
import { sendProblem, sendView } from './console.ts'
import { enteredFields, fieldErrorsOf, requireSameOrigin } from './forms.ts'
import { leaveNotice } from './notice.ts'
import type { Asked, Done, Moved, NotFound, Refused, View } from './outcomes.ts'

/** Reads a page with the parameters of its path and an unchecked query. */
type ReadPage = (
  params: Readonly<Record<string, string>>,
  query: unknown,
  operator: Operator,
) => Promise<View | NotFound | Moved | { readonly invalidQuery: string }>

const pages = new WeakMap<FastifyInstance['consoleRoutes'], Map<string, ReadPage>>()

export { asked, done, moved, notFound, refused } from './outcomes.ts'

/** The parameters in a path: `/operator/payments/:id` has `{ id: string }`. */
export type ParametersOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Record<Name, string> & ParametersOf<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Record<Name, string>
    : unknown

interface Page<Path extends string, Query extends z.ZodObject> {
  readonly path: Path
  /** Filters; give each a default or `.catch(…)` where an old link should still open. */
  readonly query: Query
  /** Whether the page reads itself again every few seconds. */
  readonly isLive?: boolean
  readonly read: (
    input: { readonly params: ParametersOf<Path>; readonly query: z.infer<Query> },
    operator: Operator,
  ) => Promise<View | NotFound | Moved>
}

/** Adds a page, which every operator sees. */
export function addPage<Path extends string, Query extends z.ZodObject>(
  app: FastifyInstance,
  { path, query: querySchema, isLive = false, read }: Page<Path, Query>,
): void {
  const readPage: ReadPage = async (params, query, operator) => {
    const parsed = querySchema.safeParse(query)
    if (!parsed.success) return { invalidQuery: z.prettifyError(parsed.error) }
    return await read({ params: params as ParametersOf<Path>, query: parsed.data }, operator)
  }
  rememberPage(app, path, readPage)
  app.consoleRoutes.push({ kind: 'page', path })
  app.get(path, async (request, reply) => {
    const shown = await readPage(request.params as Record<string, string>, request.query, requireOperator(request))
    return await sendOutcome(request, reply, shown, { isLive })
  })
}

interface Download<Path extends string, Query extends z.ZodObject> {
  readonly path: Path
  readonly query: Query
  readonly read: (
    input: { readonly params: ParametersOf<Path>; readonly query: z.infer<Query> },
    operator: Operator,
  ) => Promise<
    | {
        readonly fileName: string
        readonly contentType: string
        readonly body: string | NodeJS.ReadableStream
      }
    | NotFound
  >
}

/** Adds a file that is saved, such as a CSV. Who saved it is recorded before the first byte is sent. */
export function addDownload<Path extends string, Query extends z.ZodObject>(
  app: FastifyInstance,
  { path, query: querySchema, read }: Download<Path, Query>,
): void {
  app.consoleRoutes.push({ kind: 'download', path })
  app.get(path, async (request, reply) => {
    const query = querySchema.safeParse(request.query)
    if (!query.success) return await sendOutcome(request, reply, { invalidQuery: z.prettifyError(query.error) }, {})
    const params = request.params as ParametersOf<Path>
    const operator = requireOperator(request)
    const file = await read({ params, query: query.data }, operator)
    if ('notFound' in file) return await sendOutcome(request, reply, file, {})
    await app.sessionEvents.download(operator.name, request.url)
    return reply
      .header('content-type', file.contentType)
      .header('content-disposition', `attachment; filename="${file.fileName.replace(/[^\w.-]/g, '_')}"`)
      .send(file.body)
  })
}

interface Action<Path extends string, Fields extends z.ZodObject> {
  readonly path: Path
  /** The fields of the form. All arrive as text. */
  readonly fields: Fields
  /**
   * The path of the page with the form, which is shown again with what was entered when the action is refused. Its
   * parameters are those of the action's path with the same names.
   */
  readonly page: string
  /** The role that the action needs, `act` by default. */
  readonly role?: Role
  readonly run: (
    input: { readonly params: ParametersOf<Path>; readonly fields: z.infer<Fields> },
    author: Author,
    request: FastifyRequest,
  ) => Promise<Done | Asked | Refused | NotFound>
}

/**
 * Adds a change by a form. Checks session, role, origin and CSRF token, and validates the fields. A refusal shows the
 * form again with what was entered and why (422); a change redirects (303) to a page that shows its sentence. One that is
 * confirmed first is asked about by a page with a second form, which sends the same action with more fields.
 */
export function addAction<Path extends string, Fields extends z.ZodObject>(
  app: FastifyInstance,
  { path, fields: schema, page, role = 'act', run }: Action<Path, Fields>,
): void {
  app.consoleRoutes.push({ kind: 'action', path })
  app.post(
    path,
    {
      onRequest: requireSameOrigin,
      preHandler: [
        async (request) => requireRole(request, role),
        (request, reply, done) => app.csrfProtection(request, reply, done),
      ],
    },
    async (request, reply) => {
      const operator = requireOperator(request)
      const parsed = schema.safeParse(request.body)
      const params = request.params as ParametersOf<Path>
      const outcome = parsed.success
        ? await run({ params, fields: parsed.data }, { operator: operator.name, source: 'console' }, request)
        : { outcome: 'refused' as const, sentence: 'Nothing was changed.', fieldErrors: fieldErrorsOf(parsed.error) }
      if ('notFound' in outcome) return await sendOutcome(request, reply, outcome, {})
      if (outcome.outcome === 'asked') return await sendOutcome(request, reply, outcome.page, {})
      if (outcome.outcome === 'done') {
        await leaveNotice(request, reply, outcome.sentence)
        return reply.redirect(outcome.location, 303)
      }
      return await showAgain(request, reply, page, outcome)
    },
  )
}

/** Shows the page of a refused form again, with the filters that it had. */
async function showAgain(
  request: FastifyRequest,
  reply: FastifyReply,
  page: string,
  { sentence, fieldErrors }: Refused,
): Promise<FastifyReply> {
  const entered = enteredFields(request.body)
  const query = Object.fromEntries(new URLSearchParams(entered['_query'] ?? ''))
  const params = request.params as Record<string, string>
  const shown = await pageOf(request.server, page)(params, query, requireOperator(request))
  const refusal = { action: request.url, sentence, fieldErrors, entered }
  return await sendOutcome(request, reply, shown, { status: 422, refusal, query })
}

async function sendOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  shown: Awaited<ReturnType<ReadPage>>,
  options: Pick<Parameters<typeof sendView>[2], 'status' | 'refusal' | 'isLive' | 'query'>,
): Promise<FastifyReply> {
  if ('movedTo' in shown) return reply.redirect(shown.movedTo, 303)
  if ('invalidQuery' in shown)
    return await sendProblem(request, reply, {
      status: 400,
      title: 'This link is not valid',
      sentence: shown.invalidQuery,
    })
  if ('notFound' in shown)
    return await sendProblem(request, reply, { status: 404, title: 'Not found', sentence: shown.notFound })
  return await sendView(request, reply, { ...shown, ...options })
}

/** Remembers how to read a page, for actions whose form is on it. */
function rememberPage(app: FastifyInstance, path: string, read: ReadPage): void {
  const known = pages.get(app.consoleRoutes) ?? new Map<string, ReadPage>()
  pages.set(app.consoleRoutes, known.set(path, read))
}

/** Throws when no page has this path, which is a mistake in an action. */
function pageOf(app: FastifyInstance, path: string): ReadPage {
  const read = pages.get(app.consoleRoutes)?.get(path)
  if (!read) throw new Error(`no page has the path ${path}`)
  return read
}

/** Returns who is signed in. The session hook has refused everybody else before. */
function requireOperator({ operator }: FastifyRequest): Operator {
  if (!operator) throw new Error('a page without a session hook')
  return operator
}

function requireRole(request: FastifyRequest, role: Role): void {
  if (role === 'act' && requireOperator(request).role !== 'act')
    throw new Forbidden('Your account may read everything, but not act.')
}
