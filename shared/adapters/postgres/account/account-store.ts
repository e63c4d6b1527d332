import { NO_ARCHIVE, type ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { AccountStore } from '#shared/jobs/account-store.ts'
import type { Pool } from '../pool.ts'
import { readReceipts } from './read-receipts.ts'
import { readSpend } from './read-spend.ts'
import { readDebts, readOpenCalls } from './read-unpaid-calls.ts'
import { useSignIn } from './use-sign-in.ts'

/** A sum over a whole year of a large payer takes a tenth of a second; a connection must not be held much longer. */
const SPEND_TIMEOUT_MS = 5000

/** Creates the API's store of what wallets read of their own calls, over one pool. */
export function createAccountStore(
  pool: Pool,
  {
    spendTimeoutMs = SPEND_TIMEOUT_MS,
    archive = NO_ARCHIVE,
  }: { readonly spendTimeoutMs?: number; readonly archive?: ReceiptArchive } = {},
): AccountStore {
  return {
    useSignIn: (nonce, expiresAt) => useSignIn(pool, nonce, expiresAt),
    readReceipts: (payer, page) => readReceipts(pool, archive, payer, page),
    readSpend: (payer, period) => readSpend(pool, payer, period, spendTimeoutMs),
    readDebts: (payer, page) => readDebts(pool, payer, page),
    readOpenCalls: (payer, page) => readOpenCalls(pool, payer, page),
  }
}
