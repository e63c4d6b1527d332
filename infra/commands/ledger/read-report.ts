import { LOSS_WINDOW_SECONDS, readNewPayerExposure } from '#shared/ledger/new-payer-exposure.ts'
import { readAuditHead, readChain } from '#shared/ledger/operators/read-chain.ts'
import type { Pool, Sql } from '#shared/ledger/pool.ts'
import { readAbsorbedCost, readUnchargedFailures, readUnchargedWork } from '#shared/ledger/reports/absorbed-cost.ts'
import { readResolutions, readReviewItems, readUnknownSettlements } from '#shared/ledger/reports/items.ts'
import { readMargins } from '#shared/ledger/reports/margin.ts'
import { readDebts, readOpenExposure, readUnfinishedJobs } from '#shared/ledger/reports/open-work.ts'
import type { LedgerPeriod } from '#shared/ledger/reports/period.ts'
import { readChargesByModel, readRevenue, readSettlingNow } from '#shared/ledger/reports/revenue.ts'
import { readSettlementGas } from '#shared/ledger/reports/settlement-gas.ts'
import { inTransaction } from '#shared/ledger/transaction.ts'
import { LONGEST_SNAPSHOT_MS } from '#shared/ledger/with-connection.ts'
import { type AuditHead, findBreaks } from '#shared/operators/audit-chain.ts'

/** Totals of a period, and of the work and money open now. */
export type LedgerReport = Awaited<ReturnType<typeof readReport>>

/** The SQLSTATE of `transaction_timeout`, which ends the session. */
const TRANSACTION_TIMEOUT = '25P04'

/**
 * Reads the report from one snapshot, so that its totals agree with each other while jobs continue. `auditHead` is the end
 * of the audit as it was written down before.
 */
export async function readReport(
  pool: Pool,
  period: LedgerPeriod,
  auditHead: AuditHead | null,
  longestMs = LONGEST_SNAPSHOT_MS,
) {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    // PostgreSQL 17 was the first to have it.
    await sql.query(`SELECT set_config(name, '${longestMs}', true) FROM pg_settings WHERE name = 'transaction_timeout'`)
    return {
      period,
      revenue: await readRevenue(sql, period),
      chargesByModel: await readChargesByModel(sql, period),
      margins: await readMargins(sql, period),
      unchargedFailures: await readUnchargedFailures(sql, period),
      absorbedCost: await readAbsorbedCost(sql, period),
      unchargedWork: await readUnchargedWork(sql, period),
      /**
       * What payments that their payers' settled charges did not cover have open, owe, and caused without a charge in a
       * day, now.
       */
      newPayers: await readNewPayers(sql),
      openExposure: await readOpenExposure(sql),
      debts: await readDebts(sql),
      settlementGas: await readSettlementGas(sql, period),
      settlingNow: await readSettlingNow(sql),
      review: await readReviewItems(sql),
      unknownSettlements: await readUnknownSettlements(sql),
      /** What operators ended in the period. */
      resolutions: await readResolutions(sql, period),
      unfinished: await readUnfinishedJobs(sql),
      audit: await readAudit(sql, auditHead),
    }
  }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === TRANSACTION_TIMEOUT)) throw error
    const limit = `${longestMs / 1000} s, the longest that it may hold back PostgreSQL’s vacuum`
    throw new Error(`the report was not done after ${limit}; ask for fewer days with --from and --to`, { cause: error })
  })
}

/** Reads and checks the chain of all that operators ever did. */
async function readAudit(sql: Sql, remembered: AuditHead | null) {
  const head = await readAuditHead(sql)
  return { head, breaks: await findBreaks(readChain(sql), head, remembered) }
}

async function readNewPayers(sql: Sql) {
  const { all } = await readNewPayerExposure(sql)
  return { openAtomic: all.open, owedOrUnchargedAtomic: all.lost, windowSeconds: LOSS_WINDOW_SECONDS }
}
