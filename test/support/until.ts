import { vi } from 'vitest'
import { PATIENCE_MS } from './patience.ts'

const POLL_MS = 20

/** Polls until `condition` returns something truthy, and returns that. Fails after {@link PATIENCE_MS}. */
export function until<T>(condition: () => T | Promise<T>) {
  return vi.waitUntil(condition, { timeout: PATIENCE_MS, interval: POLL_MS })
}
