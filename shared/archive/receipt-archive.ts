import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { AppError } from '#shared/errors/app-error.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { receiptIdOf, receiptOf } from './archived-line.ts'
import { DamagedObject, type RecordedObject, unpackObject } from './archived-object.ts'

/** Reads the bodies of archived receipts. */
export interface ReceiptArchive {
  /** Throws the `AppError` `receipt_unavailable` when the object cannot be read, or is not the archived one. */
  readReceipt(object: RecordedObject, receiptId: string): Promise<object>
}

/** The archive of a process that has none: a receipt that is archived cannot be read. */
export const NO_ARCHIVE: ReceiptArchive = {
  readReceipt: async ({ key }) => {
    throw new AppError('receipt_unavailable', { cause: new Error(`no archive is configured to read ${key} from`) })
  },
}

/** An object has about a million characters; a payer's receipts of a month are in one or a few. */
const CACHED_CHARACTERS = 24 * 1024 * 1024
/** Of one process. An object is read in tens of milliseconds, and unpacked on a thread. */
const CONCURRENT_READS = 4
/** An outage of the store usually takes longer than that of a process. */
const RETRY_AFTER_SECONDS = 30

/**
 * Creates a reader with a cache of whole objects: the receipts of a page are mostly in the same ones. Requests for an object
 * that is being read wait for that read.
 */
export function createReceiptArchive(objects: Pick<ObjectStore, 'get'>): ReceiptArchive {
  const limit = pLimit(CONCURRENT_READS)
  const cache = new LRUCache<string, ReadonlyMap<string, string>, RecordedObject>({
    maxSize: CACHED_CHARACTERS,
    sizeCalculation: (lines) => [...lines.values()].reduce((sum, line) => sum + line.length, 1),
    fetchMethod: async (key, _, { context }) => await limit(async () => readLines(context, await objects.get(key))),
  })
  return {
    readReceipt: async (object, receiptId) => {
      try {
        const lines = await cache.fetch(object.key, { context: object })
        const line = lines?.get(receiptId)
        if (line === undefined) throw new DamagedObject(`${object.key} lacks the receipt ${receiptId}`)
        return receiptOf(line)
      } catch (cause) {
        throw new AppError('receipt_unavailable', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
      }
    },
  }
}

/** Returns the calls' lines by the ids of their receipts. */
async function readLines(object: RecordedObject, bytes: Uint8Array | null): Promise<ReadonlyMap<string, string>> {
  const lines = await unpackObject(object, bytes)
  return new Map(
    lines.flatMap((line) => {
      const receiptId = receiptIdOf(line)
      return receiptId === null ? [] : [[receiptId, line] as const]
    }),
  )
}
