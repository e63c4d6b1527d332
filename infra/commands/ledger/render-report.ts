import type { Resolutions } from '#shared/ledger/reports/items.ts'
import type { Earned, Margin, Margins } from '#shared/ledger/reports/margin.ts'
import type { PayerAmounts } from '#shared/ledger/reports/open-work.ts'
import type { CountAndSum } from '#shared/ledger/reports/revenue.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { oneLine } from '../command-line.ts'
import type { InvoiceComparison } from './invoice.ts'
import type { LedgerReport } from './read-report.ts'
import type { Reconciliation } from './reconcile.ts'

const SHOWN_BREAKS = 100

/** Renders the report as text, one section for each topic, with aligned columns. Amounts are USDC with six decimals. */
export function renderReport(report: LedgerReport, reconciliation: Reconciliation | null): string {
  const { period, revenue, absorbedCost, review, settlementGas, unknownSettlements } = report
  return [
    `Ledger from ${period.from} to ${period.to}`,
    ...section('Revenue', [['charges completed', ...sum(revenue)]]),
    ...section('Charges by model', [
      ['model', 'operation', 'calls', 'total', 'mean', 'smallest', 'largest'],
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
    ...renderMargins(report.margins),
    ...section(
      'Failures (nothing charged)',
      report.unchargedFailures.map(({ code, state, count }) => [code, state, String(count)]),
    ),
    ...section('Absorbed upstream cost (at the price to callers)', [
      ['withheld results, at their charge', ...sum(absorbedCost.withheldCharges)],
      ['calls with unknown outcome, at most', ...sum(absorbedCost.ambiguousAttempts)],
      ['calls without usable output, at most', ...sum(absorbedCost.emptyOutputs)],
      ['rejected requests, at the minimum charge', ...sum(absorbedCost.rejectedRequests)],
      ['results generated again later, at most', ...sum(absorbedCost.replacedResults)],
      ['settlements that reverted, at their gas', ...sum(absorbedCost.revertedSettlements)],
    ]),
    ...section('Gas of settlements (at NATIVE_TOKEN_USD)', [
      ['confirmed settlements', ...sum(settlementGas.confirmed)],
      [`of these in batches (${settlementGas.batches})`, ...sum(settlementGas.batched)],
      ['their charges', '', usdc(settlementGas.chargedAtomic)],
      ['of these cost more than they charged, by', ...sum(settlementGas.atLoss)],
      ['reverted settlements', ...sum(settlementGas.reverted)],
      ['batches that reverted as a whole', ...sum(settlementGas.revertedBatches)],
    ]),
    ...section(
      'Uncharged work (counted against the budgets of payers)',
      report.unchargedWork.byKind.map((row) => [row.kind, ...sum(row)]),
    ),
    ...payers('Uncharged work by payer', report.unchargedWork.byPayer, 'entries'),
    ...section(`New payers now (limited together by NEW_PAYER_DAILY_LOSS_USDC)`, [
      ['open', usdc(report.newPayers.openAtomic)],
      [
        `owed or uncharged in ${duration(report.newPayers.windowSeconds * 1000)}`,
        usdc(report.newPayers.owedOrUnchargedAtomic),
      ],
    ]),
    ...payers('Open exposure now', report.openExposure),
    ...payers('Debts (work done, payment failed)', report.debts),
    ...section(
      `Needs review: ${review.count}`,
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
      `Settled without a record (to refund): ${usdc(unknownSettlements.totalAtomic)} in ${unknownSettlements.count} payments`,
      unknownSettlements.oldest.map((item) => [
        usdc(item.amountAtomic),
        item.payer,
        item.transaction,
        `nonce ${item.nonce}`,
        item.since,
        item.idempotencyKey === null ? '' : `key ${item.idempotencyKey}`,
        item.requestId === null ? '' : `request ${item.requestId}`,
        item.jobId === null ? '' : `job ${item.jobId}`,
      ]),
    ),
    ...renderResolutions(report.resolutions),
    ...section(
      'Unfinished now',
      report.unfinished.map(({ state, count, oldestJobId, oldestAgeMs }) => [
        state,
        String(count),
        `oldest ${duration(oldestAgeMs)}`,
        oldestJobId,
      ]),
    ),
    ...renderAudit(report.audit),
    ...section('Signed, not yet confirmed', [['settlements', ...sum(report.settlingNow)]]),
    ...(reconciliation ? renderReconciliation(reconciliation) : ['', 'Not reconciled with the chain (--no-chain).']),
  ].join('\n')
}

/** Renders what was charged, what vendors and chain took of it, and what is left; its last line is the sum of all others. */
function renderMargins({ ofModels, ofPayers, total }: Margins): readonly string[] {
  const beyond = (amount: keyof Earned) => ofModels.reduce((left, margin) => left - margin[amount], total[amount])
  const others = {
    chargedAtomic: beyond('chargedAtomic'),
    vendorAtomic: beyond('vendorAtomic'),
    gasAtomic: beyond('gasAtomic'),
    marginAtomic: beyond('marginAtomic'),
  }
  const losing = ofPayers.filter(({ marginAtomic }) => marginAtomic < 0n)
  return [
    ...section('Margin (charges less vendors less gas; vendors at the prices of their deployments)', [
      ['model', 'deployment', 'calls', 'charged', 'vendors', 'gas', 'margin'],
      ...ofModels.map((margin) => [
        margin.model,
        margin.deployment,
        String(margin.calls),
        ...amounts(margin),
        ...notKnown(margin),
      ]),
      ['failed calls, and what was settled outside the period', '', '', ...amounts(others)],
      ['all', '', '', ...amounts(total)],
    ]),
    ...section(
      'Payers with the largest losses',
      losing.map((margin) => [margin.payer, String(margin.calls), ...amounts(margin), ...notKnown(margin)]),
    ),
  ]
}

function amounts({ chargedAtomic, vendorAtomic, gasAtomic, marginAtomic }: Earned): readonly string[] {
  return [chargedAtomic, vendorAtomic, gasAtomic, marginAtomic].map(signedUsdc)
}

function notKnown({ withoutVendorCost, withoutGas }: Margin): readonly string[] {
  return [
    ...(withoutVendorCost > 0 ? [`${withoutVendorCost} without a vendor's price`] : []),
    ...(withoutGas > 0 ? [`${withoutGas} without gas`] : []),
  ]
}

function signedUsdc(atomic: bigint): string {
  return atomic < 0n ? `-${usdc(-atomic)}` : usdc(atomic)
}

function renderResolutions({ byOutcome, newest }: Resolutions): readonly string[] {
  const count = byOutcome.reduce((total, row) => total + row.count, 0)
  const shown = newest.length < count ? `, the newest ${newest.length} shown` : ''
  return [
    ...section(
      'Resolved by operators',
      byOutcome.map((row) => [row.item, row.outcome, ...sum(row)]),
    ),
    ...(count === 0
      ? []
      : section(
          `Resolutions: ${count}${shown}`,
          newest.map((row) => [
            row.resolvedAt,
            row.item,
            row.outcome,
            usdc(row.amountAtomic),
            row.payer,
            row.jobId === null ? '' : `job ${row.jobId}`,
            row.operator,
            row.refundTransaction ?? '',
            oneLine(row.reason),
          ]),
        )),
  ]
}

/** The last line is what `--audit-head` takes later. */
function renderAudit({ head, breaks }: LedgerReport['audit']): readonly string[] {
  const shown = breaks.slice(0, SHOWN_BREAKS)
  return section(`Audit: ${breaks.length === 0 ? 'every action is as it was recorded' : `${breaks.length} breaks`}`, [
    ...shown.map((sentence) => [sentence]),
    [`head ${head.position}:${head.hash}`],
  ])
}

function renderReconciliation(reconciliation: Reconciliation): readonly string[] {
  const { blocks, differences } = reconciliation
  return [
    ...section(`Reconciliation with the chain, blocks ${blocks.first} to ${blocks.last}`, [
      ['settlements confirmed in the period', ...sum(reconciliation.ledger)],
      ['their transfers on chain', ...sum(reconciliation.chain)],
      ['on chain, not yet confirmed in the ledger', ...sum(reconciliation.settling)],
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

/** Renders how a vendor's invoice compares with the ledger. */
export function renderInvoice(comparison: InvoiceComparison): string {
  const { lines, days, differences, unknownModels, notInvoiced, unknownAttempts } = comparison
  return [
    `Invoice of ${lines} lines, ${days.first} to ${days.last} (UTC days)`,
    ...unknownModels.map((model) => `No deployment was published as ${oneLine(model)}, or with this upstream model.`),
    ...(notInvoiced.length > 0
      ? [`Not in the invoice, with work on these days: ${oneLine(notInvoiced.join(', '))}`]
      : []),
    ...(unknownAttempts > 0
      ? [
          `${unknownAttempts} attempts have no cost in the ledger: their outcome is unknown, or their deployment had no prices`,
        ]
      : []),
    ...(differences.length === 0
      ? ['', 'Invoice and ledger agree.']
      : section(`${differences.length} difference${differences.length === 1 ? '' : 's'}`, [
          ['day', 'model', 'unit', 'invoice', 'ledger', 'difference'],
          ...differences.map(({ day, model, unit, invoiced, recorded }) => [
            day,
            oneLine(model),
            unit,
            ...[invoiced, recorded, invoiced - recorded].map((value) =>
              unit === 'usd' ? signedUsdc(value) : value.toString(),
            ),
          ]),
        ])),
  ].join('\n')
}

function payers(
  title: string,
  { count, totalAtomic, payers, greatest }: PayerAmounts,
  counted = 'jobs',
): readonly string[] {
  const shown = greatest.length < payers ? `, the largest ${greatest.length} shown` : ''
  return section(
    `${title}: ${usdc(totalAtomic)} in ${count} ${counted} of ${payers} payers${shown}`,
    greatest.map((payer) => [payer.payer, ...sum(payer)]),
  )
}

function section(title: string, rows: readonly (readonly string[])[]): readonly string[] {
  return ['', title, ...(rows.length === 0 ? ['  none'] : columns(rows))]
}

function sum({ count, totalAtomic }: CountAndSum): readonly string[] {
  return [String(count), usdc(totalAtomic)]
}

function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  return rows.map((row) => `  ${row.map((cell, column) => align(cell, widths[column] ?? 0)).join('  ')}`.trimEnd())
}

/** Aligns numbers to the right and everything else to the left. */
function align(cell: string, width: number): string {
  return /^-?\d[\d.]*$/.test(cell) ? cell.padStart(width) : cell.padEnd(width)
}

/** Formats an amount with all six decimals, so that columns align and no atomic unit is hidden. */
function usdc(amountAtomic: bigint): string {
  const [whole = '', fraction = ''] = dollarsFromAtomic(atomicAmount(amountAtomic)).split('.')
  return `${whole}.${fraction.padEnd(6, '0')}`
}

/** Formats a mean of atomic units with two decimals as USDC with eight. */
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
