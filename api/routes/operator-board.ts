import type { FastifyInstance, FastifyPluginCallback } from 'fastify'
import type { Allowances } from '../plugins/allowances.ts'
import { addOperatorAuthentication } from '../plugins/operator-authentication.ts'

/** Path of the queue board. */
export const OPERATOR_BOARD_PATH = '/operator/queues'

/** The pages load only their own files, style their elements inline, and are never framed. */
const PAGE_POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"

export interface OperatorBoard {
  /** The token that operators present. */
  readonly token: string
  /** The pages, to be registered below OPERATOR_BOARD_PATH. */
  readonly pages: FastifyPluginCallback
}

/** Adds the queue board behind operator authentication; without a token the route does not exist. */
export async function addOperatorBoard(
  app: FastifyInstance,
  board: OperatorBoard | null,
  allowances: Allowances,
): Promise<void> {
  if (!board) return
  await app.register(
    async (scope) => {
      scope.addHook('onRequest', (_request, reply, done) => {
        reply.headers({ 'content-security-policy': PAGE_POLICY, 'x-frame-options': 'DENY' })
        done()
      })
      const { errorHandler } = scope
      // The pages install an error handler that answers every error with an undocumented 500.
      scope.addHook('onRoute', (route) => {
        route.errorHandler = errorHandler
      })
      addOperatorAuthentication(scope, board.token, allowances)
      await scope.register(board.pages)
    },
    { prefix: OPERATOR_BOARD_PATH },
  )
}
