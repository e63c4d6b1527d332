import type { ExportedCall, Period } from '#shared/operators/money-store.ts'
import { cutPage, microsecondsOf, type PositionRow, positionAt, timestampOf } from '../account/position.ts'
import type { Sql } from '../pool.ts'
import { amountOrNull, CALL, type CallRow, callSummary } from './call-row.ts'

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
  }

/** Returns the calls accepted in the period, oldest first, with the settlement that charged them or may still do so. */
export async function* exportCalls(
  sql: Sql,
  { from, until }: Period,
  pageCalls = PAGE_CALLS,
): AsyncGenerator<readonly ExportedCall[]> {
  const end = positionAt(until)
  for (let after = positionAt(from), isFirst = true; ; isFirst = false) {
    const { rows } = await sql.query<Row>({
      name: isFirst ? 'export_first_console_calls' : 'export_console_calls',
      text: `SELECT ${CALL}, ${microsecondsOf('jobs.accepted_at')} AS microseconds, jobs.catalog_version, jobs.receipt_id,
         authorizations.network, settlement.transaction_hash, settlement.block_number, settlement.gas_cost,
         settlement.state AS settlement_state
       FROM (SELECT id FROM jobs WHERE (accepted_at, id) ${isFirst ? '>=' : '>'} (${timestampOf('$1')}, $2::uuid)
           AND (accepted_at, id) < (${timestampOf('$3')}, $4::uuid)
         ORDER BY accepted_at, id LIMIT $5) AS page
       JOIN jobs ON jobs.id = page.id
       JOIN authorizations ON authorizations.id = jobs.authorization_id
       LEFT JOIN LATERAL (SELECT transaction_hash, block_number, gas_cost, state FROM settlements
         WHERE settlements.authorization_id = jobs.authorization_id OFFSET 0) AS settlement ON true
       ORDER BY jobs.accepted_at, jobs.id`,
      values: [after.microseconds.toString(), after.id, end.microseconds.toString(), end.id, pageCalls + 1],
    })
    const page = cutPage(rows, pageCalls)
    if (page.rows.length > 0) yield page.rows.map(exportedCall)
    if (page.next === null) return
    after = page.next
  }
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
  }
}
