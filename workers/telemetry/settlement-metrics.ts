import { Counter, Gauge, type Registry } from 'prom-client'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Gas, GasReader } from '#shared/payment/gas-reader.ts'
import type { KeeperDependencies } from '../settlement/own-keys/replace-stuck-transactions.ts'
import { sharedReading } from './shared-reading.ts'

export interface SettlementMetricsDependencies {
  readonly settlements: Pick<SettlementStore, 'readTotals'>
  readonly gas: GasReader
  readonly facilitators: readonly `0x${string}`[]
}

/**
 * Adds what the ledger and the chain tell of settlements. The former is the same in every worker: take the maximum, not the sum.
 * A figure that cannot be read is left out of the scrape.
 */
export function addSettlementMetrics(
  registry: Registry,
  { settlements, gas, facilitators }: SettlementMetricsDependencies,
): Pick<KeeperDependencies, 'onReplacement' | 'onUsedElsewhere'> {
  const register = { registers: [registry] }
  const readTotals = sharedReading(() => settlements.readTotals())
  const counts = new Gauge({
    name: 'farebox_settlements',
    help: 'Settlements that are not done with: signed, confirmed but not final, unproven, lost',
    labelNames: ['state'],
    ...register,
    collect: async () => {
      counts.reset()
      const figures = await readTotals()
      for (const [state, count] of Object.entries(figures?.counts ?? {})) counts.set({ state }, count)
    },
  })
  const oldest = new Gauge({
    name: 'farebox_settlement_oldest_unconfirmed_seconds',
    help: 'Age of the oldest signed settlement that is not confirmed; 0 when there is none',
    ...register,
    collect: async () => {
      const figures = await readTotals()
      if (figures) oldest.set(figures.oldestSignedAgeSeconds)
      else oldest.remove()
    },
  })
  const perKey = async (gauge: Gauge<'facilitator'>, figureOf: (read: Gas) => number) => {
    gauge.reset()
    for (const facilitator of facilitators) {
      const read = await gas.readGas(facilitator).catch(() => null)
      if (read) gauge.set({ facilitator }, figureOf(read))
    }
  }
  const left = new Gauge({
    name: 'farebox_settlement_gas_settlements_left',
    help: 'How many of the dearest settlements the gas of a settlement key pays for at present fees',
    labelNames: ['facilitator'],
    ...register,
    collect: (): Promise<void> => perKey(left, ({ settlementsLeft }) => settlementsLeft),
  })
  const wei = new Gauge({
    name: 'farebox_settlement_gas_wei',
    help: 'The native balance of a settlement key',
    labelNames: ['facilitator'],
    ...register,
    collect: (): Promise<void> => perKey(wei, ({ balanceWei }) => Number(balanceWei)),
  })
  const replacements = new Counter({
    name: 'farebox_settlement_replacements_total',
    help: 'Transactions that this process signed again with a higher fee',
    labelNames: ['facilitator'],
    ...register,
  })
  const usedElsewhere = new Counter({
    name: 'farebox_settlement_nonces_used_elsewhere_total',
    help: 'Account nonces of a settlement key that somebody beside this ledger used',
    labelNames: ['facilitator'],
    ...register,
  })
  return {
    onReplacement: ({ facilitator }) => replacements.inc({ facilitator }),
    onUsedElsewhere: ({ facilitator }, count) => usedElsewhere.inc({ facilitator }, count),
  }
}
