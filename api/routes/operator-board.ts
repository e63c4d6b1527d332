import type { FastifyInstance, FastifyPluginCallback } from 'fastify'
import { addOperatorAuthentication } from '../plugins/operator-authentication.ts'

/** Path of the queue board. */
export const OPERATOR_BOARD_PATH = '/operator/queues'

export interface OperatorBoard {
  /** The token that operators present. */
  readonly token: string
  /** The pages, to be registered below OPERATOR_BOARD_PATH. */
  readonly pages: FastifyPluginCallback
}

/** Adds the queue board behind operator authentication; without a token the route does not exist. */
export async function addOperatorBoard(app: FastifyInstance, board: OperatorBoard | null): Promise<void> {
  if (!board) return
  await app.register(
    async (scope) => {
      addOperatorAuthentication(scope, board.token)
      await scope.register(board.pages)
    },
    { prefix: OPERATOR_BOARD_PATH },
  )
}
