import { LOSS_WINDOW_SECONDS, readNewPayerExposure } from '#shared/adapters/postgres/new-payer-exposure.ts'
import { readAuditHead, readChain } from '#shared/adapters/postgres/operators/read-chain.ts'
import type { Pool, Sql } from '#shared/adapters/postgres/pool.ts'
import {
  type AbsorbedCost,
  type FailureCount,
  readAbsorbedCost,
  readUnchargedFailures,
  readUnchargedWork,
  type UnchargedWorkReport,
} from '#shared/adapters/postgres/reports/absorbed-cost.ts'
import {
  type Resolutions,
  type ReviewItems,
  readResolutions,
  readReviewItems,
  readUnknownSettlements,
  type UnknownSettlements,
} from '#shared/adapters/postgres/reports/items.ts'
import { type Margins, readMargins } from '#shared/adapters/postgres/reports/margin.ts'
import {
  type PayerAmounts,
  readDebts,
  readOpenExposure,
  readUnfinishedJobs,
  type UnfinishedJobs,
} from '#shared/adapters/postgres/reports/open-work.ts'
import type { LedgerPeriod } from '#shared/adapters/postgres/reports/period.ts'
import {
  type CountAndSum,
  type ModelCharges,
  readChargesByModel,
  readRevenue,
  readSettlingNow,
} from '#shared/adapters/postgres/reports/revenue.ts'
import { readSettlementGas, type SettlementGas } from '#shared/adapters/postgres/reports/settlement-gas.ts'
import {
  readSponsoredPermits,
  type SponsoredPermitsReport,
} from '#shared/adapters/postgres/reports/sponsored-permits.ts'
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
  readonly margins: Margins
  readonly unchargedFailures: readonly FailureCount[]
  readonly absorbedCost: AbsorbedCost
  readonly unchargedWork: UnchargedWorkReport
  /** What payments that their payers' settled charges did not cover have open, owe, and caused without a charge in a day, now. */
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

/**
 * Reads the report from one snapshot, so that its totals agree with each other while jobs continue. `auditHead` is the end
 * of the audit as it was written down before.
 */
export async function readReport(pool: Pool, period: LedgerPeriod, auditHead: AuditHead | null): Promise<LedgerReport> {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    return {
      period,
      revenue: await readRevenue(sql, period),
      chargesByModel: await readChargesByModel(sql, period),
      margins: await readMargins(sql, period),
      unchargedFailures: await readUnchargedFailures(sql, period),
      absorbedCost: await readAbsorbedCost(sql, period),
      unchargedWork: await readUnchargedWork(sql, period),
      newPayers: await readNewPayers(sql),
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

async function readNewPayers(sql: Sql): Promise<NewPayerReport> {
  const { all } = await readNewPayerExposure(sql)
  return { openAtomic: all.open, owedOrUnchargedAtomic: all.lost, windowSeconds: LOSS_WINDOW_SECONDS }
}
