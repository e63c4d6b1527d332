import type { SettlementRecord, SettlementState } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { amountOrNull } from './call-row.ts'

interface SettlementRow {
  readonly id: string
  readonly state: SettlementState
  readonly settled_by: SettlementRecord['settledBy']
  readonly network: string
  readonly facilitator: string
  readonly charge_amount: string
  readonly transaction_hash: string | null
  readonly block_number: string | null
  readonly signed_at: Date
  readonly finished_at: Date | null
  readonly finalized_at: Date | null
  readonly failure_reason: string | null
  readonly gas_cost: string | null
  readonly transactions: readonly { hash: string; account_nonce: string | null; signed_at: string }[] | null
}

/** Returns the settlements of a job with every transaction that was signed for them; never the signed bytes. */
export async function readSettlements(sql: Sql, jobId: string): Promise<readonly SettlementRecord[]> {
  const { rows } = await sql.query<SettlementRow>({
    name: 'read_console_settlements',
    text: `SELECT id, state, settled_by, network, facilitator, charge_amount, transaction_hash, block_number, signed_at,
       finished_at, finalized_at, failure_reason, gas_cost,
       (SELECT json_agg(json_build_object('hash', hash, 'account_nonce', account_nonce::text, 'signed_at', signed_at)
          ORDER BY signed_at, hash)
        FROM settlement_transactions WHERE settlement_id = settlements.id) AS transactions
     FROM settlements WHERE job_id = $1 ORDER BY signed_at, id`,
    values: [jobId],
  })
  return rows.map((row) => ({
    id: row.id,
    state: row.state,
    settledBy: row.settled_by,
    network: row.network,
    facilitator: row.facilitator,
    charge: BigInt(row.charge_amount),
    transaction: row.transaction_hash,
    blockNumber: amountOrNull(row.block_number),
    signedAt: row.signed_at,
    finishedAt: row.finished_at,
    finalizedAt: row.finalized_at,
    failureReason: row.failure_reason,
    gasCost: amountOrNull(row.gas_cost),
    transactions: (row.transactions ?? []).map((signed) => ({
      hash: signed.hash,
      accountNonce: amountOrNull(signed.account_nonce),
      signedAt: new Date(signed.signed_at),
    })),
  }))
}
