import type { BatchRecord, SettlementRecord, SettlementState } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'
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
  readonly transactions:
    | readonly { hash: string; sender: string; account_nonce: string | null; signed_at: string }[]
    | null
  readonly batch_id: string | null
  readonly contract: string | null
  readonly size: number | null
  readonly abandoned_at: Date | null
  readonly earlier_batches: number
  readonly others: readonly { jobId: string; state: SettlementState }[] | null
}

/** As many as a batch may have. */
const SHOWN_OTHERS = 100

/** Returns the settlements of a job with every transaction that was signed for them; never the signed bytes. */
export async function readSettlements(sql: Sql, jobId: string): Promise<readonly SettlementRecord[]> {
  const { rows } = await sql.query<SettlementRow>({
    name: 'read_console_settlements',
    text: `SELECT settlements.id, state, settled_by, settlements.network, settlements.facilitator, charge_amount,
       transaction_hash, block_number, signed_at, finished_at, finalized_at, failure_reason, gas_cost,
       (SELECT json_agg(json_build_object('hash', hash, 'sender', signed.facilitator,
          'account_nonce', signed.account_nonce::text, 'signed_at', signed.signed_at) ORDER BY signed.signed_at, hash)
        FROM ${SIGNED_FOR_SETTLEMENT}) AS transactions,
       batch_id, contract, size, abandoned_at, coalesce(cardinality(earlier_batches), 0) AS earlier_batches,
       (SELECT json_agg(json_build_object('jobId', job_id, 'state', state) ORDER BY id) FROM (
          SELECT other.id, other.job_id, other.state FROM settlements AS other
          WHERE other.batch_id = settlements.batch_id AND other.id <> settlements.id
          ORDER BY other.id LIMIT ${SHOWN_OTHERS}) AS shown) AS others
     FROM settlements LEFT JOIN settlement_batches ON settlement_batches.id = settlements.batch_id
     WHERE job_id = $1 ORDER BY signed_at, settlements.id`,
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
      sender: signed.sender,
      accountNonce: amountOrNull(signed.account_nonce),
      signedAt: new Date(signed.signed_at),
    })),
    batch: batchOf(row),
  }))
}

function batchOf(row: SettlementRow): BatchRecord | null {
  const { batch_id: id, contract, size } = row
  if (id === null || contract === null || size === null) return null
  return {
    id,
    contract,
    size,
    abandonedAt: row.abandoned_at,
    others: row.others ?? [],
    earlierBatches: row.earlier_batches,
  }
}
