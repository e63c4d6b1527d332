import { describe, expect, it } from 'vitest'
import type { LedgerDay } from '#shared/operators/money-store.ts'
import { DAY_COLUMNS, dayCells } from '../../../operator/pages/ledger/csv-rows.ts'
import { stateOf, totalOf, withResult } from '../../../operator/pages/ledger/day-result.ts'

function day(changes: Partial<LedgerDay> = {}): LedgerDay {
  return {
    day: '2026-03-01',
    charged: { count: 2, amount: 10_000n },
    settled: 10_000n,
    notFinal: 0,
    settlementGas: 400n,
    permitGas: 60n,
    uncharged: { count: 1, amount: 700n },
    resolved: [],
    ...changes,
  }
}

describe('the result of a day', () => {
  it('is what was settled less gas, and may be a loss', () => {
    expect(withResult(day())).toMatchObject({ gas: 460n, result: 9540n })
    expect(withResult(day({ settled: 0n })).result).toBe(-460n)
  })

  it('leaves refunds out, which return money that is not among the settled charges', () => {
    const resolved = [{ outcome: 'refunded', count: 1, amount: 5000n }]
    expect(withResult(day({ resolved })).result).toBe(9540n)
    expect(totalOf([withResult(day({ resolved })), withResult(day())])).toMatchObject({
      result: 19_080n,
      resolved: { count: 1, amount: 5000n },
    })
  })
})

describe('the state of a day', () => {
  it.each<[string, Partial<LedgerDay>, string]>([
    ['charges differ from settlements', { settled: 9999n }, 'bad'],
    ['charges differ, although some are not final', { settled: 9999n, notFinal: 1 }, 'bad'],
    ['a settlement is not final', { notFinal: 1 }, 'warning'],
    ['every charge is final', {}, 'good'],
    ['nothing was charged', { charged: { count: 0, amount: 0n }, settled: 0n }, 'neutral'],
  ])('when %s', (_, changes, tone) => {
    expect(stateOf(day(changes)).tone).toBe(tone)
  })
})

it('writes a cell for each column of a day, with six decimals', () => {
  const resolved = [{ outcome: 'written_off', count: 1, amount: 5034n }]
  const cells = dayCells(withResult(day({ settled: 12_345_678n, resolved })))
  expect(cells).toHaveLength(DAY_COLUMNS.length)
  expect(cells[DAY_COLUMNS.indexOf('settled_usdc')]).toBe('12.345678')
  expect(cells[DAY_COLUMNS.indexOf('written_off_usdc')]).toBe('0.005034')
  expect(dayCells(withResult(day({ settled: 0n })))[DAY_COLUMNS.indexOf('result_usdc')]).toBe('-0.000460')
})
