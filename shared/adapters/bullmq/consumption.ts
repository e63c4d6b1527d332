import { z } from 'zod'
import type { JobConsumer, QueueName } from '#shared/jobs/job-queue.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import type { Consumer, QueueEngine } from './queue-engine.ts'

const messageSchema = z.strictObject({ jobId: z.uuid() })

export interface Consumption {
  readonly concurrency: ReadonlyMap<QueueName, number>
  readonly run: (jobId: string) => Promise<void>
  /** The queues that are paused from the beginning. */
  readonly pausedQueues?: ReadonlySet<QueueName> | undefined
  readonly onError: (error: Error) => void
}

/** Consumes the queues once their engine is open; nothing when `engine` resolves to `null`. */
export function startConsumption(engine: Promise<QueueEngine | null>, consumption: Consumption): JobConsumer {
  const active = new Map([...consumption.concurrency.keys()].map((name) => [name, 0]))
  let paused: ReadonlySet<QueueName> = consumption.pausedQueues ?? new Set()
  let started: ReadonlyMap<QueueName, Consumer> = new Map()
  const start = async () => {
    const opened = await engine
    if (!opened) return
    started = startConsumers(opened, consumption, active)
    pauseConsumers(started, paused, consumption.onError)
  }
  const starting = start()
  return {
    pause: (queues) => {
      paused = queues
      pauseConsumers(started, paused, consumption.onError)
    },
    activeJobs: () => new Map(active),
    close: async (deadlineMs) => {
      await starting
      await closeWithin([...started.values()], deadlineMs)
    },
  }
}

function startConsumers(
  engine: QueueEngine,
  { concurrency, run, onError }: Consumption,
  active: Map<QueueName, number>,
): ReadonlyMap<QueueName, Consumer> {
  const count = (name: QueueName, change: 1 | -1) => active.set(name, (active.get(name) ?? 0) + change)
  const consumers = new Map(
    [...concurrency].map(([name, limit]) => {
      const handle = async ({ data }: { readonly data: unknown }) => {
        count(name, 1)
        try {
          await run(messageSchema.parse(data).jobId)
        } finally {
          count(name, -1)
        }
      }
      return [name, engine.createConsumer(name, limit, handle)]
    }),
  )
  for (const consumer of consumers.values()) {
    consumer.on('error', onError)
    consumer.on('failed', (_, error) => onError(error))
  }
  return consumers
}

/** Takes effect before it returns: a consumer that is paused as soon as it is created never takes a job. */
function pauseConsumers(
  consumers: ReadonlyMap<QueueName, Consumer>,
  paused: ReadonlySet<QueueName>,
  onError: (error: Error) => void,
): void {
  for (const [name, consumer] of consumers) {
    if (paused.has(name) === consumer.isPaused()) continue
    const changed = paused.has(name) ? consumer.pause(true) : consumer.resume()
    changed.catch(onError)
  }
}

/**
 * Waits for running jobs until the deadline; the lease of a job that outlives it stays valid. BullMQ cannot turn a
 * waiting close into a forced one, so the consumers' connections then stay open until the process ends.
 */
async function closeWithin(consumers: readonly Consumer[], deadlineMs: number): Promise<void> {
  const closed = Promise.all(consumers.map((consumer) => consumer.close()))
  await withDeadline(deadlineMs, closed, () => undefined)
}
