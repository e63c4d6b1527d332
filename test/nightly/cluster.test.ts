import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServiceName } from '../../infra/sandbox/sandbox-options.ts'
import type { CallKind } from '../resilience/calls/call-requests.ts'
import { check } from '../resilience/checker/check.ts'
import { collect } from '../resilience/checker/collect.ts'
import type { CallRecord } from '../resilience/checker/ledgers.ts'
import { type CampaignStack, startCampaignStack } from '../resilience/stack/stack.ts'
import { type LoadBalancer, startLoadBalancer } from '../support/http/load-balancer.ts'
import { haveRedis } from '../support/processes/redis-server.ts'
import { haveS3 } from '../support/processes/s3-server.ts'
import { until } from '../support/until.ts'

/** Two APIs, four workers that call providers, two settlers; Redis, S3, two settlement keys. */
const APIS: readonly ServiceName[] = ['api', 'api-2']
const WORKERS: readonly ServiceName[] = ['worker', 'worker-2', 'worker-3', 'worker-4']
const SETTLERS: readonly ServiceName[] = ['worker-5', 'worker-6']
const KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']
const CALLERS = 4
const UPSTREAM_DELAY_MS = 300
/** An abandoned job is taken over when its lease expires; no live process is starved for that long. */
const LEASE_SECONDS = 60
/** Many times the load balancer's probe interval. */
const DRAIN_NOTICE_SECONDS = 5
/** Workers of one kind of queue have neither the keys nor the jobs of the other. */
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
const untilAllReady = () => until(() => balancer.ready().length === APIS.length)
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
    clientUrls: () => [balancer.url],
    apiEnvironment: {
      PUBLIC_BASE_URL: balancer.url,
      HOLD_SECONDS: '240',
      RPC_TIMEOUT_MS: '60000',
      DRAIN_NOTICE_SECONDS: String(DRAIN_NOTICE_SECONDS),
      DRAIN_SECONDS: '60',
    },
    workerEnvironment: {
      PUBLIC_BASE_URL: balancer.url,
      LEASE_SECONDS: String(LEASE_SECONDS),
      RPC_TIMEOUT_MS: '60000',
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
/** Pays for one call and waits for its final answer. */
async function pay(caller: number, kind: CallKind): Promise<CallRecord> {
  const payer = stack.payers.approved[caller % CALLERS]
  if (!payer) throw new Error('the stack has too few payers')
  return await stack.caller.start({ kind, payer }).finished
}
const statusesOf = ({ answers }: CallRecord) => answers.map(({ status }) => status)
const exchangesOf = ({ idempotencyKey }: CallRecord) =>
  balancer.exchanges.filter((one) => one.idempotencyKey === idempotencyKey)
async function unfinishedJobs(): Promise<number> {
  const rows = await stack.sql("SELECT 1 FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')")
  return rows.length
}
/** Lets the ledger record every lease that expires instead of being released. */
async function watchLeases(): Promise<void> {
  await stack.sql('CREATE TABLE expired_leases (job_id uuid)')
  await stack.sql(`CREATE FUNCTION note_expired_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN INSERT INTO expired_leases VALUES (NEW.id); RETURN NEW; END $$`)
  await stack.sql(`CREATE TRIGGER expired_lease BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.lease_expires_at <= now() AND NEW.lease_expires_at > now()) EXECUTE FUNCTION note_expired_lease()`)
}
async function violations(): Promise<readonly unknown[]> {
  const stuck = await stack.settleDown()
  const ledgers = await collect({ ...stack.ledgerSources(), callsToReplay: stack.caller.records })
  return [...stuck, ...check(ledgers)]
}

describe.skipIf(!haveRedis() || !haveS3())(
  'two APIs, four workers and two settlers behind a load balancer, on Redis and S3',
  () => {
    beforeAll(startCluster)
    afterAll(async () => {
      await stack?.stop()
      await balancer?.stop()
    })

    it.each(KINDS)('accepts at one API the payment of a challenge for a %s from the other', async (kind) => {
      const record = await pay(0, kind)
      expect(statusesOf(record)).toEqual([402, 200])
      const [asked, paid] = exchangesOf(record)
      expect(new Set([asked?.backend, paid?.backend])).toEqual(new Set(stack.info.baseUrls))
      expect({ asked: asked?.isPaid, paid: paid?.isPaid }).toEqual({ asked: false, paid: true })
    })

    it('settles with both keys', async () => {
      await Promise.all(Array.from({ length: 12 }, (_, index) => pay(index, 'chat')))
      const rows = await stack.sql<{ facilitator: string }>('SELECT DISTINCT facilitator FROM settlements')
      expect(rows.map(({ facilitator }) => facilitator).toSorted()).toEqual(
        stack.info.settlementAddresses.map((address) => address.toLowerCase()).toSorted(),
      )
    })

    it('drains a stopping API: not ready, still serving, then ending with the callers it holds', async () => {
      const [, baseUrl = ''] = stack.info.baseUrls
      const read = async (path: string) => {
        const answer = await fetch(`${baseUrl}${path}`)
        await answer.arrayBuffer()
        return { status: answer.status, connection: answer.headers.get('connection') }
      }
      expect(await read('/readyz')).toMatchObject({ status: 200, connection: 'keep-alive' })
      process.kill(stack.pidOf('upstream'), 'SIGSTOP')
      // Round robin, so that each API holds one of the two calls.
      const held = [pay(0, 'chat'), pay(1, 'chat')]
      await until(async () => (await unfinishedJobs()) === held.length)
      process.kill(stack.pidOf('api-2'), 'SIGTERM')
      await until(async () => (await read('/readyz')).status === 503)
      expect(await read('/v1/models')).toEqual({ status: 200, connection: 'close' })
      await until(() =>
        read('/healthz').then(
          () => false,
          () => true,
        ),
      )
      expect(await unfinishedJobs()).toBe(held.length)
      process.kill(stack.pidOf('upstream'), 'SIGCONT')
      expect(await stack.restart('api-2')).toEqual({ code: 0, signal: null })
      for (const record of await Promise.all(held)) expect(statusesOf(record)).toEqual([402, 200])
      await untilAllReady()
    })

    it('completes every paid request and charges it once during a rolling restart under load', async () => {
      const before = stack.caller.records.length
      await watchLeases()
      const over = new AbortController()
      let finished = 0
      const load = Array.from({ length: CALLERS }, async (_, caller) => {
        const calls: CallRecord[] = []
        while (!over.signal.aborted) {
          calls.push(await pay(caller, KINDS[(caller + calls.length) % KINDS.length] ?? 'chat'))
          finished += 1
        }
        return calls
      })
      const exits: unknown[] = []
      for (const name of [...APIS, ...WORKERS, ...SETTLERS]) {
        process.kill(stack.pidOf(name), 'SIGTERM')
        exits.push(await stack.restart(name))
        if (APIS.includes(name)) await untilAllReady()
        // Some calls on all processes before the next one is restarted.
        const enough = finished + CALLERS
        await until(() => finished >= enough)
      }
      over.abort()
      const calls = (await Promise.all(load)).flat()
      expect(exits).toEqual(exits.map(() => ({ code: 0, signal: null })))
      // Every request succeeded at the first attempt: the unpaid one with the price, the paid one with the result.
      expect(calls.filter((record) => statusesOf(record).join() !== '402,200')).toEqual([])
      expect(balancer.exchanges.filter(({ status }) => status === null)).toEqual([])
      // No process left before the load balancer noticed.
      expect(balancer.refused).toBe(0)
      // No call had to wait for an expired lease.
      expect(await stack.sql('SELECT job_id FROM expired_leases')).toEqual([])
      expect(await violations()).toEqual([])
      const transfers = (await collect({ ...stack.ledgerSources(), callsToReplay: [] })).chain.transfers.length
      expect({ transfers, new: stack.caller.records.length - before }).toEqual({
        transfers: stack.caller.records.length,
        new: calls.length,
      })
    })
  },
)
