import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { stopChainWatch } from '../../support/chain/settlement-chain.ts'
import { type Payer } from '../../support/payer/payer.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

/** The simulated duration of each failed poll of the chain; one run polls for 20 seconds. */
const POLL_MS = 4000

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
async function withProxy(work: (proxy: RpcProxy, parties: Parties) => Promise<void>): Promise<void> {
  const proxy = await startRpcProxy(worker.devnet.rpcUrl)
  const settlementKey = generatePrivateKey()
  const facilitator = privateKeyToAccount(settlementKey).address
  await callRpc(worker.devnet.rpcUrl, 'anvil_setBalance', [facilitator, '0xde0b6b3a7640000'])
  try {
    const { jobId, payer } = await worker.accept({ signed: { facilitator } })
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
