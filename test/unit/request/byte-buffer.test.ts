import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { capacityFor } from '../../../api/request/byte-buffer.ts'

const FIRST = 64 * 1024

describe('the memory of an arriving body', () => {
  it('is never more than twice what has arrived, nor more than the body, nor less than what has arrived', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40_000_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (whole, share) => {
          const arrived = Math.floor(whole * share)
          const capacity = capacityFor(arrived, whole)
          expect(capacity).toBeGreaterThanOrEqual(Math.min(arrived, whole))
          expect(capacity).toBeLessThanOrEqual(Math.min(whole, Math.max(FIRST, 2 * arrived)))
        },
      ),
    )
  })

  it('grows to the whole body from half of it, so that the last step copies no more than that', () => {
    const whole = 33_601_392
    expect([capacityFor(whole / 2, whole), capacityFor(whole / 2 + 1, whole)]).toEqual([whole / 2, whole])
  })
})
