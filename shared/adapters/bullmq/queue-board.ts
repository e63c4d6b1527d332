import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { FastifyAdapter } from '@bull-board/fastify'
import type { Queue } from 'bullmq'
import type { FastifyPluginCallback } from 'fastify'
import type { OpenedJobQueue } from './job-queue.ts'

/**
 * Creates Bull Board over the queues, read-only: messages contain only job ids, and a job's state is in its row. The
 * caller adds authentication. `basePath` is the path of its pages.
 */
export function createQueueBoard(queue: Pick<OpenedJobQueue, 'producers'>, basePath: string): FastifyPluginCallback {
  const serverAdapter = new FastifyAdapter().setBasePath(basePath)
  const { setQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: { uiConfig: { boardTitle: 'farebox queues' } },
  })
  return (app, _options, done) => {
    // A queue that could not be reached at startup may be reachable now.
    app.addHook('onRequest', async () => {
      const producers = (await queue.producers()) as unknown as readonly Queue[]
      setQueues(producers.map((producer) => new BullMQAdapter(producer, { readOnlyMode: true })))
    })
    app.register(serverAdapter.registerPlugin())
    done()
  }
}
