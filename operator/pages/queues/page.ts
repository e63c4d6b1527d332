import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { ControlStore } from '#shared/ledger/configuration/control-store.ts'
import type { ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { MachineryStore } from '#shared/ledger/console/machinery-store.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { addAction, addPage, done, notFound } from '../../rendering/page.ts'

export interface QueuesPageDependencies {
  readonly machinery: MachineryStore
  readonly controls: ControlStore
  readonly processes: Pick<ProcessReportStore, 'readProcesses'>
}

const OLDEST_JOBS = 50

/** Adds the queues: depth and age by queue and node, and what pauses them. */
export function addQueuesPages(app: FastifyInstance, dependencies: QueuesPageDependencies): void {
  addPage(app, {
    path: '/operator/queues',
    query: z.object({}),
    isLive: true,
    read: async () => ({ title: 'Queues', view: 'queues/queues', data: await readQueues(dependencies) }),
  })
  addPage(app, {
    path: '/operator/queues/:queue',
    query: z.object({}),
    isLive: true,
    read: async ({ params }) => {
      const name = queueNamed(params.queue)
      if (!name) return notFound(`There is no queue “${params.queue}”; the queues are ${QUEUE_NAMES.join(', ')}.`)
      const { queues, nodes } = await readQueues(dependencies)
      const oldest = await dependencies.machinery.readOldestJobs(name, OLDEST_JOBS)
      return {
        title: `Queue ${name}`,
        view: 'queues/queue',
        data: { queue: queues.find((queue) => queue.name === name) ?? null, nodes, oldest },
      }
    },
  })
  addSwitch(app, dependencies, { verb: 'pause', isPaused: true })
  addSwitch(app, dependencies, { verb: 'resume', isPaused: false })
}

const queueNamed = (text: string): QueueName | undefined => QUEUE_NAMES.find((name) => name === text)

interface Switch {
  readonly verb: 'pause' | 'resume'
  readonly isPaused: boolean
}

function addSwitch(
  app: FastifyInstance,
  { controls }: Pick<QueuesPageDependencies, 'controls'>,
  { verb, isPaused }: Switch,
): void {
  addAction(app, {
    path: `/operator/queues/:queue/${verb}`,
    page: '/operator/queues/:queue',
    fields: z.object({ reason: z.string().trim().min(1, 'Say why: it is kept with the change.').max(1000) }),
    run: async ({ params, fields }, author) => {
      const queue = queueNamed(params.queue)
      if (!queue) return notFound(`There is no queue “${params.queue}”.`)
      const { outcome } = await controls.controlQueue(author, { queue, isPaused, ...fields })
      const location = `/operator/queues/${queue}`
      // Another operator was first: the form that asked for it is not on the page any more.
      if (outcome === 'unchanged')
        return done(`Nothing was changed: ${queue} is ${isPaused ? 'paused' : 'not paused'} already.`, location)
      const what = isPaused ? 'is paused: workers take no more of its jobs' : 'is resumed'
      return done(`${queue} ${what}. All workers apply this within 2 seconds.`, location)
    },
  })
}

async function readQueues({ machinery, controls, processes }: QueuesPageDependencies) {
  const [totals, switched, seen] = await Promise.all([
    machinery.readQueueTotals(),
    controls.readQueueControls(),
    processes.readProcesses(),
  ])
  const nodes = seen
    .filter(({ kind, isRunning }) => kind === 'worker' && isRunning)
    .map(({ instance, seenAt, report }) => ({ instance, seenAt, queues: report.queues ?? {} }))
  const queues = [...totals].map(([name, counts]) => {
    const control = switched.get(name) ?? null
    const isPaused = control?.isPaused ?? false
    const serving = nodes.flatMap(({ queues: served }) => served[name] ?? [])
    return {
      name,
      ...counts,
      isPaused,
      control,
      workers: serving.length,
      active: sum(serving.map(({ active }) => active)),
      limit: sum(serving.map(({ limit }) => limit)),
      /** Workers that have not applied it yet. */
      behind: serving.filter((reported) => reported.isPaused !== isPaused).length,
    }
  })
  return { queues, nodes, names: QUEUE_NAMES, silent: silentWorkers(seen) }
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** Returns the workers that stopped reporting without saying that they end. */
function silentWorkers(seen: readonly SeenProcess[]): readonly SeenProcess[] {
  return seen.filter(({ kind, isRunning }) => kind === 'worker' && !isRunning)
}
