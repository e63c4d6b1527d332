import { RESOLUTION_OUTCOMES } from '#shared/jobs/resolution.ts'
import type { ExportedCall } from '#shared/ledger/console/export-calls.ts'
import { type DayResult, stateOf } from './day-result.ts'

/** Amounts are USDC with all six decimals, without separators. */
function usdc(atomic: bigint): string {
  const digits = (atomic < 0n ? -atomic : atomic).toString().padStart(7, '0')
  return `${atomic < 0n ? '-' : ''}${digits.slice(0, -6)}.${digits.slice(-6)}`
}

export const DAY_COLUMNS = [
  'day',
  'calls',
  'charged_usdc',
  'settled_usdc',
  'settlement_gas_usdc',
  'result_usdc',
  'uncharged_work',
  'uncharged_usdc',
  ...RESOLUTION_OUTCOMES.map((outcome) => `${outcome}_usdc`),
  'not_final',
  'state',
  'vendor_usdc',
]

export function dayCells(day: DayResult): readonly string[] {
  return [
    day.day,
    day.charged.count.toString(),
    usdc(day.charged.amount),
    usdc(day.settled),
    usdc(day.settlementGas),
    usdc(day.result),
    day.uncharged.count.toString(),
    usdc(day.uncharged.amount),
    ...RESOLUTION_OUTCOMES.map((outcome) =>
      usdc(day.resolved.find((entry) => entry.outcome === outcome)?.amount ?? 0n),
    ),
    day.notFinal.toString(),
    stateOf(day).label,
    usdc(day.vendorCost),
  ]
}

/** Never an idempotency key: it is a capability. */
export const CALL_COLUMNS = [
  'job',
  'request',
  'accepted_at',
  'finished_at',
  'state',
  'failure_code',
  'operation',
  'model',
  'catalog_version',
  'payer',
  'network',
  'quoted_maximum_usdc',
  'charge_usdc',
  'owed',
  'settlement_state',
  'transaction',
  'block',
  'gas_usdc',
  'receipt',
  'usage',
  'deployment',
  'vendor_usdc',
  'margin_usdc',
]

export function callCells(call: ExportedCall): readonly string[] {
  const amount = (atomic: bigint | null) => (atomic === null ? '' : usdc(atomic))
  return [
    call.jobId,
    call.requestId ?? '',
    call.acceptedAt.toISOString(),
    call.finishedAt?.toISOString() ?? '',
    call.state,
    call.failureCode ?? '',
    call.operation,
    call.model,
    call.catalogVersion,
    call.payer,
    call.network,
    usdc(call.quotedMaximum),
    amount(call.charge),
    call.isOwed ? 'yes' : 'no',
    call.settlementState ?? '',
    call.transaction ?? '',
    call.blockNumber?.toString() ?? '',
    amount(call.gasCost),
    call.receiptId ?? '',
    call.usage === null ? '' : JSON.stringify(call.usage),
    call.deployment ?? '',
    amount(call.vendorCost),
    amount(marginOf(call)),
  ]
}

/** Charge, less gas and what the vendor bills; `null` unless it was charged and both are known. */
function marginOf({ state, charge, gasCost, vendorCost }: ExportedCall): bigint | null {
  if (state !== 'completed' || charge === null || gasCost === null || vendorCost === null) return null
  return charge - gasCost - vendorCost
}
