import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Operator, Role } from '#shared/operators/operator-account.ts'
import '../sessions/request.ts'
import { Forbidden } from '../sessions/forbidden.ts'
import type { Moved, NotFound, View } from './outcomes.ts'

/** Reads a page with the parameters of its path and an unchecked query. */
export type ReadPage = (
  params: Readonly<Record<string, string>>,
  query: unknown,
  operator: Operator,
) => Promise<View | NotFound | Moved | { readonly invalidQuery: string }>

const pages = new WeakMap<FastifyInstance['consoleRoutes'], Map<string, ReadPage>>()

/** Remembers how to read a page, for actions whose form is on it. */
export function rememberPage(app: FastifyInstance, path: string, read: ReadPage): void {
  const known = pages.get(app.consoleRoutes) ?? new Map<string, ReadPage>()
  pages.set(app.consoleRoutes, known.set(path, read))
}

/** Throws when no page has this path, which is a mistake in an action. */
export function pageOf(app: FastifyInstance, path: string): ReadPage {
  const read = pages.get(app.consoleRoutes)?.get(path)
  if (!read) throw new Error(`no page has the path ${path}`)
  return read
}

/** Returns who is signed in. The session hook has refused everybody else before. */
export function requireOperator({ operator }: FastifyRequest): Operator {
  if (!operator) throw new Error('a page without a session hook')
  return operator
}

export function requireRole(request: FastifyRequest, role: Role): void {
  if (role === 'act' && requireOperator(request).role !== 'act')
    throw new Forbidden('Your account may read everything, but not act.')
}
