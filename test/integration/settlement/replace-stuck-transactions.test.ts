import { parseTransaction } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createSettlementAccounts } from '#shared/adapters/chain/settlement/settlement-accounts.ts'
import {
  age,
  BOTH_WAYS,
  createSettlementChain,
  LATE_SECONDS,
  type SettlementChain,
} from '../../support/chain/settlement-chain.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

describe.each(BOTH_WAYS)('$way', ({ throughContract }) => {
  let worker: TestWorker
  let chain: SettlementChain
  beforeAll(async () => {
    worker = await startTestWorker()
  })
  beforeEach(async () => {
    chain = await createSettlementChain(worker, { throughContract })
    await chain.rpc('evm_setAutomine', false)
  })
  afterEach(async () => {
    await chain.rpc('evm_setAutomine', true)
    await chain.rpc('anvil_mine')
  })
  afterAll(() => worker.stop())

  /**
   * Signs, stores and broadcasts the settlements of new jobs one after the other. Their workers are then dead; nothing is
   * mined.
   */
  async function settlingJobs(count: number): Promise<string[]> {
    await chain.rpc('evm_setAutomine', true)
    const jobIds: string[] = []
    for (let number = 0; number < count; number += 1) jobIds.push((await chain.accept()).jobId)
    await chain.rpc('evm_setAutomine', false)
    const { settler } = chain.chain
    const broadcast: typeof settler.broadcast = async (transaction) => {
      await settler.broadcast(transaction)
      throw new Error('killed')
    }
    for (const jobId of jobIds) {
      const running = worker.run(jobId, { ...chain.chain, settler: { ...settler, broadcast } })
      await expect(running).rejects.toThrow('killed')
      await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
    }
    return jobIds
  }

  /** Newest first, since anvil drops those behind a dropped one without saying so. */
  async function loseTransactionsOf(jobIds: readonly string[]): Promise<void> {
    for (const jobId of jobIds.toReversed()) {
      const [hash] = await chain.hashes(jobId)
      await chain.rpc('anvil_dropTransaction', hash)
    }
  }

  async function settlingJob(): Promise<string> {
    const [jobId] = await settlingJobs(1)
    return jobId as string
  }

  /** Runs two rounds as if the head of the queue had been the head for `seconds`. */
  async function keepAfter(seconds: number, changes?: Parameters<SettlementChain['keep']>[0]): Promise<number> {
    await chain.keep(changes)
    await age(worker, chain.facilitator, seconds)
    return await chain.keep(changes)
  }

  describe('a head of the nonce queue that the node dropped', () => {
    it('a dropped head of the nonce queue is broadcast again unchanged while it is recent', async () => {
      const jobId = await settlingJob()
      const [hash] = await chain.hashes(jobId)
      await chain.rpc('anvil_dropTransaction', hash)
      expect(await keepAfter(5)).toBe(0)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(1)
      expect(await chain.hashes(jobId)).toEqual([hash])
    })

    it('a dropped head is broadcast again when its job has already ended, so the transactions behind it are mined', async () => {
      const [first, second] = (await settlingJobs(2)) as [string, string]
      const [hash] = await chain.hashes(first)
      await chain.rpc('anvil_dropTransaction', hash)
      await worker.ledger.sql(
        "UPDATE jobs SET state = 'settlement_failed', failure_code = 'settlement_failed' WHERE id = $1",
        [first],
      )
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(0)
      // Anvil also drops the transactions behind a dropped one.
      await keepAfter(5)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(2)
      await worker.run(second, chain.chain)
      expect(await worker.view(second)).toMatchObject({ state: 'completed' })
    })
  })

  describe('transactions that the node lost', () => {
    it('are all broadcast again in one round, those behind the head too', async () => {
      const jobs = await settlingJobs(4)
      await loseTransactionsOf(jobs)
      await keepAfter(5)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(4)
      for (const jobId of jobs) await worker.run(jobId, chain.chain)
      for (const jobId of jobs) expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    })

    it('are only broadcast again behind a head that was lost', async () => {
      const [, ...behind] = await settlingJobs(3)
      await loseTransactionsOf(behind)
      await keepAfter(5)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(1)
    })
  })

  describe('a head of the nonce queue that is not mined in time', () => {
    it('a late head is replaced under its account nonce at a fee at least an eighth higher, and either hash completes the job', async () => {
      const jobId = await settlingJob()
      expect(await keepAfter(LATE_SECONDS)).toBe(1)
      const hashes = await chain.hashes(jobId)
      expect(hashes).toHaveLength(2)
      const rows = await worker.ledger.sql<{ raw_transaction: `0x${string}` }>(
        'SELECT raw_transaction FROM settlement_transactions WHERE facilitator = $1 ORDER BY signed_at',
        [chain.facilitator],
      )
      const [first, second] = rows.map(({ raw_transaction }) => parseTransaction(raw_transaction))
      expect(second).toMatchObject({ nonce: first?.nonce, to: first?.to, data: first?.data, gas: first?.gas })
      for (const fee of ['maxFeePerGas', 'maxPriorityFeePerGas'] as const)
        expect((second?.[fee] ?? 0n) * 8n).toBeGreaterThanOrEqual((first?.[fee] ?? 0n) * 9n)
      await chain.rpc('anvil_mine')
      await worker.run(jobId, chain.chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      const [settled] = await worker.ledger.sql<{ transaction_hash: string }>(
        'SELECT transaction_hash FROM settlements WHERE job_id = $1',
        [jobId],
      )
      expect(settled?.transaction_hash).toBe(hashes[1])
    })

    it('a late head is replaced at the current fee, together with all transactions behind it whose fee cap is below the base fee', async () => {
      const jobs = await settlingJobs(3)
      await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x174876e800')
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(0)
      expect(await keepAfter(LATE_SECONDS)).toBe(3)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(3)
      for (const jobId of jobs) {
        await worker.run(jobId, chain.chain)
        expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
      }
    })

    it('a late head is not replaced above the maximum fee', async () => {
      const jobId = await settlingJob()
      const client = createChainClient(worker.devnet.rpcUrl, PATIENCE_MS)
      const accounts = createSettlementAccounts(client, 8453, [chain.privateKey], { maximumFeePerGasWei: 1n })
      expect(await keepAfter(LATE_SECONDS, { accounts })).toBe(0)
      expect(await chain.hashes(jobId)).toHaveLength(1)
    })

    it('a late head is not replaced at fees that its key cannot pay, and costs no more for it once the key is funded', async () => {
      const jobId = await settlingJob()
      const fees = async () => {
        const rows = await worker.ledger.sql<{ raw_transaction: `0x${string}` }>(
          'SELECT raw_transaction FROM settlement_transactions WHERE facilitator = $1 ORDER BY signed_at',
          [chain.facilitator],
        )
        return rows.map(({ raw_transaction }) => parseTransaction(raw_transaction))
      }
      const [first] = await fees()
      const { gas = 0n, maxFeePerGas = 0n } = first ?? {}
      await chain.rpc('anvil_setBalance', chain.facilitator, `0x${(gas * maxFeePerGas).toString(16)}`)
      for (let round = 0; round < 3; round += 1) expect(await keepAfter(LATE_SECONDS)).toBe(0)
      expect(await chain.hashes(jobId)).toHaveLength(1)
      await chain.rpc('anvil_setBalance', chain.facilitator, `0x${(10n ** 18n).toString(16)}`)
      expect(await keepAfter(LATE_SECONDS)).toBe(1)
      const [, second] = await fees()
      expect(second?.maxFeePerGas ?? 0n).toBeLessThan(2n * maxFeePerGas)
    })

    it('a late head is replaced once by several concurrent sweepers', async () => {
      const jobId = await settlingJob()
      await chain.keep()
      await age(worker, chain.facilitator, LATE_SECONDS)
      const moved = await Promise.all(Array.from({ length: 8 }, () => chain.keep()))
      expect(moved.reduce((sum, count) => sum + count, 0)).toBe(1)
      expect(await chain.hashes(jobId)).toHaveLength(2)
    })
  })

  it('leases a nonce queue to one process at a time, until it is released or the lease expires', async () => {
    await settlingJob()
    const store = worker.ledger.settlement
    const account = { network: 'eip155:8453', facilitator: chain.facilitator }
    const taken = await Promise.all(Array.from({ length: 8 }, () => store.leaseNonceQueue(account, 60_000)))
    expect(taken.filter(Boolean)).toHaveLength(1)
    await store.releaseNonceQueue(account)
    expect(await store.leaseNonceQueue(account, 30)).toBe(true)
    await expect.poll(() => store.leaseNonceQueue(account, 60_000)).toBe(true)
    expect(await store.leaseNonceQueue(account, 60_000)).toBe(false)
  })

  it('does not touch transactions behind a recent head', async () => {
    const [, second] = (await settlingJobs(2)) as [string, string]
    const [hash] = await chain.hashes(second)
    await chain.rpc('anvil_dropTransaction', hash)
    await chain.keep()
    await age(worker, chain.facilitator, LATE_SECONDS)
    const sent = worker.proxy.calls.filter((method) => method === 'eth_sendRawTransaction').length
    expect(await chain.keep()).toBe(1)
    expect(worker.proxy.calls.filter((method) => method === 'eth_sendRawTransaction').length - sent).toBe(1)
    expect(await chain.hashes(second)).toHaveLength(1)
  })

  it('fills a nonce gap, so the settlement behind it is mined', async () => {
    await worker.ledger.sql(
      'INSERT INTO settlement_accounts (network, facilitator, next_account_nonce) VALUES ($1, $2, 1)',
      ['eip155:8453', chain.facilitator],
    )
    const jobId = await settlingJob()
    await chain.rpc('anvil_mine')
    expect(await chain.count()).toBe(0)
    expect(await chain.keep()).toBe(1)
    expect(await chain.keep()).toBe(0)
    await chain.rpc('anvil_mine')
    expect(await chain.count()).toBe(2)
    await worker.run(jobId, chain.chain)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
  })

  it('replaces the transaction of a failed settlement with an empty transfer', async () => {
    const [failed, good] = await settlingJobs(2)
    if (!failed || !good) throw new Error('two jobs')
    await worker.ledger.sql("UPDATE settlements SET state = 'reverted', finished_at = now() WHERE job_id = $1", [
      failed,
    ])
    const transfers = async () => (await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)).length
    const before = await transfers()
    expect(await chain.keep()).toBe(1)
    await chain.rpc('anvil_mine')
    expect(await chain.count()).toBe(2)
    expect(await transfers()).toBe(before + 1)
    await worker.run(good, chain.chain)
    expect(await worker.view(good)).toMatchObject({ state: 'completed' })
  })

  it('skips account nonces that were used elsewhere', async () => {
    await settlingJob()
    await chain.rpc('anvil_mine')
    await chain.useNonceElsewhere(1)
    await chain.useNonceElsewhere(2)
    await chain.rpc('anvil_mine')
    await chain.keep()
    const [account] = await worker.ledger.sql(
      'SELECT next_account_nonce, head_account_nonce FROM settlement_accounts WHERE facilitator = $1',
      [chain.facilitator],
    )
    expect(account).toEqual({ next_account_nonce: '3', head_account_nonce: '3' })
  })

  it('makes no RPC call for an idle nonce queue', async () => {
    await settlingJob()
    await chain.rpc('anvil_mine')
    await chain.keep()
    const calls = worker.proxy.calls.length
    for (let round = 0; round < 5; round += 1) await chain.keep()
    expect(worker.proxy.calls.length).toBe(calls)
  })

  it('releases the nonce queue when the chain is unreachable', async () => {
    const jobId = await settlingJob()
    await chain.keep()
    await age(worker, chain.facilitator, LATE_SECONDS)
    worker.proxy.setFault({ kind: 'reset' })
    await expect(chain.keep()).rejects.toThrow('HTTP request failed')
    worker.proxy.setFault(null)
    expect(await chain.keep()).toBe(1)
    expect(await chain.hashes(jobId)).toHaveLength(2)
  })
})
