import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { PERMIT2_ADDRESS } from '#shared/chain/network/contracts.ts'
import { createChainClock } from '#shared/chain/reading/chain-clock.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { stopChainWatch } from '../../support/chain/settlement-chain.ts'
import { hostMedia } from '../../support/ledger/host-media.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { type Payer } from '../../support/payer/payer.ts'
import type { AuthorizationChanges } from '../../support/payer/sign-authorization.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

/** The simulated duration of each failed poll of the chain; one run polls for 20 seconds. */
const POLL_MS = 4000

const inAnHour = () => new Date(Date.now() + 3_600_000)

let worker: TestWorker
const advanceTime = stopChainWatch()
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())

interface Parties {
  readonly jobId: string
  readonly payer: Payer
  readonly chain: ReturnType<TestWorker['through']>
}

/** Runs `work` with its own settlement key, since a settlement that is not sent blocks later ones of its key. */
async function withProxy(
  work: (proxy: RpcProxy, parties: Parties) => Promise<void>,
  signed: AuthorizationChanges = {},
): Promise<void> {
  const proxy = await startRpcProxy(worker.devnet.rpcUrl)
  const settlementKey = generatePrivateKey()
  const facilitator = privateKeyToAccount(settlementKey).address
  await callRpc(worker.devnet.rpcUrl, 'anvil_setBalance', [facilitator, '0xde0b6b3a7640000'])
  try {
    const { jobId, payer } = await worker.accept({ signed: { ...signed, facilitator } })
    await work(proxy, { jobId, payer, chain: worker.through(proxy, settlementKey) })
  } finally {
    await proxy.stop()
  }
}

async function transfersFrom(payer: { address: string }): Promise<number> {
  const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
  return transfers.filter(({ from }) => from.toLowerCase() === payer.address).length
}

describe('a job during an outage of the payment network is deferred, and paid exactly once afterwards', () => {
  it('a network outage before the provider call defers the job in accepted, without a call', async () => {
    await withProxy(async (proxy, { jobId, payer, chain }) => {
      proxy.setFault({ kind: 'reset' })
      await worker.run(jobId, chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true, leased: false })
      proxy.setFault(null)
      await worker.runNow(jobId, chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(await transfersFrom(payer)).toBe(1)
    })
  })

  it('a node without new blocks before the provider call defers the job in accepted, without a call', async () => {
    await withProxy(async (proxy, { jobId, payer, chain }) => {
      const chainClock = createChainClock(createChainClient(proxy.url, PATIENCE_MS), inAnHour, 1_800_000)
      await worker.run(jobId, { ...chain, chainClock })
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true, leased: false })
      await worker.runNow(jobId, chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(await transfersFrom(payer)).toBe(1)
    })
  })

  it('a network outage at the preparation defers the job in generated, with nothing signed', async () => {
    await withProxy(async (proxy, { jobId, payer, chain }) => {
      const { settler } = chain
      proxy.setFault({ kind: 'error', code: -32603, message: 'internal error' })
      await worker.run(jobId, { settler })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'generated',
        settlements: [],
        deferred: true,
        leased: false,
      })
      proxy.setFault(null)
      await worker.runNow(jobId, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(await transfersFrom(payer)).toBe(1)
    })
  })

  const outages: readonly (readonly [string, RpcFault, readonly string[], number])[] = [
    ['at a broadcast that never arrives', { kind: 'reset' }, ['eth_sendRawTransaction'], 0],
    ['at the confirmation', { kind: 'status', status: 500 }, ['eth_getTransactionReceipt'], 1],
    ['at broadcast and confirmation', { kind: 'reset' }, ['eth_sendRawTransaction', 'eth_getTransactionReceipt'], 0],
    [
      'at the response to the broadcast and at the confirmation',
      { kind: 'lost_answer' },
      ['eth_sendRawTransaction', 'eth_getTransactionReceipt'],
      1,
    ],
  ]
  it.for(outages)(
    'a network outage %s defers the job in settling, with an open outcome',
    async ([, fault, methods, moved]) => {
      await withProxy(async (proxy, { jobId, payer, chain }) => {
        const { settler } = chain
        proxy.setFault(fault, ...methods)
        const confirm: typeof settler.confirm = async (...parameters) => {
          advanceTime(POLL_MS)
          return await settler.confirm(...parameters)
        }
        await worker.run(jobId, { settler: { ...settler, confirm } })
        expect(await worker.view(jobId)).toMatchObject({
          state: 'settling',
          settlements: ['signed'],
          receipt_id: null,
          deferred: true,
          leased: false,
        })
        await expect.poll(() => transfersFrom(payer)).toBe(moved)
        proxy.setFault(null)
        await worker.runNow(jobId, { settler })
        expect(await worker.view(jobId)).toMatchObject({
          state: 'completed',
          attempts: ['succeeded'],
          settlements: ['confirmed'],
        })
        expect(await transfersFrom(payer)).toBe(1)
      })
    },
  )

  it('a short network outage does not interrupt the run, which completes', async () => {
    await withProxy(async (proxy, { jobId, payer, chain }) => {
      const { settler } = chain
      proxy.setFault({ kind: 'lost_answer' }, 'eth_sendRawTransaction', 'eth_getTransactionReceipt')
      const running = worker.run(jobId, { settler })
      await until(() => proxy.calls.filter((method) => method === 'eth_getTransactionReceipt').length > 2)
      proxy.setFault(null)
      await running
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toBe(1)
    })
  })
})

/** Of a wallet that signs "never expires": the end of no job may depend on it. */
const FOREVER: AuthorizationChanges = { deadline: 2n ** 200n }
const MINUTE_SECONDS = 60
const DAY_SECONDS = 86_400

/** Fails the simulation of the settlement and nothing else: a node that answers, except about this payment. */
function failSimulations(proxy: RpcProxy): void {
  proxy.chooseFault(({ method, params }) => {
    const [call] = params as readonly { readonly to?: string }[]
    const isSimulation = method === 'eth_call' && call?.to?.toLowerCase() !== PERMIT2_ADDRESS
    return isSimulation ? { kind: 'error', code: -32603, message: 'internal error' } : null
  })
}

async function isOwed(jobId: string): Promise<boolean | undefined> {
  const [row] = await worker.ledger.sql<{ is_owed: boolean }>('SELECT is_owed FROM jobs WHERE id = $1', [jobId])
  return row?.is_owed
}

describe('a job that is deferred for too long ends, whatever the deadline of its payment', () => {
  it('a job fails uncharged when its payment could not be checked for five minutes', async () => {
    await withProxy(async (proxy, { jobId, payer, chain }) => {
      proxy.setFault({ kind: 'reset' })
      await worker.run(jobId, chain)
      await worker.runDeferredFor(jobId, 4 * MINUTE_SECONDS, chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', deferred: true })
      await worker.runDeferredFor(jobId, 5 * MINUTE_SECONDS, chain)
      expect(await worker.view(jobId)).toMatchObject({
        state: 'failed',
        failure_code: 'work_not_started',
        attempts: [],
        settlements: [],
        charge_amount: null,
        has_key: false,
        leased: false,
      })
      expect(await transfersFrom(payer)).toBe(0)
    }, FOREVER)
  })

  it('a job fails uncharged when its upload could not be read for five minutes', async () => {
    const { jobId } = await worker.accept({ signed: FOREVER })
    const uploads = { ...worker.uploads, open: rejecting('the store is down') }
    await worker.run(jobId, { uploads })
    await worker.runDeferredFor(jobId, 5 * MINUTE_SECONDS, { uploads })
    expect(await worker.view(jobId)).toMatchObject({ state: 'failed', failure_code: 'work_not_started', attempts: [] })
  })

  it('a charge that only its own payment prevents from being settled becomes a debt after a quarter of an hour', async () => {
    await withProxy(async (proxy, { jobId, payer, chain: { settler } }) => {
      failSimulations(proxy)
      await worker.run(jobId, { settler })
      await worker.runDeferredFor(jobId, 14 * MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
      await worker.runDeferredFor(jobId, 15 * MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        failure_code: 'settlement_failed',
        settlements: [],
        receipt_id: null,
      })
      expect(await isOwed(jobId)).toBe(true)
      expect(await transfersFrom(payer)).toBe(0)
    }, FOREVER)
  })

  it('a charge becomes a debt although the payer’s signature expired while the charge was deferred', async () => {
    await withProxy(async (proxy, { jobId, chain: { settler } }) => {
      failSimulations(proxy)
      await worker.run(jobId, { settler })
      const expired = "UPDATE authorizations SET deadline = now() - interval '1 minute' WHERE job_id = $1"
      await worker.ledger.sql(expired, [jobId])
      await worker.runDeferredFor(jobId, 15 * MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed' })
      expect(await isOwed(jobId)).toBe(true)
    })
  })

  it('a payment that cannot be simulated right after a long outage is not a debt yet', async () => {
    await withProxy(async (proxy, { jobId, chain: { settler } }) => {
      proxy.setFault({ kind: 'reset' })
      await worker.run(jobId, { settler })
      proxy.setFault(null)
      failSimulations(proxy)
      await worker.runDeferredFor(jobId, 20 * MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
      await worker.runNow(jobId, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
      proxy.setFault({ kind: 'reset' })
      await worker.runDeferredFor(jobId, 20 * MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
    }, FOREVER)
  })

  it('an outage of the whole network makes no payer a debtor: a charge waits for a day, and is then withheld', async () => {
    await withProxy(async (proxy, { jobId, payer, chain: { settler } }) => {
      proxy.setFault({ kind: 'reset' })
      await worker.run(jobId, { settler })
      await worker.runDeferredFor(jobId, DAY_SECONDS - MINUTE_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
      await worker.runDeferredFor(jobId, DAY_SECONDS, { settler })
      expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: [] })
      expect(await isOwed(jobId)).toBe(false)
      expect(await transfersFrom(payer)).toBe(0)
    }, FOREVER)
  })

  it('a job with a signed transaction that is not mined within a day needs review: its payer is not asked again', async () => {
    await withProxy(async (proxy, { jobId, payer, chain: { settler } }) => {
      proxy.setFault({ kind: 'reset' }, 'eth_sendRawTransaction', 'eth_getTransactionReceipt')
      const confirm: typeof settler.confirm = async (...parameters) => {
        advanceTime(POLL_MS)
        return await settler.confirm(...parameters)
      }
      const pending = { settler: { ...settler, confirm } }
      await worker.run(jobId, pending)
      await worker.runDeferredFor(jobId, DAY_SECONDS - MINUTE_SECONDS, pending)
      expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'], deferred: true })
      await worker.runDeferredFor(jobId, DAY_SECONDS, pending)
      expect(await worker.view(jobId)).toMatchObject({ state: 'review', settlements: ['unproven'], receipt_id: null })
      expect(await transfersFrom(payer)).toBe(0)
    }, FOREVER)
  })

  it('the time that a job was deferred before the provider call does not count against its settlement', async () => {
    await withProxy(async (proxy, { jobId, chain }) => {
      proxy.setFault({ kind: 'reset' })
      await worker.run(jobId, chain)
      proxy.setFault(null)
      failSimulations(proxy)
      const { settler } = chain
      const { verifier, payerFunds, chainClock, gas } = worker.dependencies
      const limits = { fail: DAY_SECONDS * 1000, owe: 1000, withhold: 1000, review: 1000 }
      const checked = { settler, verifier, payerFunds, chainClock, gas, longestDeferralMs: limits }
      await worker.runDeferredFor(jobId, MINUTE_SECONDS, checked)
      expect(await worker.view(jobId)).toMatchObject({ state: 'generated', deferred: true })
      const [row] = await worker.ledger.sql(
        'SELECT deferrals, deferred_since > now() - make_interval(secs => 30) AS is_new FROM jobs WHERE id = $1',
        [jobId],
      )
      expect(row).toEqual({ deferrals: 1, is_new: true })
    })
  })
})

/**
 * Runs a job whose charge cannot be prepared, and again when it can, with media that then expire in `minutes`; `isBlocked`: by
 * the fault of its payment.
 */
async function settledLate(minutes: number, isBlocked = false): Promise<Parties> {
  let late: Parties | undefined
  await withProxy(async (proxy, parties) => {
    late = parties
    const { settler } = parties.chain
    proxy.setFault({ kind: 'reset' })
    await worker.run(parties.jobId, { settler })
    await hostMedia(worker.ledger, parties.jobId, minutes)
    if (isBlocked)
      await worker.ledger.sql('UPDATE jobs SET payment_blocked_since = now() WHERE id = $1', [parties.jobId])
    proxy.setFault(null)
    await worker.runNow(parties.jobId, { settler })
  }, FOREVER)
  if (!late) throw new Error('no job')
  return late
}

describe('a charge for hosted media that an outage delayed', () => {
  it.for([-1, 10])('is not settled when they expire in %i minutes, and nobody owes it', async (minutes) => {
    const { jobId, payer } = await settledLate(minutes)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: [], deferred: false })
    expect(await isOwed(jobId)).toBe(false)
    expect(await transfersFrom(payer)).toBe(0)
  })

  it('is owed for expired ones by a payer whose payment could not be settled', async () => {
    const { jobId, payer } = await settledLate(-1, true)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: [] })
    expect(await isOwed(jobId)).toBe(true)
    expect(await transfersFrom(payer)).toBe(0)
  })

  it('is settled while they live long enough to be fetched', async () => {
    const { jobId, payer } = await settledLate(50)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toBe(1)
  })
})

it('the next worker broadcasts the transaction of a worker that died after signing, exactly once', async () => {
  const { jobId, payer } = await worker.accept()
  const { settler } = worker.dependencies
  await expect(worker.run(jobId, { settler: { ...settler, broadcast: rejecting('killed') } })).rejects.toThrow('killed')
  const before = await worker.view(jobId)
  expect(before).toMatchObject({ state: 'settling', settlements: ['signed'], leased: true })
  await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
  await worker.run(jobId, { settler: { ...settler, sign: rejecting('signed again') } })
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  expect(await worker.devnet.usdcBalance(payer.address)).toBe(1_000_000n - 5034n)
})

function rejecting(message: string): () => Promise<never> {
  return () => Promise.reject(new Error(message))
}
