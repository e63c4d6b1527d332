import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { Sql } from './pool.ts'
import { readRows } from './read-rows.ts'

/** The batches that the row `settlements` is or was in. */
const BATCHES = 'array_prepend(settlements.batch_id, settlements.earlier_batches)'

/**
 * Every transaction that was signed for the row `settlements`, as the rows `signed`: its own, or those of its batches.
 * Both parts use their index, which a join by either of two columns does not always do.
 */
export const SIGNED_FOR_SETTLEMENT = `(
    SELECT hash, facilitator, account_nonce, signed_at, settled_by
      FROM settlement_transactions WHERE settlement_id = settlements.id
    UNION ALL SELECT hash, facilitator, account_nonce, signed_at, settled_by
      FROM settlement_transactions WHERE batch_id = ANY(${BATCHES})) AS signed`

/** Those of the account nonce that the row `settlements` has now come first, each newest first. */
export const NEWEST_FIRST = `(signed.facilitator, signed.account_nonce)
    = (settlements.facilitator, settlements.account_nonce) DESC, signed.signed_at DESC`

const SETTLEMENT = 'id, job_id, authorization_id, state, block_number, charge_amount, finished_at'

/** The settlements that the row `signed` of settlement_transactions was signed for, as rows `settlements`. */
export const SETTLEMENTS_OF_SIGNED = `(
    SELECT ${SETTLEMENT} FROM settlements WHERE id = signed.settlement_id
    UNION ALL SELECT ${SETTLEMENT} FROM settlements WHERE batch_id = signed.batch_id
    UNION ALL SELECT ${SETTLEMENT} FROM settlements WHERE earlier_batches @> ARRAY[signed.batch_id]) AS settlements`

/** The newest transaction of the row `settlements`. */
export const NEWEST_TRANSACTION = `(SELECT hash FROM ${SIGNED_FOR_SETTLEMENT} ORDER BY ${NEWEST_FIRST} LIMIT 1)`

/**
 * Returns every transaction that was signed with our own keys for each of these settlements, newest first. Those of a
 * batch are read once and shared, since each holds all of its payments.
 */
export async function readTransactions(
  sql: Sql,
  settlementIds: readonly string[],
): Promise<ReadonlyMap<string, readonly StoredTransaction[]>> {
  if (settlementIds.length === 0) return new Map()
  const rows = await readRows<StoredTransaction & { settlements: readonly { id: string; rank: number }[] }>(sql, {
    name: 'read_transactions_of_settlements',
    text: `WITH named AS (
       SELECT settlements.id, signed.hash,
         row_number() OVER (PARTITION BY settlements.id ORDER BY ${NEWEST_FIRST}) AS rank
       FROM settlements, LATERAL ${SIGNED_FOR_SETTLEMENT}
       WHERE settlements.id = ANY($1::uuid[]) AND signed.settled_by = 'own_key'
     ), by_hash AS (
       SELECT hash, json_agg(json_build_object('id', id, 'rank', rank)) AS settlements FROM named GROUP BY hash)
     SELECT hash, raw_transaction AS raw, facilitator AS sender, account_nonce AS "accountNonce", by_hash.settlements
     FROM by_hash JOIN settlement_transactions USING (hash)`,
    values: [settlementIds],
  })
  const ranked = new Map<string, [rank: number, transaction: StoredTransaction][]>()
  for (const { settlements, ...transaction } of rows)
    for (const { id, rank } of settlements) ranked.set(id, [...(ranked.get(id) ?? []), [rank, transaction]])
  return new Map(
    [...ranked].map(([id, transactions]) => [
      id,
      transactions.toSorted(([one], [other]) => one - other).map(([, transaction]) => transaction),
    ]),
  )
}
