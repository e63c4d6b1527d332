import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { ServiceName } from '../../infra/sandbox/process-plan.ts'
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts'
import { haveRedis } from '../support/redis-server.ts'
import type { CallKind } from './call-requests.ts'
import { check } from './checker/check.ts'
import { collect } from './checker/collect.ts'
import type { CallRecord } from './checker/ledgers.ts'
import { type CampaignStack, startCampaignStack } from './stack.ts'

/** Two APIs, four workers that call providers, two settlers; Redis, S3, two settlement keys. */
const APIS: readonly ServiceName[] = ['api', 'api-2']
const WORKERS: readonly ServiceName[] = ['worker', 'worker-2', 'worker-3', 'worker-4']
const SETTLERS: readonly ServiceName[] = ['worker-5', 'worker-6']
const KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']
const CALLERS = 4
/** Ten processes leave and come back one after another, on a machine that may run other tests. */
const ROLLING_TIMEOUT_MS = 300_000
const UPSTREAM_DELAY_MS = 300
/** A job that a process leaves behind is taken over when its lease ends; a call must never have to wait for that. */
const LEASE_SECONDS = 20

/** Who may see what: a worker of one kind of queue has neither the keys nor the work of the other. */
const QUEUES: Partial<Record<ServiceName, string>> = {
  worker: 'text,images,speech,transcriptions',
  'worker-2': 'text,images,speech,transcriptions',
  'worker-3': 'text',
  'worker-4': 'images,speech,transcriptions',
  'worker-5': 'settlement',
  'worker-6': 'settlement',
}

let balancer: LoadBalancer
let stack: CampaignStack

const untilAllReady = () => vi.waitUntil(() => balancer.ready().length === APIS.length, { timeout: 20_000 })

async function startCluster(): Promise<void> {
  balancer = await startLoadBalancer()
  stack = await startCampaignStack({
    on: ['redis', 's3'],
    apis: APIS.length,
    workers: WORKERS.length + SETTLERS.length,
    settlementKeys: 2,
    upstreamDelayMs: UPSTREAM_DELAY_MS,
    approvedPayers: CALLERS,
    sponsoredPayers: 0,
    clientUrls: [balancer.url],
    apiEnvironment: {
      PUBLIC_BASE_URL: balancer.url,
      HOLD_SECONDS: '120',
      DRAIN_NOTICE_SECONDS: '2',
      DRAIN_SECONDS: '60',
    },
    workerEnvironment: {
      PUBLIC_BASE_URL: balancer.url,
      LEASE_SECONDS: String(LEASE_SECONDS),
      DRAIN_SECONDS: '60',
    },
    environmentOf: (name): Record<string, string> => {
      const queues = QUEUES[name]
      return queues === undefined ? {} : { WORKER_QUEUES: queues }
    },
  })
  balancer.setBackends(stack.info.baseUrls)
  await untilAllReady()
}

/** Pays for one call and waits for its last word; tells how long that took. */
async function pay(caller: number, kind: CallKind): Promise<{ record: CallRecord; durationMs: number }> {
  const payer = stack.payers.approved[caller % CALLERS]
  if (!payer) throw new Error('there is a payer for every caller')
  const startedAt = performance.now()
  const record = await stack.caller.start({ kind, payer }).finished
  return { record, durationMs: performance.now() - startedAt }
}

const statusesOf = ({ answers }: CallRecord) => answers.map(({ status }) => status)
const exchangesOf = ({ idempotencyKey }: CallRecord) =>
  balancer.exchanges.filter((one) => one.idempotencyKey === idempotencyKey)

async function unfinishedJobs(): Promise<number> {
  const rows = await stack.sql("SELECT 1 FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')")
  return rows.length
}

async function violations(): Promise<readonly unknown[]> {
  const stuck = await stack.settleDown()
  const ledgers = await collect({ ...stack.ledgerSources(), callsToReplay: stack.caller.records })
  return [...stuck, ...check(ledgers)]
}

describe.skipIf(!haveRedis())('two APIs, four workers and two settlers behind a load balancer, on Redis and S3', () => {
  beforeAll(startCluster)
  afterAll(async () => {
    await stack?.stop()
    await balancer?.stop()
  })

  it.each(KINDS)('a challenge for a %s of one API is paid at the other', async (kind) => {
    const { record } = await pay(0, kind)
    expect(statusesOf(record)).toEqual([402, 200])
    const [asked, paid] = exchangesOf(record)
    expect(new Set([asked?.backend, paid?.backend])).toEqual(new Set(stack.info.baseUrls))
    expect({ asked: asked?.isPaid, paid: paid?.isPaid }).toEqual({ asked: false, paid: true })
  })

  it('both keys settle', async () => {
    await Promise.all(Array.from({ length: 12 }, (_, index) => pay(index, 'chat')))
    const rows = await stack.sql<{ facilitator: string }>('SELECT DISTINCT facilitator FROM settlements')
    expect(rows.map(({ facilitator }) => facilitator).toSorted()).toEqual(
      stack.info.settlementAddresses.map((address) => address.toLowerCase()).toSorted(),
    )
  })

  it('a stopping API is not ready, serves on, and then ends with its held callers', async () => {
    const [, baseUrl = ''] = stack.info.baseUrls
    const read = async (path: string) => {
      const answer = await fetch(`${baseUrl}${path}`)
      await answer.arrayBuffer()
      return { status: answer.status, connection: answer.headers.get('connection') }
    }
    expect(await read('/readyz')).toMatchObject({ status: 200, connection: 'keep-alive' })
    await stack.setFaults([{ fault: 'none', delayMs: 5000, times: 2 }])
    // In turn, so that one of two calls is held by each API.
    const held = [pay(0, 'chat'), pay(1, 'chat')]
    await vi.waitUntil(async () => (await unfinishedJobs()) === held.length, { timeout: 20_000 })
    process.kill(stack.pidOf('api-2'), 'SIGTERM')
    await vi.waitUntil(async () => (await read('/readyz')).status === 503, { timeout: 1500, interval: 20 })
    expect(await read('/v1/models')).toEqual({ status: 200, connection: 'close' })
    await vi.waitUntil(
      () =>
        read('/healthz').then(
          () => false,
          () => true,
        ),
      { timeout: 10_000 },
    )
    expect(await unfinishedJobs()).toBe(held.length)
    expect(await stack.restart('api-2')).toEqual({ code: 0, signal: null })
    for (const { record } of await Promise.all(held)) expect(statusesOf(record)).toEqual([402, 200])
    await stack.setFaults([])
    await untilAllReady()
  })

  it(
    'a rolling restart of everything under load fails no paid request, and loses or doubles no charge',
    async () => {
      const before = stack.caller.records.length
      const over = new AbortController()
      const load = Array.from({ length: CALLERS }, async (_, caller) => {
        const calls: { record: CallRecord; durationMs: number }[] = []
        while (!over.signal.aborted)
          calls.push(await pay(caller, KINDS[(caller + calls.length) % KINDS.length] ?? 'chat'))
        return calls
      })
      const exits: unknown[] = []
      for (const name of [...APIS, ...WORKERS, ...SETTLERS]) {
        process.kill(stack.pidOf(name), 'SIGTERM')
        exits.push(await stack.restart(name))
        if (APIS.includes(name)) await untilAllReady()
        // Some calls on all processes before the next one leaves.
        await delay(300)
      }
      over.abort()
      const calls = (await Promise.all(load)).flat()
      expect(exits).toEqual(exits.map(() => ({ code: 0, signal: null })))
      expect(calls.length).toBeGreaterThan(30)
      // Every request was answered, the unpaid one with the price and the paid one with the result, at the first attempt.
      expect(calls.filter(({ record }) => statusesOf(record).join() !== '402,200')).toEqual([])
      expect(balancer.exchanges.filter(({ status }) => status === null)).toEqual([])
      // Nobody left before the load balancer knew.
      expect(balancer.refused).toBe(0)
      const longest = Math.max(...calls.map(({ durationMs }) => durationMs))
      console.log(`${calls.length} calls, the longest took ${Math.round(longest)} ms`)
      expect(longest).toBeLessThan((LEASE_SECONDS / 2) * 1000)
      expect(await violations()).toEqual([])
      const transfers = (await collect({ ...stack.ledgerSources(), callsToReplay: [] })).chain.transfers.length
      expect({ transfers, new: stack.caller.records.length - before }).toEqual({
        transfers: stack.caller.records.length,
        new: calls.length,
      })
    },
    ROLLING_TIMEOUT_MS,
  )
})
