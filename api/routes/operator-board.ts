import type { FastifyInstance, FastifyPluginCallback } from 'fastify'
import { addOperatorAuthentication } from '../plugins/operator-authentication.ts'

/** Where operators look at the queues. */
export const OPERATOR_BOARD_PATH = '/operator/queues'

export interface OperatorBoard {
  /** What operators present. */
  readonly token: string
  /** The pages, to be registered below OPERATOR_BOARD_PATH. */
  readonly pages: FastifyPluginCallback
}

/** The queues' board behind operator authentication; without a token there is no such route. */
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
