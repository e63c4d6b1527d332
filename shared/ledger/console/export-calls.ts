import type { CallSummary } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { BEGINNING, cutPage, END, microsecondsOf, type PositionRow, positionAt } from '../position.ts'
import type { ListPosition } from '../read-list.ts'
import { VENDOR_OF_JOB } from '../reports/margin.ts'
import { amountOrNull, CALL, type CallRow, callSummary } from './call-row.ts'
import type { CallFilter } from './list-calls.ts'
import { selectCalls } from './select-calls.ts'

/** A row of the list of all calls for bookkeeping. */
export interface ExportedCall extends CallSummary {
  readonly catalogVersion: string
  readonly receiptId: string | null
  readonly network: string
  readonly transaction: string | null
  readonly blockNumber: bigint | null
  readonly gasCost: bigint | null
  readonly settlementState: string | null
  /** By the names of the receipt. */
  readonly usage: Readonly<Record<string, number>> | null
  /** That of the last attempt that brought a result. */
  readonly deployment: string | null
  /** Of all attempts that brought a result; `null` when the price of one is not known. */
  readonly vendorCost: bigint | null
}

const PAGE_CALLS = 1000

type Row = CallRow &
  PositionRow & {
    readonly catalog_version: string
    readonly receipt_id: string | null
    readonly network: string
    readonly transaction_hash: string | null
    readonly block_number: string | null
    readonly gas_cost: string | null
    readonly settlement_state: string | null
    readonly usage: Readonly<Record<string, number>> | null
    readonly deployment: string | null
    readonly vendor_cost: string | null
  }

/**
 * Returns the calls that `listCalls` lists with the same filter, oldest first, with the settlement that charged them or
 * may still do so. Reads a page while the one before is written, and holds no more than these two.
 */
export async function* exportCalls(
  sql: Sql,
  filter: CallFilter,
  pageCalls = PAGE_CALLS,
): AsyncGenerator<readonly ExportedCall[]> {
  let reading = readPage(sql, filter, null, pageCalls)
  for (;;) {
    const { rows, next } = await reading
    if (next !== null) {
      reading = readPage(sql, filter, next, pageCalls)
      // Whoever stops reading does not wait for it.
      reading.catch(() => undefined)
    }
    if (rows.length > 0) yield rows.map(exportedCall)
    if (next === null) return
  }
}

async function readPage(sql: Sql, filter: CallFilter, after: ListPosition | null, limit: number) {
  const { from, until, ...criteria } = filter
  const [oldest, upper] = [from ? positionAt(from) : BEGINNING, until ? positionAt(until) : END]
  const lower = after ?? oldest
  const columns = `${CALL}, jobs.catalog_version, jobs.receipt_id, jobs.authorization_id, jobs.usage`
  const selected = selectCalls({ ...criteria, columns, isNewestFirst: false, isAfterLower: after !== null })
  const { rows } = await sql.query<Row>({
    name: `export_console_calls${after ? '' : '_first'}${selected.suffix}`,
    text: `SELECT ${CALL}, ${microsecondsOf(`jobs.${selected.moment}`)} AS microseconds, jobs.catalog_version, jobs.receipt_id,
       authorizations.network, settlement.transaction_hash, settlement.block_number, settlement.gas_cost,
       settlement.state AS settlement_state, jobs.usage, attempts.deployment, attempts.vendor_cost
     FROM (${selected.text}) AS jobs
     JOIN authorizations ON authorizations.id = jobs.authorization_id
     LEFT JOIN LATERAL (SELECT transaction_hash, block_number, gas_cost, state FROM settlements
       WHERE settlements.authorization_id = jobs.authorization_id OFFSET 0) AS settlement ON true
     LEFT JOIN LATERAL (${VENDOR_OF_JOB} OFFSET 0) AS attempts ON true
     ORDER BY jobs.${selected.moment}, jobs.id`,
    values: [
      upper.microseconds.toString(),
      upper.id,
      lower.microseconds.toString(),
      lower.id,
      limit + 1,
      ...selected.values,
    ],
  })
  return cutPage(rows, limit)
}

function exportedCall(row: Row): ExportedCall {
  return {
    ...callSummary(row),
    catalogVersion: row.catalog_version,
    receiptId: row.receipt_id,
    network: row.network,
    transaction: row.transaction_hash,
    blockNumber: amountOrNull(row.block_number),
    gasCost: amountOrNull(row.gas_cost),
    settlementState: row.settlement_state,
    usage: row.usage,
    deployment: row.deployment,
    vendorCost: amountOrNull(row.vendor_cost),
  }
}
