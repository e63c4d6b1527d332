import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { FastifyAdapter } from '@bull-board/fastify'
import type { Queue } from 'bullmq'
import type { FastifyPluginCallback } from 'fastify'
import type { OpenedJobQueue } from './job-queue.ts'

/**
 * Bull Board over the queues, for reading only: messages hold job ids, and what becomes of a job is decided by its row. Whoever
 * registers it sees to authentication. `basePath` is where its pages will be.
 */
export function createQueueBoard(queue: Pick<OpenedJobQueue, 'producers'>, basePath: string): FastifyPluginCallback {
  const serverAdapter = new FastifyAdapter().setBasePath(basePath)
  const { setQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: { uiConfig: { boardTitle: 'farebox queues' } },
  })
  return (app, _options, done) => {
    // A queue that could not be reached at the start may be there by now.
    app.addHook('onRequest', async () => {
      const producers = (await queue.producers()) as unknown as readonly Queue[]
      setQueues(producers.map((producer) => new BullMQAdapter(producer, { readOnlyMode: true })))
    })
    app.register(serverAdapter.registerPlugin())
    done()
  }
}
