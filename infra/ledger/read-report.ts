import { readNewPayerExposure } from '#shared/adapters/postgres/new-payer-exposure.ts'
import { readAuditHead, readChain } from '#shared/adapters/postgres/operators/read-chain.ts'
import type { Pool, Sql } from '#shared/adapters/postgres/pool.ts'
import { type AbsorbedCost, readAbsorbedCost } from '#shared/adapters/postgres/reports/absorbed-cost.ts'
import { type ModelCharges, readChargesByModel } from '#shared/adapters/postgres/reports/charges-by-model.ts'
import { readDebts } from '#shared/adapters/postgres/reports/debts.ts'
import { readOpenExposure } from '#shared/adapters/postgres/reports/open-exposure.ts'
import type { PayerAmounts } from '#shared/adapters/postgres/reports/payer-amounts.ts'
import type { LedgerPeriod } from '#shared/adapters/postgres/reports/period.ts'
import { type Resolutions, readResolutions } from '#shared/adapters/postgres/reports/resolutions.ts'
import { type CountAndSum, readRevenue } from '#shared/adapters/postgres/reports/revenue.ts'
import { type ReviewItems, readReviewItems } from '#shared/adapters/postgres/reports/review-items.ts'
import { readSettlementGas, type SettlementGas } from '#shared/adapters/postgres/reports/settlement-gas.ts'
import { readSettlingNow } from '#shared/adapters/postgres/reports/settling-now.ts'
import {
  readSponsoredPermits,
  type SponsoredPermitsReport,
} from '#shared/adapters/postgres/reports/sponsored-permits.ts'
import { type FailureCount, readUnchargedFailures } from '#shared/adapters/postgres/reports/uncharged-failures.ts'
import { readUnchargedWork, type UnchargedWorkReport } from '#shared/adapters/postgres/reports/uncharged-work.ts'
import { readUnfinishedJobs, type UnfinishedJobs } from '#shared/adapters/postgres/reports/unfinished-jobs.ts'
import {
  readUnknownSettlements,
  type UnknownSettlements,
} from '#shared/adapters/postgres/reports/unknown-settlements.ts'
import { inTransaction } from '#shared/adapters/postgres/transaction.ts'
import { type AuditHead, findBreaks } from '#shared/operators/audit-chain.ts'

export interface NewPayerReport {
  readonly openAtomic: bigint
  readonly owedOrUnchargedAtomic: bigint
  readonly windowSeconds: number
}

/** Totals of a period, and of the work and money open now. */
export interface LedgerReport {
  readonly period: LedgerPeriod
  readonly revenue: CountAndSum
  readonly chargesByModel: readonly ModelCharges[]
  readonly unchargedFailures: readonly FailureCount[]
  readonly absorbedCost: AbsorbedCost
  readonly unchargedWork: UnchargedWorkReport
  /** What new payers together have open, owe, and caused without a charge within the window, now. */
  readonly newPayers: NewPayerReport
  readonly openExposure: PayerAmounts
  readonly debts: PayerAmounts
  readonly settlementGas: SettlementGas
  readonly sponsoredPermits: SponsoredPermitsReport
  readonly settlingNow: CountAndSum
  readonly review: ReviewItems
  readonly unknownSettlements: UnknownSettlements
  /** What operators ended in the period. */
  readonly resolutions: Resolutions
  readonly unfinished: readonly UnfinishedJobs[]
  readonly audit: AuditReport
}

/** The chain of all that operators ever did. */
export interface AuditReport {
  readonly head: AuditHead
  readonly breaks: readonly string[]
}

export interface ReportOptions {
  readonly windowSeconds: number
  /** The end of the audit as it was written down before. */
  readonly auditHead: AuditHead | null
}

/** Reads the report from one snapshot, so that its totals agree with each other while jobs continue. */
export async function readReport(
  pool: Pool,
  period: LedgerPeriod,
  { windowSeconds, auditHead }: ReportOptions,
): Promise<LedgerReport> {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    return {
      period,
      revenue: await readRevenue(sql, period),
      chargesByModel: await readChargesByModel(sql, period),
      unchargedFailures: await readUnchargedFailures(sql, period),
      absorbedCost: await readAbsorbedCost(sql, period),
      unchargedWork: await readUnchargedWork(sql, period),
      newPayers: await readNewPayers(sql, windowSeconds),
      openExposure: await readOpenExposure(sql),
      debts: await readDebts(sql),
      settlementGas: await readSettlementGas(sql, period),
      sponsoredPermits: await readSponsoredPermits(sql, period),
      settlingNow: await readSettlingNow(sql),
      review: await readReviewItems(sql),
      unknownSettlements: await readUnknownSettlements(sql),
      resolutions: await readResolutions(sql, period),
      unfinished: await readUnfinishedJobs(sql),
      audit: await readAudit(sql, auditHead),
    }
  })
}

async function readAudit(sql: Sql, remembered: AuditHead | null): Promise<AuditReport> {
  const head = await readAuditHead(sql)
  return { head, breaks: await findBreaks(readChain(sql), head, remembered) }
}

async function readNewPayers(sql: Sql, windowSeconds: number): Promise<NewPayerReport> {
  const { open, lasting } = await readNewPayerExposure(sql, windowSeconds)
  return { openAtomic: open, owedOrUnchargedAtomic: lasting, windowSeconds }
}
