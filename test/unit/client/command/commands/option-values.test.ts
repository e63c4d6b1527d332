import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { decimalBetween, integerBetween } from '../../../../../client/command/commands/calls/number-option.ts'
import { timeOf } from '../../../../../client/command/commands/calls/time-option.ts'

describe('numbers', () => {
  it('are taken within their bounds', () => {
    expect(integerBetween(1, 65_536)('65536')).toBe(65_536)
    expect(decimalBetween(0.7, 1.2)('0.95')).toBe(0.95)
  })

  it.each(['0', '11', '1.5', '-1', '1e1', '', ' 2', 'NaN', 'Infinity'])('refuses %j as 1 to 10', (text) => {
    expect(() => integerBetween(1, 10)(text)).toThrow('Write an integer from 1 to 10.')
  })

  it.each(['0.69', '1.21', '1,0', '.9', '', 'fast'])('refuses %j as 0.7 to 1.2', (text) => {
    expect(() => decimalBetween(0.7, 1.2)(text)).toThrow('Write a number from 0.7 to 1.2.')
  })
})

describe('times', () => {
  beforeEach(() => vi.useFakeTimers({ now: new Date('2026-11-22T12:00:00Z'), toFake: ['Date'] }))
  afterEach(() => vi.useRealTimers())

  it.each([
    ['2026-11-01', '2026-11-01T00:00:00.000Z'],
    ['2026-11-01T14:00Z', '2026-11-01T14:00:00.000Z'],
    ['2026-11-01T14:00:30+02:00', '2026-11-01T12:00:30.000Z'],
    ['90m', '2026-11-22T10:30:00.000Z'],
    ['24h', '2026-11-21T12:00:00.000Z'],
    ['7d', '2026-11-15T12:00:00.000Z'],
    ['2w', '2026-11-08T12:00:00.000Z'],
  ])('reads %s', (text, time) => {
    expect(timeOf(text).toISOString()).toBe(time)
  })

  it.each(['yesterday', '2026-02-31', '2026-13-01', '11/22/2026', '2026-11-01T14:00', '7', '', '1y'])(
    'refuses %j',
    (text) => {
      expect(() => timeOf(text)).toThrow('Write a UTC day')
    },
  )
})
