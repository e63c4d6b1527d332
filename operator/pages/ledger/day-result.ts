import type { LedgerDay } from '#shared/ledger/console/read-days.ts'
import type { Margin } from '#shared/ledger/reports/margin.ts'

export interface DayResult extends LedgerDay {
  /** The gas of settlements and permits. */
  readonly gas: bigint
  /**
   * Charges settled on chain, less gas and what vendors bill. Uncharged work is an upper bound and not in it; neither is what operators
   * refunded, which is money that is not among the settled charges.
   */
  readonly result: bigint
}

export function withResult(day: LedgerDay): DayResult {
  const gas = day.settlementGas
  return { ...day, gas, result: day.settled - gas - day.vendorCost }
}

export interface DayState {
  readonly tone: 'good' | 'warning' | 'bad' | 'neutral'
  readonly label: string
}

/** Compares the day's charges with their settlements, each of which was checked against its final block. */
export function stateOf({ charged, settled, notFinal }: LedgerDay): DayState {
  if (charged.amount !== settled) return { tone: 'bad', label: 'charges and settlements differ' }
  if (notFinal > 0) return { tone: 'warning', label: `${notFinal} not final yet` }
  return charged.count === 0 ? { tone: 'neutral', label: 'nothing charged' } : { tone: 'good', label: 'final on chain' }
}

type Total = Pick<DayResult, 'charged' | 'settled' | 'gas' | 'vendorCost' | 'result' | 'uncharged'> & {
  readonly resolved: LedgerDay['charged']
}

const NOTHING: Total = {
  charged: { count: 0, amount: 0n },
  settled: 0n,
  gas: 0n,
  vendorCost: 0n,
  resolved: { count: 0, amount: 0n },
  result: 0n,
  uncharged: { count: 0, amount: 0n },
}

export function totalOf(days: readonly DayResult[]): Total {
  return days.reduce<Total>(
    (total, day) => ({
      charged: sumOf(total.charged, day.charged),
      settled: total.settled + day.settled,
      gas: total.gas + day.gas,
      vendorCost: total.vendorCost + day.vendorCost,
      resolved: day.resolved.reduce<LedgerDay['charged']>(sumOf, total.resolved),
      result: total.result + day.result,
      uncharged: sumOf(total.uncharged, day.uncharged),
    }),
    NOTHING,
  )
}

function sumOf(left: LedgerDay['charged'], right: LedgerDay['charged']): LedgerDay['charged'] {
  return { count: left.count + right.count, amount: left.amount + right.amount }
}

/** Returns the sum of margins. */
export function sumOfMargins(margins: readonly Margin[]): Margin {
  return margins.reduce<Margin>(
    (sum, margin) => ({
      calls: sum.calls + margin.calls,
      chargedAtomic: sum.chargedAtomic + margin.chargedAtomic,
      vendorAtomic: sum.vendorAtomic + margin.vendorAtomic,
      gasAtomic: sum.gasAtomic + margin.gasAtomic,
      marginAtomic: sum.marginAtomic + margin.marginAtomic,
      withoutVendorCost: sum.withoutVendorCost + margin.withoutVendorCost,
      withoutGas: sum.withoutGas + margin.withoutGas,
    }),
    {
      calls: 0,
      chargedAtomic: 0n,
      vendorAtomic: 0n,
      gasAtomic: 0n,
      marginAtomic: 0n,
      withoutVendorCost: 0,
      withoutGas: 0,
    },
  )
}
