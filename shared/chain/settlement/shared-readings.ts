import { LRUCache } from 'lru-cache'
import type { DeepTransaction, ReadTransaction, TransactionReading } from './mined-transactions.ts'

type Hex = `0x${string}`

/** Readings of transactions that all payments of a batch share. */
export interface SharedReadings {
  readonly read: ReadTransaction
  /**
   * Answers those who ask from now on from new reads only. Call it when other state of the chain was read that a receipt
   * is judged by: a receipt from before may be of a block that was replaced since.
   */
  forget(): void
}

/**
 * How long a receipt is kept for the other payments of its batch, which are read some at a time; far shorter than a block
 * time, since a reorganization may remove its block.
 */
const KEPT_MS = 250
const KEPT_TRANSACTIONS = 256

/** What may be shared since the last call of `forget`. */
interface Sharing {
  readonly kept: LRUCache<Hex, DeepTransaction>
  readonly flights: Map<Hex, Flight>
}

interface Flight {
  readonly startedAt: number
  readonly reading: Promise<TransactionReading>
}

/**
 * Shares readings with all who ask at the same time, and keeps a deep transaction for a moment. One that is not deep is
 * shared only with those who asked before it was read: what they know already, such as a used account nonce, must not be
 * newer than the answer.
 */
export function shareReadings(read: ReadTransaction): SharedReadings {
  let sharing = newSharing()
  let order = 0
  const start = (hash: Hex, { flights }: Sharing): Flight => {
    order += 1
    const flight = { startedAt: order, reading: read(hash).finally(() => flights.delete(hash)) }
    flights.set(hash, flight)
    return flight
  }
  return {
    read: async (hash) => {
      const [askedAt, current] = [order, sharing]
      for (;;) {
        const known = current.kept.get(hash)
        if (known) return known
        const flight = current.flights.get(hash) ?? start(hash, current)
        const reading = await flight.reading
        if (typeof reading !== 'string') current.kept.set(hash, reading)
        if (typeof reading !== 'string' || flight.startedAt > askedAt) return reading
      }
    },
    forget: () => {
      sharing = newSharing()
    },
  }
}

function newSharing(): Sharing {
  return { kept: new LRUCache({ max: KEPT_TRANSACTIONS, ttl: KEPT_MS, ttlResolution: 0 }), flights: new Map() }
}
