import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Gas } from '#shared/chain/settlement/gas-reader.ts'
import type { StoredSettlement, Written } from '#shared/jobs/job.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { SettlementWatchDependencies } from '../settlement/dependencies.ts'
import type { ReplacementDependencies } from '../settlement/own-keys/replace-stuck-transactions.ts'
import type { BatchesState, SettlementBatches } from '../settlement/own-keys/settlement-batches.ts'
import { addTotals, sharedReading } from './ledger-metrics.ts'

/** Sizes of batches, up to a full one. */
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 100]

/** Wraps the settlement store to count this process's batches, and what its settlements cost. */
export function measuredSettlementStore(registry: Registry, settlementStore: SettlementStore): SettlementStore {
  const byOutcome = { labelNames: ['outcome'], registers: [registry] }
  const spent = new Counter({
    name: 'farebox_settlement_gas_usdc_atomic_total',
    help: 'Gas of mined settlements of this process, in atomic USDC at NATIVE_TOKEN_USD',
    ...byOutcome,
  })
  const used = new Counter({
    name: 'farebox_settlement_gas_used_total',
    help: 'Gas that mined settlements of this process used; of a batch, their parts of it',
    ...byOutcome,
  })
  const mined = new Counter({
    name: 'farebox_settlements_mined_total',
    help: 'Mined settlements of this process whose gas is known; a batch that reverted as a whole counts once',
    ...byOutcome,
  })
  const belowGas = new Counter({
    name: 'farebox_settlements_below_gas_total',
    help: 'Confirmed settlements of this process whose gas cost more than they charged',
    registers: [registry],
  })
  const sizes = new Histogram({
    name: 'farebox_settlement_batch_size',
    help: 'Payments for each transaction that this process signed for the settlement contract',
    buckets: BATCH_SIZES,
    registers: [registry],
  })
  for (const outcome of ['confirmed', 'reverted', 'batch_reverted'])
    for (const counter of [spent, used, mined]) counter.inc({ outcome }, 0)
  const add = (outcome: string, gas: GasSpent) => {
    spent.inc({ outcome }, Number(gas.cost))
    used.inc({ outcome }, Number(gas.gasUsed))
    mined.inc({ outcome })
  }
  const count = (outcome: string, written: Written, gas: GasSpent | null | undefined) => {
    if (written === 'written' && gas) add(outcome, gas)
    return written
  }
  const countBatches = <Outcome extends StoredSettlement | string | Error>(outcomes: readonly Outcome[]) => {
    const batches = outcomes.flatMap((outcome) =>
      typeof outcome === 'string' || outcome instanceof Error ? [] : (outcome.batch ?? []),
    )
    for (const { size } of new Map(batches.map((batch) => [batch.id, batch])).values()) sizes.observe(size)
    return outcomes
  }
  return {
    ...settlementStore,
    recordBatch: async (...batch) => countBatches(await settlementStore.recordBatch(...batch)),
    renewBatch: async (...batch) => countBatches(await settlementStore.renewBatch(...batch)),
    completeJob: async (job, completion) => {
      const written = count('confirmed', await settlementStore.completeJob(job, completion), completion.gas)
      const charge = job.sealed?.chargeAmount
      if (written === 'written' && completion.gas && charge !== undefined && completion.gas.cost > charge)
        belowGas.inc()
      return written
    },
    recordRevertedBatch: async (hash, gas) => {
      const isNew = await settlementStore.recordRevertedBatch(hash, gas)
      if (isNew) add('batch_reverted', gas)
      return isNew
    },
    failSettlement: async (job, failure, debt) =>
      count('reverted', await settlementStore.failSettlement(job, failure, debt), failure.gas),
  }
}

/** Adds the state of this process's batches. */
export function addBatchMetrics(registry: Registry, batches: Pick<SettlementBatches, 'readState'>): void {
  const register = { registers: [registry] }
  const add = (name: string, help: string, valueOf: (state: BatchesState) => number) => {
    const gauge: Gauge = new Gauge({ name, help, ...register, collect: () => gauge.set(valueOf(batches.readState())) })
  }
  add(
    'farebox_settlement_batches_out',
    'Batches whose payments this process follows until they are confirmed',
    ({ out }) => out,
  )
  add(
    'farebox_settlements_without_nonce',
    'Charges of this process that wait because their settlement key has as many unmined transactions as nodes hold',
    ({ withoutNonce }) => withoutNonce,
  )
  add(
    'farebox_settlement_batch_gas_limit',
    'The most gas that a batch of this process may need: SETTLEMENT_BATCH_GAS, or less after every node refused a size',
    ({ gasLimit }) => Number(gasLimit),
  )
  let counted = 0
  const refused: Counter = new Counter({
    name: 'farebox_settlement_batches_refused_total',
    help: 'Batches that were too large for every node',
    ...register,
    collect: () => {
      const all = batches.readState().refused
      refused.inc(all - counted)
      counted = all
    },
  })
}

/**
 * Adds the state of settlements from the ledger and the chain. Every worker reports the same ledger totals: take the
 * maximum, not the sum. Values that cannot be read are left out.
 */
export function addSettlementMetrics(
  registry: Registry,
  {
    reportsStore,
    gas,
    accounts,
    nativeTokenUsd,
  }: SettlementWatchDependencies & { readonly reportsStore: ReportsStore },
): Pick<ReplacementDependencies, 'onReplacement' | 'onUsedElsewhere'> {
  const register = { registers: [registry] }
  const readTotals = sharedReading(() => reportsStore.readSettlementTotals())
  addTotals(registry, readTotals, [
    {
      name: 'farebox_settlements',
      help: 'Unfinished settlements: signed, confirmed but not final, unproven (transfer missing), lost, surplus and unknown (to refund) until they are resolved',
      labelNames: ['state'],
      show: (gauge, { counts }) => {
        for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count)
      },
    },
    {
      name: 'farebox_settlement_oldest_unconfirmed_seconds',
      help: 'Age of the oldest signed settlement that is not confirmed; 0 when there is none',
      labelNames: [],
      show: (gauge, { oldestSignedAgeSeconds }) => gauge.set(oldestSignedAgeSeconds),
    },
  ])
  const addPerKey = (name: string, help: string, valueOf: (read: Gas) => number) => {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['facilitator'],
      ...register,
      collect: async () => {
        gauge.reset()
        for (const facilitator of accounts.facilitators) {
          const read = await gas.readGas(facilitator).catch(() => null)
          if (read) gauge.set({ facilitator }, valueOf(read))
        }
      },
    })
  }
  addPerKey(
    'farebox_settlement_gas_settlements_left',
    'How many settlements at the highest gas use a settlement key can pay for at current fees',
    ({ settlementsLeft }) => settlementsLeft,
  )
  addPerKey('farebox_settlement_gas_wei', 'Native balance of a settlement key', ({ balanceWei }) => Number(balanceWei))
  addPerKey(
    'farebox_settlement_expected_gas_usdc_atomic',
    'What one settlement by permit is expected to cost at current fees, in atomic USDC at NATIVE_TOKEN_USD',
    ({ expectedSettlementWei }) => Number(usdcOfWei(expectedSettlementWei, nativeTokenUsd)),
  )
  addPerKey(
    'farebox_settlement_fee_limited',
    '1 while calls are refused for fees near or above MAXIMUM_FEE_PER_GAS_WEI, else 0',
    ({ isFeeLimited }) => (isFeeLimited ? 1 : 0),
  )
  const replacements = new Counter({
    name: 'farebox_settlement_replacements_total',
    help: 'Transactions that this process replaced with a higher fee',
    labelNames: ['facilitator'],
    ...register,
  })
  const usedElsewhere = new Counter({
    name: 'farebox_settlement_nonces_used_elsewhere_total',
    help: 'Account nonces of a settlement key that were used outside this ledger',
    labelNames: ['facilitator'],
    ...register,
  })
  return {
    onReplacement: ({ facilitator }) => replacements.inc({ facilitator }),
    onUsedElsewhere: ({ facilitator }, count) => usedElsewhere.inc({ facilitator }, count),
  }
}
