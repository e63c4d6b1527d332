import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { replaceFile } from '../files/replace-file.ts'
import type { Receipt } from '../wire/schemas.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Returns whether a text has the form of a receipt's id. */
export function isReceiptId(text: string): boolean {
  return UUID.test(text)
}

/** The verified documents, one file each, next to the journal. The journal has what is needed to fetch them again. */
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

  /** Returns the saved document, or `null`. */
  async load(receiptId: string): Promise<unknown> {
    const path = this.pathOf(receiptId)
    if (path === null) return null
    try {
      return JSON.parse(await readFile(path, 'utf8'))
    } catch {
      return null
    }
  }
}
