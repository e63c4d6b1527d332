import { Registry } from 'prom-client'
import { toHex } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createChainClock } from '#shared/adapters/chain/reading/chain-clock.ts'
import { watchGas } from '../../../workers/settlement/own-keys/watch-gas.ts'
import { addSettlementMetrics } from '../../../workers/telemetry/settlement-metrics.ts'
import { createSettlementChain, type SettlementChain, stopChainWatch } from '../../support/chain/settlement-chain.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

let worker: TestWorker
let chain: SettlementChain
const advanceTime = stopChainWatch()
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

const HOUR_MS = 3_600_000

async function withChainAhead(seconds: number, work: () => Promise<void>): Promise<void> {
  const snapshot = await chain.rpc<string>('evm_snapshot')
  const block = await worker.devnet.client.getBlock()
  await chain.rpc('evm_setNextBlockTimestamp', Number(block.timestamp) + seconds)
  await chain.rpc('anvil_mine')
  await work()
  await chain.rpc('evm_revert', snapshot)
}

/** Creates a clock on a machine that is `offsetMs` ahead. */
function clockAt(offsetMs: number) {
  return createChainClock(createChainClient(worker.proxy.url, PATIENCE_MS), () => new Date(Date.now() + offsetMs))
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
    const sources = { reportsStore: worker.ledger.reports, gas, facilitators: [chain.facilitator] }
    const { onReplacement } = addSettlementMetrics(registry, sources)
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

    const { settlementsLeft } = await gas.readGas(chain.facilitator)
    const warnings: unknown[] = []
    const logger = { ...worker.dependencies.logger, warn: (...logged: unknown[]) => void warnings.push(logged) }
    const watch = (gasWarningSettlements: number) =>
      watchGas({ gas, facilitators: [chain.facilitator], gasWarningSettlements, logger }).run()
    await watch(settlementsLeft)
    expect(warnings).toEqual([])
    await watch(settlementsLeft + 1)
    expect(warnings).toEqual([
      ['a settlement key is low on gas', { facilitator: chain.facilitator, count: settlementsLeft }],
    ])
  })
})

it('a job settles with one simulation (two with a permit), one broadcast and one receipt', async () => {
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
    expect(settling).toEqual([...expected, 'eth_sendRawTransaction', 'eth_getTransactionReceipt'])
    // Each is read once for many settlements.
    expect(methods.filter((method) => method === 'eth_feeHistory').length).toBeLessThanOrEqual(1)
    expect(methods.filter((method) => method === 'eth_getTransactionCount').length).toBeLessThanOrEqual(1)
  }
})
