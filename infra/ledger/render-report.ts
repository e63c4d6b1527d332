import type { PayerAmounts } from '#shared/adapters/postgres/reports/payer-amounts.ts'
import type { CountAndSum } from '#shared/adapters/postgres/reports/revenue.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { LedgerReport } from './read-report.ts'
import type { Reconciliation } from './reconcile.ts'

/** The report as text for people: one section for each question, columns aligned. Amounts are USDC with all six decimals. */
export function renderReport(report: LedgerReport, reconciliation: Reconciliation | null): string {
  const { period, revenue, absorbedCost, review } = report
  return [
    `Ledger from ${period.from} to ${period.to}`,
    ...section('Revenue', [['charges completed', ...sum(revenue)]]),
    ...section('Charges by model', [
      ['model', 'operation', 'calls', 'total', 'mean', 'least', 'most'],
      ...report.chargesByModel.map((row) => [
        row.model,
        row.operation,
        String(row.count),
        usdc(row.totalAtomic),
        meanUsdc(row.meanAtomic),
        usdc(row.smallestAtomic),
        usdc(row.largestAtomic),
      ]),
    ]),
    ...section(
      'Failures, nothing charged',
      report.unchargedFailures.map(({ code, state, count }) => [code, state, String(count)]),
    ),
    ...section('Upstream cost absorbed, in what callers would have paid', [
      ['results withheld, at their charges', ...sum(absorbedCost.withheldCharges)],
      ['calls of unknown outcome, at most', ...sum(absorbedCost.ambiguousAttempts)],
      ['results done anew since, at most', ...sum(absorbedCost.replacedResults)],
    ]),
    ...payers('Open exposure now', report.openExposure),
    ...payers('Debts (work done, payment not collected)', report.debts),
    ...section(
      `For a person to look at: ${review.count}`,
      review.oldest.map((item) => [
        item.jobId,
        item.jobState,
        `settlement ${item.settlementState ?? 'none'}`,
        item.chargeAtomic === null ? '' : usdc(item.chargeAtomic),
        item.since,
        item.transaction ?? '',
        item.reason ?? '',
      ]),
    ),
    ...section(
      'Unfinished now',
      report.unfinished.map(({ state, count, oldestJobId, oldestAgeMs }) => [
        state,
        String(count),
        `oldest ${duration(oldestAgeMs)}`,
        oldestJobId,
      ]),
    ),
    ...section('Signed and not decided yet', [['settlements', ...sum(report.settlingNow)]]),
    ...(reconciliation ? renderReconciliation(reconciliation) : ['', 'Not reconciled with the chain (--no-chain).']),
  ].join('\n')
}

function renderReconciliation(reconciliation: Reconciliation): readonly string[] {
  const { blocks, differences } = reconciliation
  return [
    ...section(`Reconciliation with the chain, blocks ${blocks.first} to ${blocks.last}`, [
      ['settlements confirmed in the period', ...sum(reconciliation.ledger)],
      ['their transfers on chain', ...sum(reconciliation.chain)],
      ['on chain, still settling here', ...sum(reconciliation.settling)],
      ['on chain, confirmed in another period', ...sum(reconciliation.otherPeriods)],
      ['other transfers to our recipients', ...sum(reconciliation.otherTransfers)],
    ]),
    '',
    ...(differences.length === 0
      ? ['Ledger and chain agree to the atomic unit.']
      : [
          `${differences.length} difference${differences.length === 1 ? '' : 's'}:`,
          ...columns(
            differences.map(({ kind, jobId, transaction, detail }) => [
              kind,
              jobId ? `job ${jobId}` : '',
              transaction ?? '',
              detail,
            ]),
          ),
        ]),
  ]
}

function payers(title: string, { count, totalAtomic, payers, greatest }: PayerAmounts): readonly string[] {
  const shown = greatest.length < payers ? `, the greatest ${greatest.length} shown` : ''
  return section(
    `${title}: ${usdc(totalAtomic)} in ${count} jobs of ${payers} payers${shown}`,
    greatest.map((payer) => [payer.payer, ...sum(payer)]),
  )
}

function section(title: string, rows: readonly (readonly string[])[]): readonly string[] {
  return ['', title, ...(rows.length === 0 ? ['  none'] : columns(rows))]
}

function sum({ count, totalAtomic }: CountAndSum): readonly string[] {
  return [String(count), usdc(totalAtomic)]
}

/** Numbers to the right, all else to the left. */
function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  return rows.map((row) =>
    `  ${row.map((cell, column) => (/^\d[\d.]*$/.test(cell) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join('  ')}`.trimEnd(),
  )
}

/** All six decimals, so that columns line up and no unit is hidden. */
function usdc(amountAtomic: bigint): string {
  const [whole = '', fraction = ''] = dollarsFromAtomic(atomicAmount(amountAtomic)).split('.')
  return `${whole}.${fraction.padEnd(6, '0')}`
}

/** A mean of atomic units with two decimals, in USDC with eight. */
function meanUsdc(meanAtomic: string): string {
  const digits = meanAtomic.replace('.', '').padStart(9, '0')
  return `${digits.slice(0, -8)}.${digits.slice(-8)}`
}

function duration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`
  return `${Math.floor(seconds / 3600)} h`
}
