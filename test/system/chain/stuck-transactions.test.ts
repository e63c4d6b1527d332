import { Registry } from 'prom-client'
import { numberToHex, parseTransaction, toHex } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LOWEST_CHARGE, maximumFeePerGasWei } from '#shared/catalog/fee-limit.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createChainClock } from '#shared/chain/reading/chain-clock.ts'
import { createFeeEstimator, requireFeesWithinMaximum } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import { watchGas } from '../../../workers/settlement/own-keys/watch-gas.ts'
import { addSettlementMetrics, measuredSettlementStore } from '../../../workers/telemetry/settlement-metrics.ts'
import {
  age,
  BOTH_WAYS,
  createSettlementChain,
  LATE_SECONDS,
  type SettlementChain,
  stopChainWatch,
} from '../../support/chain/settlement-chain.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

const advanceTime = stopChainWatch()
const HOUR_MS = 3_600_000
const GWEI = 10n ** 9n

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

    it('a late head is replaced without the failed settlement behind it, whose place an empty transfer takes', async () => {
      await chain.rpc('anvil_setNextBlockBaseFeePerGas', toHex(GWEI))
      await chain.rpc('anvil_mine')
      const [head, failed, last] = (await settlingJobs(3)) as [string, string, string]
      await worker.ledger.sql("UPDATE settlements SET state = 'reverted', finished_at = now() WHERE job_id = $1", [
        failed,
      ])
      await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x174876e800')
      await chain.rpc('anvil_mine')
      const transfers = async () => (await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)).length
      const before = await transfers()
      expect(await keepAfter(LATE_SECONDS)).toBe(2)
      expect(await chain.hashes(failed)).toHaveLength(1)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(1)
      expect(await chain.keep()).toBe(1)
      await chain.rpc('anvil_mine')
      expect(await chain.count()).toBe(3)
      expect(await transfers()).toBe(before + 2)
      for (const jobId of [head, last]) {
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

describe('the chain’s time and gas', () => {
  let worker: TestWorker
  let chain: SettlementChain
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  beforeEach(async () => {
    chain = await createSettlementChain(worker)
  })

  afterEach(() => {
    worker.proxy.setFault(null)
    worker.upstream.clearCalls()
  })

  afterAll(() => worker.stop())

  async function withChainAhead(seconds: number, work: () => Promise<void>): Promise<void> {
    const snapshot = await chain.rpc<string>('evm_snapshot')
    const block = await worker.devnet.client.getBlock()
    await chain.rpc('evm_setNextBlockTimestamp', Number(block.timestamp) + seconds)
    await chain.rpc('anvil_mine')
    await work()
    await chain.rpc('evm_revert', snapshot)
  }
  /** Creates a clock on a machine that is `offsetMs` ahead. */
  function clockAt(offsetMs: number, maximumHeadAgeMs?: number) {
    const client = createChainClient(worker.proxy.url, PATIENCE_MS)
    return createChainClock(client, () => new Date(Date.now() + offsetMs), maximumHeadAgeMs)
  }
  describe('the chain clock', () => {
    it('the chain clock returns the machine’s time while the latest block is older', async () => {
      const before = Date.now() + HOUR_MS
      expect((await clockAt(HOUR_MS).chainNow()).getTime()).toBeGreaterThanOrEqual(before)
    })

    it('the chain clock returns the block’s time plus the time elapsed since while the machine is behind', async () => {
      await chain.rpc('anvil_mine')
      const clock = clockAt(-HOUR_MS)
      const blockTimeMs = Number((await worker.devnet.client.getBlock()).timestamp) * 1000
      const first = (await clock.chainNow()).getTime()
      expect(first).toBeGreaterThanOrEqual(blockTimeMs)
      advanceTime(50)
      expect((await clock.chainNow()).getTime() - first).toBe(50)
    })

    it('the chain clock reads the chain at most once a second for all callers', async () => {
      const clock = clockAt(0)
      const calls = worker.proxy.calls.length
      await Promise.all(Array.from({ length: 20 }, () => clock.chainNow()))
      advanceTime(999)
      await clock.skewMs()
      expect(worker.proxy.calls.length - calls).toBe(1)
      advanceTime(1)
      await clock.chainNow()
      expect(worker.proxy.calls.length - calls).toBe(2)
    })

    it('the chain clock throws payment_network_unavailable while the chain is unreachable, and recovers immediately afterwards', async () => {
      const clock = clockAt(0)
      worker.proxy.setFault({ kind: 'status', status: 500 })
      await expect(clock.chainNow()).rejects.toMatchObject({ code: 'payment_network_unavailable' })
      worker.proxy.setFault(null)
      await expect(clock.chainNow()).resolves.toBeInstanceOf(Date)
    })

    it('the chain clock throws payment_network_unavailable while the newest block is older than the maximum', async () => {
      await chain.rpc('anvil_mine')
      await expect(clockAt(HOUR_MS, HOUR_MS / 2).chainNow()).rejects.toMatchObject({
        code: 'payment_network_unavailable',
        entry: { payment: 'none', retry: 'same_request' },
      })
      await expect(clockAt(HOUR_MS).skewMs()).resolves.toBeNull()
      // A machine whose clock is behind finds by the time that passes that no new block comes.
      const clock = clockAt(-HOUR_MS, HOUR_MS / 2)
      await expect(clock.chainNow()).resolves.toBeInstanceOf(Date)
      advanceTime(HOUR_MS)
      await expect(clock.chainNow()).rejects.toThrow('no new blocks')
      await chain.rpc('anvil_mine')
      advanceTime(1000)
      await expect(clock.chainNow()).resolves.toBeInstanceOf(Date)
    })

    it('the chain clock reports no skew for a block that may be old, but one for a block from the future', async () => {
      expect(await clockAt(HOUR_MS).skewMs()).toBeNull()
      await chain.rpc('anvil_mine')
      expect(await clockAt(-HOUR_MS).skewMs()).toBeLessThan(-HOUR_MS / 2)
    })
  })

  describe('a job before its provider call', () => {
    it('a job fails without a provider call when too little time is left by chain time', async () => {
      const { jobId } = await chain.accept()
      await withChainAhead(595, async () => {
        // Separate dependencies: a clock that has not read the chain yet.
        await worker.run(jobId, { ...worker.through(worker.proxy, chain.privateKey), settlementMarginMs: 10_000 })
      })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'failed',
        failure_code: 'authorization_too_short',
        attempts: [],
      })
      expect(worker.upstream.calls).toEqual([])
    })

    it('a job is deferred without a provider call while the settlement key has no gas, then continues', async () => {
      const { jobId } = await chain.accept()
      await chain.rpc('anvil_setBalance', chain.facilitator, toHex(1000n))
      await worker.run(jobId, chain.chain)
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true })
      expect(worker.upstream.calls).toEqual([])
      await chain.rpc('anvil_setBalance', chain.facilitator, toHex(10n ** 18n))
      await worker.runNow(jobId, worker.through(worker.proxy, chain.privateKey))
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    })
  })

  describe('the gas of a settlement key', () => {
    it('the gas of a settlement key is exported to Prometheus with the settlements, and logged as a warning when it is low', async () => {
      const { jobId } = await chain.accept()
      await worker.run(jobId, chain.chain)
      const { gas } = worker.through(worker.proxy, chain.privateKey)
      const registry = new Registry()
      const { reports: reportsStore } = worker.ledger
      const { onReplacement } = addSettlementMetrics(registry, { ...chain.watching(), reportsStore, gas })
      onReplacement({ network: 'eip155:8453', facilitator: chain.facilitator })
      const text = await registry.metrics()
      expect(text).toMatch(new RegExp(`farebox_settlement_gas_wei{facilitator="${chain.facilitator}"} 9\\d+`))
      expect(text).toMatch(
        new RegExp(`farebox_settlement_gas_settlements_left{facilitator="${chain.facilitator}"} [1-9]`),
      )
      expect(text).toContain(`farebox_settlement_replacements_total{facilitator="${chain.facilitator}"} 1`)
      expect(text).toMatch(/farebox_settlements{state="confirmed"} [1-9]/)
      expect(text).toMatch(/farebox_settlements{state="signed"} 0/)
      expect(text).toMatch(/farebox_settlement_oldest_unconfirmed_seconds 0/)

      const read = await gas.readGas(chain.facilitator)
      const warnings: unknown[] = []
      const logger = { ...worker.dependencies.logger, warn: (...logged: unknown[]) => void warnings.push(logged) }
      const watch = (settlementsLeft: number) => {
        const known = { readGas: async () => ({ ...read, settlementsLeft }) }
        return watchGas({ ...chain.watching(), gas: known, nativeTokenUsd: 0.01, logger }).run()
      }
      await watch(1000)
      expect(warnings).toEqual([])
      await watch(999)
      expect(warnings).toEqual([['a settlement key is low on gas', { facilitator: chain.facilitator, count: 999 }]])
    })
  })

  /** Reads the gas of the key with fees of at most `maximum`, while the base fee of the next block is `baseFee`. */
  async function readGas(baseFee: bigint, maximum: bigint) {
    const client = createChainClient(worker.proxy.url, PATIENCE_MS)
    await chain.rpc('anvil_setNextBlockBaseFeePerGas', toHex(baseFee))
    const estimateFees = createFeeEstimator(client, maximum)
    return { fees: await estimateFees(), gas: createGasReader(client, estimateFees) }
  }
  describe('the fees of settlements', () => {
    it('the fees of settlements never exceed the maximum, and a warning and a metric say that it limits them', async () => {
      for (const [maximum, isLimited] of [
        [1000n * GWEI, false],
        [3n * GWEI, false],
        [(22n * GWEI) / 10n, true],
      ] as const) {
        const { fees, gas } = await readGas(2n * GWEI, maximum)
        expect(fees.maxFeePerGas <= maximum && fees.maxPriorityFeePerGas <= maximum).toBe(true)
        const registry = new Registry()
        addSettlementMetrics(registry, { ...chain.watching(), reportsStore: worker.ledger.reports, gas })
        expect(await registry.metrics()).toContain(
          `farebox_settlement_fee_limited{facilitator="${chain.facilitator}"} ${isLimited ? 1 : 0}`,
        )
        const warnings: string[] = []
        const logger = { ...worker.dependencies.logger, warn: (message: string) => void warnings.push(message) }
        const ample = { readGas: async () => ({ ...(await gas.readGas(chain.facilitator)), settlementsLeft: 1000 }) }
        await watchGas({ ...chain.watching(), gas: ample, nativeTokenUsd: 0.01, logger }).run()
        expect(warnings).toEqual(isLimited ? ['MAXIMUM_FEE_PER_GAS_WEI limits the fees of settlements'] : [])
      }
    })

    it('tip as much as the transactions of full blocks, and the minimum where blocks have room', async () => {
      const [from] = await chain.rpc<readonly string[]>('eth_accounts')
      const tip = 3n * GWEI
      const tipIn = async (blockGasLimit: bigint) => {
        await chain.rpc('evm_setBlockGasLimit', toHex(blockGasLimit))
        const sent = { from, to: from, gas: toHex(21_000), maxFeePerGas: toHex(20n * GWEI) }
        await chain.untilMined(await chain.rpc('eth_sendTransaction', { ...sent, maxPriorityFeePerGas: toHex(tip) }))
        return (await createFeeEstimator(createChainClient(worker.proxy.url, PATIENCE_MS))()).maxPriorityFeePerGas
      }
      try {
        expect(await tipIn(30_000_000n)).toBe(1_000_000n)
        expect(await tipIn(25_000n)).toBe(tip)
      } finally {
        await chain.rpc('evm_setBlockGasLimit', toHex(30_000_000))
      }
    })

    it('a key can pay for no settlement while the base fee exceeds the maximum, so no provider is called', async () => {
      const { jobId } = await chain.accept()
      const { gas } = await readGas(20n * GWEI, 5n * GWEI)
      expect(await gas.readGas(chain.facilitator)).toMatchObject({ settlementsLeft: 0 })
      await worker.run(jobId, { ...chain.chain, gas })
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true })
    })

    it('are expected with the data fee that the rollup’s oracle names', async () => {
      const dataFeeWei = 123_456n
      const { fees, gas } = await readGas(GWEI / 100n, 5n * GWEI)
      // Returns the number, whatever is asked.
      const code = `0x7f${numberToHex(dataFeeWei, { size: 32 }).slice(2)}60005260206000f3`
      await chain.rpc('anvil_setCode', '0x420000000000000000000000000000000000000F', code)
      const { expectedSettlementWei } = await gas.readGas(chain.facilitator)
      await chain.rpc('anvil_setCode', '0x420000000000000000000000000000000000000F', '0x')
      expect(expectedSettlementWei).toBe(177_000n * (fees.baseFeePerGas + fees.maxPriorityFeePerGas) + dataFeeWei)
    })

    it.each([
      ['leaves a minimum call a loss of at most its own price', { NATIVE_TOKEN_USD: 4000 }, 10_309_278n],
      ['follows the price of the native token', { NATIVE_TOKEN_USD: 8000 }, 5_154_639n],
      ['is the operator’s', { NATIVE_TOKEN_USD: 4000, MAXIMUM_FEE_PER_GAS_WEI: 7n }, 7n],
    ])('the maximum %s', (_, settings, maximum) => {
      expect(maximumFeePerGasWei(settings)).toBe(maximum)
      expect(usdcOfWei(97_000n * maximum, settings.NATIVE_TOKEN_USD)).toBeLessThanOrEqual(2n * LOWEST_CHARGE)
    })

    it('are too high for new payments as soon as the base fee comes within a quarter of the maximum', async () => {
      const { fees } = await readGas(8n * GWEI, 10n * GWEI)
      await expect(requireFeesWithinMaximum(() => Promise.resolve(fees))).resolves.toBeUndefined()
      const { fees: high } = await readGas(8n * GWEI + 4n, 10n * GWEI)
      await expect(requireFeesWithinMaximum(() => Promise.resolve(high))).rejects.toMatchObject({
        code: 'payment_network_fees_high',
      })
    })

    it('a settlement that is expected to cost more gas than the lowest charge is logged and exported', async () => {
      const { fees, gas } = await readGas(GWEI / 100n, 5n * GWEI)
      const { expectedSettlementWei } = await gas.readGas(chain.facilitator)
      expect(expectedSettlementWei).toBe(177_000n * (fees.baseFeePerGas + fees.maxPriorityFeePerGas))
      const costIn = (nativeTokenUsd: number) => usdcOfWei(expectedSettlementWei, nativeTokenUsd)
      // The prices at which the cost is just below and just above the lowest charge of 0.002 USDC.
      const breakEven = Math.floor((2000 * 10 ** 14) / Number(expectedSettlementWei)) / 100
      expect([costIn(breakEven) <= 2000n, costIn(breakEven + 1) > 2000n]).toEqual([true, true])
      for (const [nativeTokenUsd, expected] of [
        [breakEven, []],
        [breakEven + 1, ['a settlement is expected to cost more gas than the lowest charge']],
      ] as const) {
        const warnings: string[] = []
        const logger = { ...worker.dependencies.logger, warn: (message: string) => void warnings.push(message) }
        const watch = watchGas({ ...chain.watching(), gas, nativeTokenUsd, logger })
        await watch.run()
        await watch.run()
        // Once: it may last for days.
        expect(warnings).toEqual(expected)
        const registry = new Registry()
        addSettlementMetrics(registry, {
          ...chain.watching(),
          reportsStore: worker.ledger.reports,
          gas,
          nativeTokenUsd,
        })
        expect(await registry.metrics()).toContain(
          `farebox_settlement_expected_gas_usdc_atomic{facilitator="${chain.facilitator}"} ${costIn(nativeTokenUsd)}`,
        )
      }
    })

    it('the gas of confirmed and reverted settlements is counted in USDC', async () => {
      const registry = new Registry()
      const settlementStore = measuredSettlementStore(registry, worker.ledger.settlement)
      const { jobId } = await chain.accept()
      await worker.run(jobId, { ...chain.chain, settlementStore })
      const { jobId: revertedId, payer } = await chain.accept()
      const { settler } = chain.chain
      const broadcast: typeof settler.broadcast = async (transaction) => {
        await payer.spend(1_000_000n)
        return await settler.broadcast(transaction)
      }
      await worker.run(revertedId, { ...chain.chain, settler: { ...settler, broadcast }, settlementStore })
      const metrics = await registry.metrics()
      for (const [job, outcome] of [
        [jobId, 'confirmed'],
        [revertedId, 'reverted'],
      ]) {
        const [row] = await worker.ledger.sql<{ cost: string }>(
          'SELECT gas_cost AS cost FROM settlements WHERE job_id = $1',
          [job],
        )
        expect(metrics).toContain(`farebox_settlement_gas_usdc_atomic_total{outcome="${outcome}"} ${row?.cost}`)
      }
    })
  })

  it('a job settles with one simulation (two with a permit), one broadcast, one receipt and one block', async () => {
    for (const [isApproved, expected] of [
      [true, ['eth_call']],
      [false, ['eth_call', 'eth_call']],
    ] as const) {
      const { jobId, payer } = await chain.accept({ gasSponsored: !isApproved })
      if (isApproved) await payer.approve()
      const { settler } = chain.chain
      let calls = 0
      const prepare: typeof settler.prepare = (...charge) => {
        calls = worker.proxy.calls.length
        return settler.prepare(...charge)
      }
      const broadcast: typeof settler.broadcast = async (transaction) => {
        const answer = await settler.broadcast(transaction)
        await chain.untilMined(transaction.hash)
        return answer
      }
      await worker.run(jobId, { ...chain.chain, settler: { ...settler, prepare, broadcast } })
      const methods = worker.proxy.calls.slice(calls)
      const settling = methods.filter((method) => !['eth_feeHistory', 'eth_getTransactionCount'].includes(method))
      expect(settling).toEqual([
        ...expected,
        'eth_sendRawTransaction',
        'eth_getTransactionReceipt',
        'eth_getBlockByNumber',
      ])
      // Each is read once for many settlements.
      expect(methods.filter((method) => method === 'eth_feeHistory').length).toBeLessThanOrEqual(1)
      expect(methods.filter((method) => method === 'eth_getTransactionCount').length).toBeLessThanOrEqual(1)
    }
  })
})
