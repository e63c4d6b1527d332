import { describe, expect, it } from 'vitest'
import { settlementPause } from '#shared/payment/settlement-retry.ts'

const none = { count: 0, secondsSinceNewest: 0 }
const reverts = (count: number, secondsSinceNewest = 0) => ({ count, secondsSinceNewest })

describe('the pause before a withheld result may be settled again', () => {
  it.each([
    [0, 0],
    [1, 0],
    [2, 60],
    [3, 120],
    [4, 240],
    [7, 1920],
    [8, 3600],
    [1000, 3600],
  ])('after %i reverts of the job is %i seconds', (count, pause) => {
    expect(settlementPause({ ofJob: reverts(count), ofPayer: none, settlesAnother: true })).toBe(pause)
  })

  it.each([
    [3, 0],
    [4, 60],
    [5, 120],
    [20, 3600],
  ])('after %i reverts of the payer is %i seconds', (count, pause) => {
    expect(settlementPause({ ofJob: reverts(1), ofPayer: reverts(count), settlesAnother: false })).toBe(pause)
  })

  it('the pause is the longer of both, less the time since the newest revert, rounded up', () => {
    expect(settlementPause({ ofJob: reverts(2, 10.2), ofPayer: reverts(5, 10.2), settlesAnother: false })).toBe(110)
    expect(settlementPause({ ofJob: reverts(4, 10), ofPayer: reverts(4, 10), settlesAnother: false })).toBe(230)
    expect(settlementPause({ ofJob: reverts(4, 240), ofPayer: reverts(4, 60), settlesAnother: false })).toBe(0)
  })

  it('a payer whose free reverts are used up waits while another charge is being settled', () => {
    expect(settlementPause({ ofJob: reverts(1, 90), ofPayer: reverts(4, 90), settlesAnother: true })).toBe(5)
    expect(settlementPause({ ofJob: reverts(1, 90), ofPayer: reverts(3, 90), settlesAnother: true })).toBe(0)
  })
})
