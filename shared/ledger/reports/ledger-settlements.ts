import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import type { LedgerPeriod } from './period.ts'

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

const COLUMNS = `settlements.id AS "settlementId", settlements.job_id AS "jobId", settlements.state,
  settlements.block_number AS "blockNumber", settlements.charge_amount AS "chargeAtomic", authorizations.payer,
  authorizations.signed ->> 'payTo' AS "payTo", authorizations.nonce, settlements.batch_id IS NOT NULL AS "isBatched",
  (settlements.state = 'confirmed' AND settlements.finished_at >= $1 AND settlements.finished_at < $2) IS TRUE
    AS "isInPeriod"`
const SOURCE = 'settlements JOIN authorizations ON authorizations.id = settlements.authorization_id'

/** Returns the confirmed settlements in these blocks according to the ledger, whenever they were confirmed. */
export async function readSettlementsInBlocks(
  sql: Sql,
  { from, to }: LedgerPeriod,
  blocks: { readonly first: bigint; readonly last: bigint },
): Promise<readonly LedgerSettlement[]> {
  return await readRows<LedgerSettlement>(sql, {
    name: 'read_settlements_in_blocks',
    text: `SELECT ${COLUMNS}, settlements.transaction_hash AS transaction FROM ${SOURCE}
     WHERE settlements.state = 'confirmed' AND block_number BETWEEN $3 AND $4`,
    values: [from, to, blocks.first.toString(), blocks.last.toString()],
  })
}

const TIME_OF_ROW = "coalesce((SELECT finished_at FROM settlements WHERE id = $5), '-infinity')"
/**
 * Whether a settlement comes after the one with the id `$5`, by `finished_at` and then by id; without such a row, all do.
 * The first half bounds what is read of an index by time.
 */
const AFTER_ROW = `settlements.finished_at >= ${TIME_OF_ROW}
       AND (settlements.finished_at, settlements.id) > (${TIME_OF_ROW}, $5)`

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
  return await readRows<LedgerSettlement>(sql, {
    name: 'read_settlements_outside_blocks',
    text: `SELECT ${COLUMNS}, settlements.transaction_hash AS transaction FROM ${SOURCE}
     WHERE settlements.state = 'confirmed' AND settlements.finished_at >= $1 AND settlements.finished_at < $2
       AND block_number NOT BETWEEN $3 AND $4 AND ${AFTER_ROW}
     ORDER BY settlements.finished_at, settlements.id LIMIT $6`,
    values: [from, to, blocks.first.toString(), blocks.last.toString(), page.after, page.limit],
  })
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
  return await readRows<LedgerSettlement>(sql, {
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
}
