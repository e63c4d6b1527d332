import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { replaceFile } from '../files/files.ts'
import type { Receipt } from '../wire/schemas.ts'
import { readReceipt } from './read-receipt.ts'

export interface ReceiptsQuery {
  /** Receipts from this time on; all by default. */
  readonly since?: Date | undefined
}

/** A call that was paid for. */
export interface ReceiptRecord {
  /** `null` for an answer without a receipt. */
  readonly receiptId: string | null
  readonly receiptToken: string | null
  readonly key: string
  /** When it was answered. */
  readonly at: Date
  /** Atomic USDC. */
  readonly charged: bigint
  readonly operation: string
  readonly model: string | null
  /** As the caller named it. */
  readonly purpose: string
  readonly transaction: string | null
  readonly verified: 'not_checked' | 'passed' | 'failed'
  /** What failed. */
  readonly problems: readonly string[]
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Returns whether a text has the form of a receipt's id. */
export function isReceiptId(text: string): boolean {
  return UUID.test(text)
}

/** The receipts that were verified, one file each, next to the journal. The journal has what is needed to fetch them again. */
export class ReceiptStore {
  readonly #directory: string | null

  constructor(home: string | null) {
    this.#directory = home === null ? null : join(home, 'receipts')
  }

  /** Returns where a receipt is kept; `null` when the journal is kept in memory. */
  pathOf(receiptId: string): string | null {
    if (this.#directory === null || !isReceiptId(receiptId)) return null
    return join(this.#directory, receiptId.slice(0, 2), `${receiptId}.json`)
  }

  /** Saves a receipt. A full disk is no error: the document can be fetched again. */
  async save(receipt: Receipt): Promise<void> {
    const path = this.pathOf(receipt.id)
    if (path === null) return
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await replaceFile(path, `${JSON.stringify(receipt, null, 2)}\n`, { mode: 0o600, isDurable: false })
    } catch {
      // See above.
    }
  }

  /** Returns the saved receipt, or `null`. */
  async load(receiptId: string): Promise<Receipt | null> {
    const path = this.pathOf(receiptId)
    if (path === null) return null
    try {
      return readReceipt(JSON.parse(await readFile(path, 'utf8')), path)
    } catch {
      return null
    }
  }
}
