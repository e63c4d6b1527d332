import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '#shared/runtime/logger.ts'
import { Forbidden } from '../sessions/forbidden.ts'
import { type Problem, sendProblem } from './console.ts'

interface FailureDependencies {
  readonly logger: Logger
  readonly isDependencyFailure: (error: unknown) => boolean
}

/** Answers everything that is thrown, and paths without a page. During an outage a page reads itself again. */
export function addFailures(app: FastifyInstance, { logger, isDependencyFailure }: FailureDependencies): void {
  app.setErrorHandler(async (error, request, reply) => {
    const problem = isDependencyFailure(error) ? OUTAGE : problemOf(error)
    if (problem.status >= 500)
      logger.error('a page of the console failed', { route: request.routeOptions.url ?? 'unknown', error })
    return await sendProblem(request, reply, problem)
  })
  app.setNotFoundHandler(async (request, reply) => await sendProblem(request, reply, UNKNOWN))
}

/** Answers a path that cannot be decoded, before there is a session or a page. */
export function answerUnreadable(_error: unknown, _request: FastifyRequest, reply: FastifyReply): void {
  void reply
    .status(400)
    .headers({
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    })
    .send('The path contains invalid percent-encoding. Open /operator.')
}

const OUTAGE: Problem = {
  status: 503,
  title: 'The database does not answer',
  sentence: 'Nothing can be shown or changed until it does. This page opens by itself then.',
}
const UNKNOWN: Problem = { status: 404, title: 'Not found', sentence: 'The console has no such page.' }
const FAILURE: Problem = {
  status: 500,
  title: 'This page failed',
  sentence: 'Nothing was changed. The console’s log has the reason.',
}

function problemOf(error: unknown): Problem {
  if (error instanceof Forbidden) return { status: 403, title: 'Not allowed', sentence: error.message }
  const { statusCode, code } = Object(error) as { readonly statusCode?: number; readonly code?: string }
  if (code?.startsWith('FST_CSRF_'))
    return {
      status: 403,
      title: 'This form has expired',
      sentence: 'Nothing was changed. Open the page again and repeat the change.',
    }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return { status: statusCode, title: 'The request cannot be read', sentence: 'Nothing was changed.' }
  return FAILURE
}
