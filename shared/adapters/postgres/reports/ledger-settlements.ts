import type { Sql } from '../pool.ts'
import { afterRow, type LedgerPeriod } from './period.ts'

/** A settlement according to the ledger. Addresses and hashes are lower case, the charge is atomic USDC. */
export interface LedgerSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly state: string
  readonly transaction: string
  readonly blockNumber: bigint | null
  readonly chargeAtomic: bigint
  readonly payer: string
  readonly payTo: string
  /** The payer's Permit2 nonce. */
  readonly nonce: bigint
  /** Whether the settlement contract settles it, in a transaction that may settle others. */
  readonly isBatched: boolean
  /** Whether it was confirmed within the report's period. */
  readonly isInPeriod: boolean
}

interface SettlementRow {
  settlement_id: string
  job_id: string
  state: string
  transaction: string
  block_number: string | null
  charge: string
  payer: string
  pay_to: string
  nonce: string
  is_batched: boolean
  is_in_period: boolean | null
}

const COLUMNS = `settlements.id AS settlement_id, settlements.job_id, settlements.state, settlements.block_number,
  settlements.charge_amount AS charge, authorizations.payer, authorizations.signed ->> 'payTo' AS pay_to,
  authorizations.nonce, settlements.batch_id IS NOT NULL AS is_batched,
  settlements.state = 'confirmed' AND settlements.finished_at >= $1 AND settlements.finished_at < $2 AS is_in_period`
const SOURCE = 'settlements JOIN authorizations ON authorizations.id = settlements.authorization_id'

/** Returns the confirmed settlements in these blocks according to the ledger, whenever they were confirmed. */
export async function readSettlementsInBlocks(
  sql: Sql,
  { from, to }: LedgerPeriod,
  blocks: { readonly first: bigint; readonly last: bigint },
): Promise<readonly LedgerSettlement[]> {
  const { rows } = await sql.query<SettlementRow>({
    name: 'read_settlements_in_blocks',
    text: `SELECT ${COLUMNS}, settlements.transaction_hash AS transaction FROM ${SOURCE}
     WHERE settlements.state = 'confirmed' AND block_number BETWEEN $3 AND $4`,
    values: [from, to, blocks.first.toString(), blocks.last.toString()],
  })
  return rows.map(settlementOf)
}

/**
 * Returns one page of the period's settlements outside of these blocks: at most `limit` after the one with the id `after`,
 * by time, so that each page begins where the one before ended in the index.
 */
export async function readSettlementsOutsideBlocks(
  sql: Sql,
  { from, to }: LedgerPeriod,
  blocks: { readonly first: bigint; readonly last: bigint },
  page: { readonly after: string; readonly limit: number },
): Promise<readonly LedgerSettlement[]> {
  const { rows } = await sql.query<SettlementRow>({
    name: 'read_settlements_outside_blocks',
    text: `SELECT ${COLUMNS}, settlements.transaction_hash AS transaction FROM ${SOURCE}
     WHERE settlements.state = 'confirmed' AND settlements.finished_at >= $1 AND settlements.finished_at < $2
       AND block_number NOT BETWEEN $3 AND $4 AND ${afterRow('settlements', '$5')}
     ORDER BY settlements.finished_at, settlements.id LIMIT $6`,
    values: [from, to, blocks.first.toString(), blocks.last.toString(), page.after, page.limit],
  })
  return rows.map(settlementOf)
}

/**
 * Returns the settlements of these transactions, in any state: all of a batch, and those that have left it. Hashes unknown
 * to the ledger are left out.
 */
export async function readSettlementsByTransaction(
  sql: Sql,
  { from, to }: LedgerPeriod,
  transactions: readonly string[],
): Promise<readonly LedgerSettlement[]> {
  const { rows } = await sql.query<SettlementRow>({
    name: 'read_settlements_by_transaction',
    text: `WITH sent AS (SELECT hash, settlement_id, batch_id FROM settlement_transactions WHERE hash = ANY($3)),
     settled AS (
       SELECT hash, settlement_id AS id FROM sent WHERE settlement_id IS NOT NULL
       UNION SELECT hash, settlements.id FROM sent JOIN settlements ON settlements.batch_id = sent.batch_id
       UNION SELECT hash, settlements.id FROM sent
         JOIN settlements ON settlements.earlier_batches @> ARRAY[sent.batch_id] WHERE sent.batch_id IS NOT NULL)
     SELECT ${COLUMNS}, settled.hash AS transaction FROM settled JOIN ${SOURCE} ON settlements.id = settled.id`,
    values: [from, to, transactions],
  })
  return rows.map(settlementOf)
}

function settlementOf(row: SettlementRow): LedgerSettlement {
  return {
    settlementId: row.settlement_id,
    jobId: row.job_id,
    state: row.state,
    transaction: row.transaction,
    blockNumber: row.block_number === null ? null : BigInt(row.block_number),
    chargeAtomic: BigInt(row.charge),
    payer: row.payer,
    payTo: row.pay_to,
    nonce: BigInt(row.nonce),
    isBatched: row.is_batched,
    isInPeriod: row.is_in_period === true,
  }
}
