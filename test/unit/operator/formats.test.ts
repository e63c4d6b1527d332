import { expect, it } from 'vitest'
import { FORMATS } from '../../../operator/rendering/formats.ts'

const { usdc, eth, count, counted, time, age, duration, milliseconds, idempotencyKey, short } = FORMATS

it('renders amounts with all decimals and thousands separators', () => {
  expect([0n, 5034n, 1_000_000n, 1_234_567_000_001n, -5n].map(usdc)).toEqual([
    '0.000000',
    '0.005034',
    '1.000000',
    '1,234,567.000001',
    '-0.000005',
  ])
  expect(eth(1_999_999_999_999_999_999n)).toBe('1.999999')
  expect([counted(1, 'call'), counted(2000, 'call')]).toEqual(['1 call', '2,000 calls'])
  expect([0, 999, 1000, 1_234_567n].map(count)).toEqual(['0', '999', '1,000', '1,234,567'])
})

it('renders moments in UTC, and how long ago they were', () => {
  const moment = new Date('2026-11-22T20:15:07.900Z')
  const after = (seconds: number) => new Date(moment.getTime() + seconds * 1000)
  expect(time(moment)).toBe('2026-11-22T20:15:07Z')
  expect([0, 59, 60, 7199, 86_400 * 3, -3600].map((seconds) => age(moment, after(seconds)))).toEqual([
    '0 s ago',
    '59 s ago',
    '1 min ago',
    '1 h ago',
    '3 d ago',
    'in 1 h',
  ])
  expect([0.2, 61].map(duration)).toEqual(['0 s', '1 min'])
  expect([87.4, 1250].map(milliseconds)).toEqual(['87 ms', '1.25 s'])
})

it('shows of an idempotency key its first characters and its length, and never all of it', () => {
  expect(idempotencyKey('0123456789abcdef')).toBe('012345… (16 characters)')
  expect(idempotencyKey('abc')).toBe('a… (3 characters)')
  expect(short('0x1234567890abcdef1234')).toBe('0x123456…1234')
})
