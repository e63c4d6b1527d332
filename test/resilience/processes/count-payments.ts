import { parseTransaction } from 'viem'
import { paymentsOfCall } from '../stack/pending-batches.ts'

/**
 * Returns how many payments a call is about: those of a batch that it names, or of a signed transaction; `null` where its
 * input says nothing of that.
 */
export function countPayments(input: readonly unknown[]): number | null {
  const [first] = input
  if (Array.isArray(first)) return first.length
  const raw = input.map(rawOf).find((one) => one !== null)
  return raw ? paymentsOfCall(parseTransaction(raw).data ?? '0x').length : null
}

/** Returns a signed transaction in the node's encoding, from that or from an object with it. */
function rawOf(value: unknown): `0x02${string}` | null {
  const raw: unknown = typeof value === 'object' && value !== null && 'raw' in value ? value.raw : value
  return typeof raw === 'string' && raw.startsWith('0x02') && raw.length > 100 ? (raw as `0x02${string}`) : null
}
