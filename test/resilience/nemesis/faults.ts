import { setTimeout as delay } from 'node:timers/promises'
import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import type { TcpFault } from '../../support/http/tcp-fault-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { between, pick } from '../calls/random.ts'
import { type CampaignStack, LEASE_SECONDS } from '../stack/stack.ts'
import { BATCH_KINDS, drawBatchFault, isBatchKind } from './batch-faults.ts'
import { dropPendingTransactions, mine, reorganize, setMining } from './chain-faults.ts'
import type { Fault } from './fault.ts'

/** The drawn fault depends on the stack's parts. */
export type FaultGround = Pick<CampaignStack, 'redis' | 'proxies'>

export const FAULT_KINDS = [
  'kill',
  'freeze',
  'database_restart',
  'connection',
  'upstream',
  'mining',
  'reorg',
  'queue_wipe',
  'port_error',
  'queue_restart',
  ...BATCH_KINDS,
] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

type Random = () => number

const START_PAUSE_MS = 200

type Target = keyof NonNullable<CampaignStack['proxies']>
const TARGETS: readonly Target[] = ['database', 'queue', 'rpc', 'upstream']

const PROCESSES: readonly ServiceName[] = ['api', 'api-2', 'worker', 'worker-2']

export function drawFault(random: Random, kinds: readonly FaultKind[], context: FaultGround): Fault {
  // A queue in PostgreSQL restarts with it; no draw here, so that the seeds of such runs keep their meaning.
  const possible = context.redis ? kinds : kinds.filter((kind) => kind !== 'queue_restart')
  const kind = pick(random, possible)
  if (isBatchKind(kind)) return drawBatchFault(random, kind, (name, stack) => kill(stack, name, 0))
  switch (kind) {
    case 'kill':
      return killed(pick(random, PROCESSES), between(random, 0, 300))
    case 'freeze':
      // From a short interruption to longer than a lease, so that another worker takes over.
      return frozen(pick(random, PROCESSES), between(random, 50, 2 * LEASE_SECONDS * 1000))
    case 'database_restart':
      return databaseRestarted(pick(random, ['SIGINT', 'SIGQUIT'] as const))
    case 'connection':
      return connectionBroken(
        pick(random, context.proxies?.objects ? [...TARGETS, 'objects'] : TARGETS),
        drawTcpFault(random),
        between(random, 50, 1500),
      )
    case 'upstream':
      return upstreamFaulty(pick(random, UPSTREAM_RULES), between(random, 1, 3))
    case 'mining':
      return miningPaused(between(random, 200, 1500), random() < 0.5)
    case 'reorg':
      return reorganized(between(random, 1, 3))
    case 'queue_wipe':
      return QUEUE_WIPED
    case 'port_error':
      return portFails(pick(random, PORTS))
    case 'queue_restart':
      return QUEUE_RESTARTED
  }
}

function killed(name: ServiceName, pauseMs: number): Fault {
  return {
    name: `kill ${name}, back after ${pauseMs} ms`,
    resource: name,
    inject: (stack) => kill(stack, name, pauseMs),
  }
}

/** Kills a process and starts it again after the pause. */
export async function kill(stack: CampaignStack, name: ServiceName, pauseMs: number): Promise<void> {
  await signalTo(stack, name, 'SIGKILL')
  await delay(pauseMs)
  await startAgain(stack, name)
}

/** Restarts a process as a supervisor does: repeatedly, while its dependencies are down. */
async function startAgain(stack: CampaignStack, name: ServiceName): Promise<void> {
  for (const giveUpAt = Date.now() + PATIENCE_MS; ; await delay(START_PAUSE_MS)) {
    try {
      await stack.restart(name)
      return
    } catch (error) {
      if (Date.now() > giveUpAt) throw error
    }
  }
}

function frozen(name: ServiceName, durationMs: number): Fault {
  return {
    name: `freeze ${name} for ${durationMs} ms`,
    resource: name,
    inject: async (stack) => {
      await signalTo(stack, name, 'SIGSTOP')
      await delay(durationMs)
      await signalTo(stack, name, 'SIGCONT')
    },
  }
}

/** Fails when a process has ended by itself, but restarts it for the sake of the other trials. */
async function signalTo(stack: CampaignStack, name: ServiceName, signal: NodeJS.Signals): Promise<void> {
  try {
    process.kill(stack.pidOf(name), signal)
  } catch (cause) {
    await startAgain(stack, name)
    throw new Error(`${name} had ended by itself`, { cause })
  }
}

/**
 * Returns a restart of PostgreSQL: SIGINT is its fast shutdown, SIGQUIT its immediate one, with recovery at the next
 * start.
 */
function databaseRestarted(signal: 'SIGINT' | 'SIGQUIT'): Fault {
  return {
    name: `restart PostgreSQL (${signal === 'SIGINT' ? 'fast' : 'immediate'})`,
    resource: 'postgres',
    inject: async (stack) => {
      process.kill(stack.pidOf('database'), signal)
      await stack.restart('database')
    },
  }
}

function drawTcpFault(random: Random): TcpFault {
  const direction = pick(random, ['to_target', 'to_client'] as const)
  return pick<TcpFault>(random, [
    { kind: 'latency', delayMs: between(random, 5, 150) },
    { kind: 'blackhole' },
    { kind: 'refuse' },
    { kind: 'reset', afterBytes: between(random, 1, 4000), direction },
    { kind: 'lost_answer' },
  ])
}

function connectionBroken(target: Target, fault: TcpFault, durationMs: number): Fault {
  return {
    name: `${fault.kind} in front of the ${target} for ${durationMs} ms`,
    resource: `connection ${target}`,
    inject: async ({ proxies }) => {
      const proxy = proxies?.[target]
      if (!proxy) throw new Error(`the stack has no proxy in front of the ${target}`)
      await proxy.setFault(fault)
      await delay(durationMs)
      await proxy.setFault(null)
    },
  }
}

const UPSTREAM_RULES: readonly FaultRuleInput[] = [
  { fault: 'status', status: 429, body: { error: { message: 'slow down' } } },
  { fault: 'status', status: 500, body: {} },
  { fault: 'status', status: 503, body: {} },
  { fault: 'resetBeforeRead' },
  { fault: 'resetAfterRead' },
  { fault: 'resetMidBody' },
  { fault: 'truncatedJson' },
  { fault: 'emptyText' },
  { fault: 'hang' },
  { fault: 'slowBody', pieces: 4, everyMs: 100 },
  { fault: 'none', delayMs: 1500 },
]

function upstreamFaulty(rule: FaultRuleInput, times: number): Fault {
  return {
    name: `upstream ${rule.fault} ${rule.fault === 'status' ? rule.status : ''} × ${times}`,
    resource: 'simulator',
    inject: async (stack) => {
      await stack.setFaults([{ ...rule, times }])
      await delay(600)
      await stack.setFaults([])
    },
  }
}

function miningPaused(durationMs: number, dropsPending: boolean): Fault {
  return {
    name: `no blocks for ${durationMs} ms${dropsPending ? ', pending transactions dropped' : ''}`,
    resource: 'chain',
    inject: async ({ info }) => {
      await setMining(info.rpcUrl, false)
      await delay(durationMs)
      if (dropsPending) await dropPendingTransactions(info.rpcUrl)
      await setMining(info.rpcUrl, true)
    },
  }
}

function reorganized(depth: number): Fault {
  return {
    name: `reorganization of ${depth} blocks`,
    resource: 'chain',
    inject: async ({ info, reorganizedAt }) => {
      reorganizedAt.push(Date.now())
      await reorganize(info.rpcUrl, depth)
      await mine(info.rpcUrl, 1)
    },
  }
}

const QUEUE_WIPED: Fault = {
  name: 'loss of the queue’s messages',
  resource: 'queue messages',
  inject: async (stack) => {
    if (stack.redis) {
      // Including everything else that BullMQ stores there, such as its scripts.
      await stack.redis.client.flushall()
      await stack.redis.client.script('FLUSH')
      return
    }
    // Waits for deliveries that lock rows, and may be interrupted by a restart of PostgreSQL.
    await stack.sql('DELETE FROM farebox_queue.job').catch(() => undefined)
  },
}

/** Kills Redis, which then restarts from its append-only file, at most a second behind. */
const QUEUE_RESTARTED: Fault = {
  name: 'kill and restart of Redis',
  resource: 'queue messages',
  inject: async ({ redis }) => await redis?.restart(),
}

const PORTS = [
  'api.uploads.put.before',
  'api.uploads.put.after',
  'api.queue.enqueue.before',
  'api.queue.enqueue.after',
  'worker.uploads.open.before',
  'worker.media.put.before',
  'worker.media.put.after',
] as const

function portFails(point: string): Fault {
  return {
    name: `${point} fails once`,
    resource: point,
    inject: async ({ points }) => {
      points.arm(point, 'throw')
      await delay(800)
      points.disarm(point)
    },
  }
}
