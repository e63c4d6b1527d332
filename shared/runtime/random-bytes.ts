import { randomFillSync } from 'node:crypto'

/** Asking the generator costs the same for 16 bytes and for some thousand. */
const POOL_BYTES = 4096

const pool = Buffer.allocUnsafeSlow(POOL_BYTES)
let taken = POOL_BYTES

/**
 * Returns unpredictable bytes that nobody else gets, for small identifiers: a few at a time, to be used at once, since later
 * calls overwrite them.
 */
export function takeRandomBytes(count: number): Buffer {
  if (taken + count > POOL_BYTES) {
    randomFillSync(pool)
    taken = 0
  }
  taken += count
  return pool.subarray(taken - count, taken)
}
