import { Registry } from 'prom-client'
import { toHex } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { readSettlementGas } from '#shared/ledger/reports/settlement-gas.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { addBatchMetrics, measuredSettlementStore } from '../../../workers/telemetry/settlement-metrics.ts'
import {
  age,
  createSettlementChain,
  onceForEach,
  type SettlementChain,
  stopChainWatch,
} from '../../support/chain/settlement-chain.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { holdFirst, together } from '../../support/chain/together.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

type Hex = `0x${string}`
type Settler = SettlementChain['chain']['settler']

let worker: TestWorker
let chain: SettlementChain
const advanceTime = stopChainWatch()
beforeAll(async () => {
  worker = await startTestWorker()
})
beforeEach(async () => {
  chain = await createSettlementChain(worker, { throughContract: true })
})
afterEach(() => worker.proxy.chooseFault(() => null))
afterAll(() => worker.stop())

const CHARGE = 5034n
/** How long one poll takes by the worker's clock, where a test lets time pass. */
const POLL_MS = 2000
const AN_HOUR_MS = 3_600_000

async function acceptMany(count: number): Promise<AcceptedJob[]> {
  const jobs: AcceptedJob[] = []
  while (jobs.length < count) {
    const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
    jobs.push(await chain.accept({ gasSponsored: false }, payer))
  }
  return jobs
}

/** Calls `before` once for each transaction before it is sent. */
function sending(settler: Settler, before: (number: number) => Promise<void>): Settler {
  let sent = 0
  return {
    ...settler,
    broadcast: onceForEach(async (transaction) => {
      sent += 1
      await before(sent)
      return await settler.broadcast(transaction)
    }),
  }
}

function runAll(jobs: readonly AcceptedJob[], settler: Settler, run: 'run' | 'runNow' = 'run'): Promise<unknown> {
  return Promise.all(jobs.map(({ jobId }) => worker[run](jobId, { ...chain.chain, settler })))
}

const statesOf = (jobs: readonly AcceptedJob[]) =>
  Promise.all(jobs.map(async ({ jobId }) => (await worker.view(jobId)).state))

/** Returns the sizes of the key's batches, by account nonce. */
async function batchSizes(): Promise<number[]> {
  const rows = await worker.ledger.sql<{ size: number }>(
    'SELECT size FROM settlement_batches WHERE facilitator = $1 ORDER BY account_nonce',
    [chain.facilitator],
  )
  return rows.map(({ size }) => size)
}

/** Expects that these batches, by size, reverted as a whole, each with the gas that the chain has. */
async function expectGasOfReverts(sizes: readonly number[]): Promise<void> {
  const rows = await worker.ledger.sql<{ size: number; gas_used: string; gas_cost: string; hashes: Hex[] }>(
    `SELECT size, reverted_gas_used AS gas_used, reverted_gas_cost AS gas_cost,
       (SELECT array_agg(hash) FROM settlement_transactions WHERE batch_id = batches.id) AS hashes
     FROM settlement_batches AS batches WHERE facilitator = $1 AND reverted_at IS NOT NULL ORDER BY account_nonce`,
    [chain.facilitator],
  )
  expect(rows.map(({ size }) => size)).toEqual(sizes)
  for (const { hashes, gas_used, gas_cost } of rows) {
    const receipts = await Promise.all(hashes.map((hash) => worker.devnet.client.getTransactionReceipt({ hash })))
    expect(receipts.map(({ status, gasUsed }) => [status, gasUsed])).toEqual([['reverted', BigInt(gas_used)]])
    expect(Number(gas_cost)).toBeGreaterThan(0)
  }
}

async function chargesOf(jobs: readonly AcceptedJob[]): Promise<bigint[][]> {
  const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
  return jobs.map(({ payer }) =>
    transfers.filter(({ from }) => from.toLowerCase() === payer.address).map(({ valueAtomic }) => valueAtomic),
  )
}

async function receiptsOf(jobs: readonly AcceptedJob[]): Promise<unknown[]> {
  const ids = jobs.map(({ jobId }) => jobId)
  return await worker.ledger.sql('SELECT job_id, body FROM receipts WHERE job_id = ANY($1) ORDER BY job_id', [ids])
}

describe('payments that are ready at the same time', () => {
  it('are settled by one transaction, each charged once, and share its cost exactly', async () => {
    const jobs = await acceptMany(5)
    await runAll(jobs, together(5, chain.chain.settler))
    expect(new Set(await statesOf(jobs))).toEqual(new Set(['completed']))
    expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
    expect(await batchSizes()).toEqual([5])
    const hashes = new Set(await Promise.all(jobs.map(async ({ jobId }) => (await chain.hashes(jobId)).join())))
    expect(hashes.size).toBe(1)
    const [hash] = hashes
    const { gasUsed } = await worker.devnet.client.getTransactionReceipt({ hash: hash as Hex })
    const [row] = await worker.ledger.sql<{ gas: string }>(
      'SELECT sum(gas_used)::text AS gas FROM settlements WHERE job_id = ANY($1)',
      [jobs.map(({ jobId }) => jobId)],
    )
    expect(row?.gas).toBe(gasUsed.toString())
  })

  it('are counted in the metrics, with their gas and the limits of their batches', async () => {
    const jobs = await acceptMany(3)
    const settler = together(3, chain.chain.settler)
    const registry = new Registry()
    const settlementStore = measuredSettlementStore(registry, worker.ledger.settlement)
    const dependencies = { ...worker.dependencies, ...chain.chain, settler, settlementStore }
    const batches = holdFirst(settler, gatherBatches({ ...dependencies, maximumBatchGas: 1_000_000n }))
    addBatchMetrics(registry, batches)
    const out: string[] = []
    const seen: Settler = {
      ...settler,
      confirm: async (...checked) => {
        out.push(...(await registry.getSingleMetricAsString('farebox_settlement_batches_out')).split('\n').slice(-1))
        return await settler.confirm(...checked)
      },
    }
    await Promise.all(
      jobs.map(({ jobId }) => worker.run(jobId, { ...chain.chain, settlementStore, batches, settler: seen })),
    )
    expect(out).toContain('farebox_settlement_batches_out 1')
    const metrics = await registry.metrics()
    for (const line of [
      'farebox_settlement_batch_size_sum 3',
      'farebox_settlement_batch_size_count 1',
      'farebox_settlements_mined_total{outcome="confirmed"} 3',
      'farebox_settlement_batches_out 0',
      'farebox_settlement_batches_refused_total 0',
      'farebox_settlement_batch_gas_limit 1000000',
    ])
      expect(metrics).toContain(`${line}\n`)
  })

  it('share no batch that their key could not pay for', async () => {
    const jobs = await acceptMany(12)
    const { maxFeePerGas } = await createFeeEstimator(worker.devnet.client)()
    // Less than a batch of all 12 reserves, and far more than what they cost.
    await chain.rpc('anvil_setBalance', chain.facilitator, toHex(2_400_000n * maxFeePerGas))
    await runAll(jobs, together(12, chain.chain.settler))
    expect(new Set(await statesOf(jobs))).toEqual(new Set(['completed']))
    expect(await batchSizes()).toEqual([2, 2, 2, 2, 2, 2])
  })

  it('are settled by the key one by one when their payers signed the key', async () => {
    const ofContract = await acceptMany(2)
    const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
    const ofKey = await chain.accept({ gasSponsored: false, facilitator: chain.facilitator }, payer)
    await runAll([...ofContract, ofKey], together(3, chain.chain.settler))
    expect(await statesOf([...ofContract, ofKey])).toEqual(['completed', 'completed', 'completed'])
    expect(await chain.count()).toBe(2)
    expect(await batchSizes()).toEqual([2])
  })

  it('are settled without those that another worker has taken over meanwhile', async () => {
    const jobs = await acceptMany(4)
    const lost = jobs.slice(0, 2).map(({ jobId }) => jobId)
    const { settler } = chain.chain
    const taking: Settler = {
      ...settler,
      prepare: async (...charge) => {
        const prepared = await settler.prepare(...charge)
        await worker.ledger.sql(
          `UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + interval '1 minute'
           WHERE id = ANY($1) AND state = 'generated'
             AND authorization_id IN (SELECT id FROM authorizations WHERE payer = $2)`,
          [lost, charge[0].payer],
        )
        return prepared
      },
    }
    await runAll(jobs, together(4, taking))
    expect(await statesOf(jobs)).toEqual(['generated', 'generated', 'completed', 'completed'])
    expect(await batchSizes()).toEqual([2])
    expect(await chargesOf(jobs)).toEqual([[], [], [CHARGE], [CHARGE]])
  })
})

describe('a batch in which some payments fail', () => {
  it('charges the others, and stores what each failure cost as uncharged work of its payer', async () => {
    const jobs = await acceptMany(6)
    const [revoked, drained, burned] = jobs
    if (!revoked || !drained || !burned) throw new Error('expected jobs')
    const settler = sending(together(6, chain.chain.settler), async () => {
      await revoked.payer.approve(0n)
      await drained.payer.spendAll()
      await burned.payer.invalidateNonce(burned.request.authorization.nonce)
    })
    await runAll(jobs, settler)
    expect(await batchSizes()).toEqual([6])
    const failed = 'settlement_failed'
    expect(await statesOf(jobs)).toEqual([failed, failed, failed, 'completed', 'completed', 'completed'])
    expect(await chargesOf(jobs)).toEqual([[], [], [], [CHARGE], [CHARGE], [CHARGE]])
    for (const { jobId } of [revoked, drained, burned])
      expect(await worker.view(jobId)).toMatchObject({
        failure_reason: expect.stringMatching(/^reverted in block/),
        settlements: ['reverted'],
      })
    const [uncharged] = await worker.ledger.sql<{ count: number }>(
      `SELECT count(*)::int FROM uncharged_work WHERE job_id = ANY($1) AND kind = 'reverted_settlement' AND amount > 0`,
      [[revoked.jobId, drained.jobId, burned.jobId]],
    )
    expect(uncharged?.count).toBe(3)
  })

  it('never takes the payment of one call for that of another of the same payer and amount', async () => {
    const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
    const jobs = [
      await chain.accept({ gasSponsored: false }, payer),
      await chain.accept({ gasSponsored: false }, payer),
    ]
    const [burned] = jobs
    const settler = sending(together(2, chain.chain.settler), async () => {
      if (burned) await payer.invalidateNonce(burned.request.authorization.nonce)
    })
    await runAll(jobs, settler)
    expect(await statesOf(jobs)).toEqual(['settlement_failed', 'completed'])
    expect((await chargesOf(jobs))[0]).toEqual([CHARGE])
  })
})

it('settles a batch again that a reorganization removed, with the payment that had failed in it', async () => {
  const jobs = await acceptMany(3)
  const [drained] = jobs
  if (!drained) throw new Error('expected jobs')
  await runAll(
    jobs,
    sending(together(3, chain.chain.settler), () => drained.payer.spendAll()),
  )
  expect(await statesOf(jobs)).toEqual(['settlement_failed', 'completed', 'completed'])
  const BLOCKS_OF_TRANSFER_AND_BATCH = 2
  await chain.rpc('anvil_rollback', BLOCKS_OF_TRANSFER_AND_BATCH)
  // The account nonce is not filled: two payments of its batch were confirmed.
  await age(worker, chain.facilitator, 5)
  await chain.keep()
  await until(async () => {
    advanceTime(POLL_MS)
    await chain.watch()
    await worker.runNow(drained.jobId, chain.chain)
    return (await worker.view(drained.jobId)).state === 'completed'
  })
  expect(await statesOf(jobs)).toEqual(['completed', 'completed', 'completed'])
  expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
  for (const { jobId } of jobs) expect(await chain.hashes(jobId)).toHaveLength(1)
  expect(await worker.ledger.sql('SELECT 1 FROM jobs WHERE is_owed AND id = $1', [drained.jobId])).toEqual([])
  const filled = 'SELECT 1 FROM settlement_transactions WHERE facilitator = $1 AND batch_id IS NULL'
  expect(await worker.ledger.sql(filled, [chain.facilitator])).toEqual([])
})

describe('a batch that reverts as a whole', () => {
  it('is signed again also for released results, after a reorganization had removed it', async () => {
    const jobs = await acceptMany(3)
    await runAll(jobs, together(3, chain.chain.settler))
    const receipts = await receiptsOf(jobs)
    await chain.rpc('anvil_rollback', 1)
    await chain.listKey(false)
    // Sent again and reverted, then refused while the contract lists no key.
    await until(async () => {
      advanceTime(POLL_MS)
      await chain.watch()
      return worker.logged.some((line) => line.includes('cannot be sent again') && line.includes('not_listed'))
    })
    expect(await chargesOf(jobs)).toEqual([[], [], []])
    await chain.listKey(true)
    await until(async () => {
      advanceTime(20_000)
      await chain.watch()
      return (await chargesOf(jobs)).every((charges) => charges.length > 0)
    })
    await chain.watch()
    expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
    expect(await batchSizes()).toEqual([3, 1, 1, 1])
    await expectGasOfReverts([3])
    expect(await receiptsOf(jobs)).toEqual(receipts)
    for (const { jobId } of jobs)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  })

  it('is signed again in halves, with no payment charged twice or owed', async () => {
    const jobs = await acceptMany(5)
    const settler = sending(together(5, chain.chain.settler), async (number) => {
      if (number === 1) await chain.listKey(false)
    })
    const relisting: Settler = {
      ...settler,
      confirm: async (...checked) => {
        const confirmation = await settler.confirm(...checked)
        if (confirmation.outcome === 'batch_reverted') await relist()
        return confirmation
      },
    }
    let relisted: Promise<void> | undefined
    const relist = () => (relisted ??= chain.listKey(true))
    await runAll(jobs, relisting)
    expect(new Set(await statesOf(jobs))).toEqual(new Set(['completed']))
    expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
    const [first, ...renewed] = await batchSizes()
    expect(first).toBe(5)
    expect(Math.max(...renewed)).toBeLessThanOrEqual(2)
    expect(renewed.reduce((sum, size) => sum + size)).toBe(5)
    await expectGasOfReverts([5])
    const period = { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
    expect((await readSettlementGas(worker.ledger.pool, period)).revertedBatches.count).toBeGreaterThanOrEqual(1)
  })

  it('is signed again by the key of the process that took its jobs over from one that died', async () => {
    const other = await createSettlementChain(worker)
    const both = await deployTestContract(worker.devnet, [chain.facilitator, other.facilitator])
    const jobs: AcceptedJob[] = []
    while (jobs.length < 3) {
      const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
      jobs.push(await chain.accept({ gasSponsored: false, facilitator: both.address }, payer))
    }
    const killed: Settler = {
      ...together(3, chain.chain.settler),
      broadcast: () => Promise.reject(new Error('killed')),
    }
    await expect(runAll(jobs, killed)).rejects.toThrow('killed')
    await until(async () => (await statesOf(jobs)).every((state) => state === 'settling'))
    await both.setKey(chain.facilitator, false)
    await until(async () => {
      advanceTime(POLL_MS)
      await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ANY($1)", [
        jobs.map(({ jobId }) => jobId),
      ])
      await Promise.all(jobs.map(({ jobId }) => worker.runNow(jobId, other.chain)))
      return (await statesOf(jobs)).every((state) => state === 'completed')
    })
    expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
    const senders = await worker.ledger.sql<{ facilitator: Hex }>(
      'SELECT facilitator FROM settlement_batches WHERE contract = $1 ORDER BY recorded_at',
      [both.address],
    )
    expect(senders[0]?.facilitator).toBe(chain.facilitator)
    expect(new Set(senders.slice(1).map(({ facilitator }) => facilitator))).toEqual(new Set([other.facilitator]))
  })

  it('waits without a debt, and names the setting, while the contract lists no key', async () => {
    const [job] = await acceptMany(1)
    if (!job) throw new Error('expected a job')
    const settler = sending(chain.chain.settler, () => chain.listKey(false))
    await worker.run(job.jobId, { ...chain.chain, settler })
    expect(await worker.view(job.jobId)).toMatchObject({ state: 'settling', deferred: true })
    const blocked = 'SELECT id FROM jobs WHERE id = $1 AND payment_blocked_since IS NOT NULL'
    expect(await worker.ledger.sql(blocked, [job.jobId])).toEqual([])
    expect(worker.logged.join('\n')).toContain('SETTLEMENT_CONTRACT: the contract lists none of the settlement keys')
    await chain.listKey(true)
    advanceTime(20_000)
    await worker.runNow(job.jobId, chain.chain)
    expect(await worker.view(job.jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await chargesOf([job])).toEqual([[CHARGE]])
  })

  it('needs review after eight account nonces', async () => {
    const [job] = await acceptMany(1)
    if (!job) throw new Error('expected a job')
    const { settler } = chain.chain
    const spoiling: Settler = {
      ...sending(settler, () => chain.listKey(false)),
      prepare: async (...charge) => {
        await chain.listKey(true)
        advanceTime(20_000)
        return await settler.prepare(...charge)
      },
    }
    await worker.run(job.jobId, { ...chain.chain, settler: spoiling })
    expect(await worker.view(job.jobId)).toMatchObject({ state: 'review', settlements: ['unproven'] })
    expect(await chain.hashes(job.jobId)).toHaveLength(8)
    expect(await chargesOf([job])).toEqual([[]])
  })
})

it('gives a batch up that is too large for every node, fills its account nonce, and settles in smaller ones', async () => {
  const jobs = await acceptMany(6)
  const { settler } = chain.chain
  /** Of about three payments. */
  const MOST_CHARACTERS = 4500
  const MOST_GAS = 16_000_000n
  worker.proxy.chooseFault(({ method, params }) =>
    method === 'eth_sendRawTransaction' && String(params[0]).length > MOST_CHARACTERS
      ? { kind: 'error', code: -32_000, message: 'oversized data: transaction size 131100, limit 131072' }
      : null,
  )
  const waiting: Settler = {
    ...together(6, settler),
    confirm: async (...checked) => {
      advanceTime(POLL_MS)
      return await settler.confirm(...checked)
    },
  }
  const dependencies = { ...worker.dependencies, ...chain.chain, maximumBatchGas: MOST_GAS }
  const batches = holdFirst(waiting, gatherBatches(dependencies))
  const done = new AbortController()
  // One run may end before the filler is mined: its time is up by the clock of the test.
  const running = until(async () => {
    await Promise.all(jobs.map(({ jobId }) => worker.runNow(jobId, { ...chain.chain, batches, settler: waiting })))
    return (await statesOf(jobs)).every((state) => state === 'completed')
  }).finally(() => done.abort())
  const keeping = (async () => {
    while (!done.signal.aborted) {
      await age(worker, chain.facilitator, 5)
      await chain.keep()
    }
  })()
  await Promise.all([running, keeping])
  expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
  const [refused, ...smaller] = await batchSizes()
  expect(refused).toBe(6)
  expect(Math.max(...smaller)).toBeLessThanOrEqual(3)
  expect(smaller.reduce((sum, size) => sum + size)).toBe(6)
  expect(worker.logged.join('\n')).toContain('SETTLEMENT_BATCH_GAS: a batch is too large for every node')
  const { gasLimit } = batches.readState()
  expect(gasLimit).toBeLessThan(MOST_GAS)
  advanceTime(AN_HOUR_MS)
  expect(batches.readState().gasLimit).toBe(gasLimit * 2n)
  for (let hour = 0; hour < 8; hour++) {
    advanceTime(AN_HOUR_MS)
    batches.readState()
  }
  expect(batches.readState().gasLimit).toBe(MOST_GAS)
})

it('signs a batch again together when its account nonce was used elsewhere', async () => {
  const jobs = await acceptMany(3)
  const { settler } = chain.chain
  const elsewhere: Settler = {
    ...sending(together(3, settler), async (number) => {
      if (number === 1) await chain.useNonceElsewhere(0)
    }),
    confirm: async (...checked) => {
      advanceTime(POLL_MS)
      return await settler.confirm(...checked)
    },
  }
  await runAll(jobs, elsewhere)
  expect(new Set(await statesOf(jobs))).toEqual(new Set(['completed']))
  expect(await chargesOf(jobs)).toEqual(jobs.map(() => [CHARGE]))
  const sizes = await batchSizes()
  expect(sizes[0]).toBe(3)
  expect(sizes.slice(1).reduce((sum, size) => sum + size)).toBe(3)
})
