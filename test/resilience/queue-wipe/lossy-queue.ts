import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import type { OuterServices } from '../../../infra/sandbox/outer-services.ts'
import { startTestRedis } from '../../support/processes/redis-server.ts'
import type { TestSandbox } from '../../support/processes/test-sandbox.ts'

/** A queue that a campaign can lose. */
export interface LossyQueue {
  /** The sandbox's settings for it; none for its own PostgreSQL. */
  readonly services: OuterServices
  /** Returns the number of messages that are waiting or being processed. */
  count(sandbox: TestSandbox): Promise<number>
  /** Deletes every message and all of the queue's bookkeeping. */
  wipe(sandbox: TestSandbox): Promise<void>
  stop(): Promise<void>
}

export type QueueKind = keyof typeof lossyQueues

export const lossyQueues = { postgres: postgresQueue, redis: redisQueue } as const

const PREFIX = '{farebox-wiped}'

/** Uses the sandbox's own queue, whose tables are truncated, as FLUSHALL empties a Redis. */
async function postgresQueue(): Promise<LossyQueue> {
  return {
    services: {},
    count: async (sandbox) => {
      const [row] = await sandbox.sql<{ count: string }>('SELECT count(*) AS count FROM farebox_queue.job')
      return Number(row?.count)
    },
    wipe: async (sandbox) => {
      const rows = await sandbox.sql<{ name: string }>(
        "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'farebox_queue'",
      )
      const emptied = rows.map(({ name }) => name).filter((name) => !/migration|version/.test(name))
      if (emptied.length === 0) throw new Error('the queue has no tables')
      await sandbox.sql(`TRUNCATE ${emptied.join(', ')} CASCADE`)
    },
    stop: async () => undefined,
  }
}

/** Starts a separate Redis, which also loses the scripts that BullMQ has loaded. */
async function redisQueue(): Promise<LossyQueue> {
  const server = await startTestRedis()
  const { client } = server
  return {
    services: { QUEUE_URL: server.url, QUEUE_PREFIX: PREFIX },
    count: async () => {
      const lists = QUEUE_NAMES.flatMap((name) => [`${PREFIX}:${name}:wait`, `${PREFIX}:${name}:active`])
      const lengths = await Promise.all(lists.map((list) => client.llen(list)))
      return lengths.reduce((sum, one) => sum + one, 0)
    },
    wipe: async () => {
      await client.flushall()
      await client.script('FLUSH')
    },
    stop: () => server.stop(),
  }
}
