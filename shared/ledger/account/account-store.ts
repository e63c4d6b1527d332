import { NO_ARCHIVE, type ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import { bindTo } from '../bind-to.ts'
import { CURRENT_RECEIPT, type CurrentReceiptRow, currentReceipt, HAS_RECEIPT } from '../current-receipt.ts'
import type { Pool, Sql } from '../pool.ts'
import {
  type AccountPage,
  cutPage,
  END,
  microsecondsOf,
  type PageRequest,
  type PositionRow,
  positionAt,
  timestampOf,
} from '../position.ts'
import { countRows, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { readDebts, readOpenCalls } from './read-unpaid-calls.ts'

/** A sum over a whole year of a large payer takes a tenth of a second; a connection must not be held much longer. */
const SPEND_TIMEOUT_MS = 5000

export type AccountStore = ReturnType<typeof createAccountStore>

/** Creates the store of what a wallet may read of its own calls. `payer` is in lower case, and proven by the caller of this store. */
export function createAccountStore(
  pool: Pool,
  {
    spendTimeoutMs = SPEND_TIMEOUT_MS,
    archive = NO_ARCHIVE,
  }: { readonly spendTimeoutMs?: number; readonly archive?: ReceiptArchive } = {},
) {
  return {
    ...bindTo(pool, { useSignIn, readDebts, readOpenCalls }),
    readReceipts: (payer: string, page: ReceiptsRequest) => readReceipts(pool, archive, payer, page),
    readSpend: (payer: string, period: AccountPeriod) => readSpend(pool, payer, period, spendTimeoutMs),
  }
}

/** Half-open, `from` ≤ t < `until`; `null` for no bound. */
export interface AccountPeriod {
  readonly from: Date | null
  readonly until: Date | null
}

/** Receipts of a period. */
export interface ReceiptsRequest extends PageRequest {
  readonly period: AccountPeriod
}

/** Records the nonce of an answered sign-in challenge until it expires. Returns whether it was not used before. */
async function useSignIn(sql: Sql, nonce: string, expiresAt: Date): Promise<boolean> {
  const written = await countRows(sql, {
    name: 'use_sign_in',
    text: 'INSERT INTO used_sign_ins (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    values: [nonce, expiresAt],
  })
  return written === 1
}

export interface AccountReceipt {
  readonly receipt: CurrentReceipt
  readonly idempotencyKey: string
}

type ReceiptRow = PositionRow & CurrentReceiptRow & { readonly idempotency_key: string }

/**
 * Returns a payer's receipts, newest first. A page begins after the last entry of the previous one, so that receipts
 * that are issued meanwhile neither shift nor repeat an entry.
 */
async function readReceipts(
  sql: Sql,
  archive: ReceiptArchive,
  payer: string,
  { limit, after, period }: ReceiptsRequest,
): Promise<AccountPage<AccountReceipt>> {
  const from = after ?? (period.until ? positionAt(period.until) : END)
  const { rows } = await sql.query<ReceiptRow>({
    name: 'read_account_receipts',
    text: `SELECT page.id, ${microsecondsOf('page.finished_at')} AS microseconds, page.idempotency_key, ${CURRENT_RECEIPT}
     FROM (
       SELECT id, finished_at, idempotency_key, receipt_id FROM jobs
       WHERE payer = $1 AND state = 'completed' AND (finished_at, id) < (${timestampOf('$2')}, $3::uuid)
         AND finished_at >= ${timestampOf('$4')}
       ORDER BY finished_at DESC, id DESC LIMIT $5) AS page
     JOIN receipts ON receipts.id = page.receipt_id
     JOIN settlements ON settlements.job_id = page.id AND ${HAS_RECEIPT}
     ORDER BY page.finished_at DESC, page.id DESC`,
    values: [
      payer,
      from.microseconds.toString(),
      from.id,
      (BigInt(period.from?.getTime() ?? 0) * 1000n).toString(),
      limit + 1,
    ],
  })
  const page = cutPage(rows, limit)
  return {
    entries: await Promise.all(
      page.rows.map(async (row) => ({
        receipt: await currentReceipt(row, archive),
        idempotencyKey: row.idempotency_key,
      })),
    ),
    next: page.next,
  }
}

/** The charges of one UTC day, model and operation. */
export interface DailySpend {
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly model: string
  readonly operation: string
  readonly calls: number
  readonly charge: AtomicAmount
}

const QUERY_CANCELED = '57014'

/** Returns a payer's charges by UTC day of completion, model and operation, or `too_long` when time runs out. */
async function readSpend(
  pool: Pool,
  payer: string,
  { from, until }: AccountPeriod,
  timeoutMs: number,
): Promise<readonly DailySpend[] | 'too_long'> {
  try {
    return await inTransaction(pool, async (sql) => {
      await sql.query(`SET LOCAL statement_timeout = ${timeoutMs}`)
      return await readRows<DailySpend>(sql, {
        name: 'read_account_spend',
        text: `SELECT to_char(day, 'YYYY-MM-DD') AS date, model, operation, calls, charge
         FROM (
           SELECT (finished_at AT TIME ZONE 'UTC')::date AS day, public_model AS model, operation,
             count(*)::int AS calls, sum(charge_amount) AS charge
           FROM jobs WHERE payer = $1 AND state = 'completed' AND finished_at >= coalesce($2::timestamptz, '-infinity')
             AND finished_at < coalesce($3::timestamptz, 'infinity')
           GROUP BY 1, 2, 3) AS daily
         ORDER BY day, model, operation`,
        values: [payer, from, until],
      })
    })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === QUERY_CANCELED) return 'too_long'
    throw error
  }
}
