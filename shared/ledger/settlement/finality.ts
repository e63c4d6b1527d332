import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import type { Sql } from '../pool.ts'
import { countRows, readRows } from '../read-rows.ts'
import { readTransactions } from '../settlement-transactions.ts'

/** A block that decided settlements. */
export interface SettledBlock {
  readonly number: bigint
  readonly hash: string
}

interface Removed {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  /** Of the block that left the chain. */
  readonly blockNumber: bigint
  /** The one that its receipt names. */
  readonly transactionHash: string
}

/** A confirmed settlement of an own key whose block has left the chain. */
export interface RemovedSettlement extends Removed {
  /** Newest first. */
  readonly transactions: readonly StoredTransaction[]
}

/** A confirmed settlement by a remote facilitator whose block has left the chain. */
export interface RemovedRemoteSettlement extends Removed {
  /** No transaction of this settlement is in an earlier block. */
  readonly recordedBlock: bigint
}

/** The transaction and block that prove a settlement. */
export interface SettledAt {
  readonly transactionHash: string
  readonly blockNumber: bigint
  readonly blockHash: string
}

/**
 * A reorganization replaces the newest blocks, and only a few are added between two polls: checking this many detects
 * it.
 */
const NEWEST_BLOCKS = 8
const FINAL_BLOCKS = 100

/** Settlements that a block decided, in the words of their partial indexes. */
const CONFIRMED = "state = 'confirmed' AND finalized_at IS NULL AND block_hash IS NOT NULL"
const REMOVED = "state = 'confirmed' AND finalized_at IS NULL AND block_hash IS NULL"
const FAILED = "state = 'reverted' AND finalized_at IS NULL AND block_hash IS NOT NULL"

/**
 * Returns the newest blocks that decided settlements, confirmed or failed, and the oldest of those up to
 * `finalizedNumber`.
 */
export async function findUnfinalBlocks(sql: Sql, finalizedNumber: bigint): Promise<readonly SettledBlock[]> {
  return await readRows<SettledBlock>(sql, {
    name: 'find_unfinal_blocks',
    text: [CONFIRMED, FAILED]
      .map(
        (deciding) => `(SELECT DISTINCT block_number AS number, block_hash AS hash FROM settlements
      WHERE ${deciding} ORDER BY block_number DESC LIMIT $2)
     UNION
     (SELECT DISTINCT block_number, block_hash FROM settlements
      WHERE ${deciding} AND block_number <= $1 ORDER BY block_number LIMIT $3)`,
      )
      .join(' UNION '),
    values: [finalizedNumber.toString(), NEWEST_BLOCKS, FINAL_BLOCKS],
  })
}

/**
 * Notes that these blocks have left the chain, for the confirmed settlements in them: they are looked up until they are in
 * another one, however many blocks come first.
 */
export async function removeFromBlocks(sql: Sql, blockHashes: readonly string[]): Promise<void> {
  await sql.query({
    name: 'remove_settlements_from_blocks',
    text: `UPDATE settlements SET block_hash = NULL WHERE ${CONFIRMED} AND block_hash = ANY($1)`,
    values: [blockHashes],
  })
}

/** Returns confirmed settlements of own keys whose block has left the chain, oldest block first, at most `limit`. */
export async function readRemoved(sql: Sql, limit: number): Promise<readonly RemovedSettlement[]> {
  const rows = await readRows<RemovedRow>(sql, {
    name: 'read_removed_settlements',
    text: `SELECT ${REMOVED_COLUMNS}
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE ${REMOVED} AND settled_by = 'own_key'
     ORDER BY block_number, account_nonce LIMIT $1`,
    values: [limit],
  })
  const transactions = await readTransactions(
    sql,
    rows.map(({ settlementId }) => settlementId),
  )
  return rows.map((row) => ({ ...removedOf(row), transactions: transactions.get(row.settlementId) ?? [] }))
}

/** Returns confirmed settlements by a remote facilitator whose block has left the chain, oldest block first, at most `limit`. */
export async function readRemovedRemote(sql: Sql, limit: number): Promise<readonly RemovedRemoteSettlement[]> {
  const rows = await readRows<RemovedRow & { recordedBlock: bigint }>(sql, {
    name: 'read_removed_remote_settlements',
    text: `SELECT ${REMOVED_COLUMNS}, recorded_block AS "recordedBlock"
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE ${REMOVED} AND settled_by = 'remote_facilitator'
     ORDER BY block_number, settlements.id LIMIT $1`,
    values: [limit],
  })
  return rows.map((row) => removedOf(row))
}

type RemovedRow = Omit<Removed, 'authorization'> & { readonly signed: unknown }

const REMOVED_COLUMNS = `settlements.id AS "settlementId", settlements.job_id AS "jobId", signed,
       charge_amount AS "chargeAmount", transaction_hash AS "transactionHash", block_number AS "blockNumber"`

function removedOf<Row extends RemovedRow>({ signed, ...row }: Row) {
  return { ...row, authorization: storedAuthorizationSchema.parse(signed) }
}

/** Marks the settlements that these blocks decided as final. Returns their number. */
export async function markFinal(sql: Sql, blockHashes: readonly string[]): Promise<number> {
  if (blockHashes.length === 0) return 0
  return await countRows(sql, {
    name: 'mark_settlements_final',
    text: `WITH confirmed AS (
       UPDATE settlements SET finalized_at = now() WHERE ${CONFIRMED} AND block_hash = ANY($1) RETURNING 1
     ), failed AS (
       UPDATE settlements SET finalized_at = now() WHERE ${FAILED} AND block_hash = ANY($1) RETURNING 1)
     SELECT 1 FROM confirmed UNION ALL SELECT 1 FROM failed`,
    values: [blockHashes],
  })
}

/**
 * Moves a confirmed settlement to another block; final and lost ones do not move. Replays return the transaction that
 * is on chain; the receipt never changes and is served together with the current settlement.
 */
export async function moveSettlement(
  sql: Sql,
  settlementId: string,
  { transactionHash, blockNumber, blockHash }: SettledAt,
): Promise<void> {
  await sql.query({
    name: 'move_settlement',
    text: `WITH moved AS (
       UPDATE settlements SET transaction_hash = $2, block_number = $3, block_hash = $4
       WHERE id = $1 AND state = 'confirmed' AND finalized_at IS NULL RETURNING job_id)
     UPDATE jobs SET payment_response = jsonb_set(payment_response, '{transaction}', to_jsonb($2::text))
     FROM moved WHERE jobs.id = moved.job_id AND payment_response->>'transaction' <> $2`,
    values: [settlementId, transactionHash, blockNumber.toString(), blockHash],
  })
}

/**
 * Moves confirmed → lost: a reorganization removed it and it can no longer be settled. The job stays completed: its
 * result was released, and replays continue. Returns `false` when another process has signed it again since the
 * transactions were read that were `judged`: that may have settled it, and used the nonce of its payer.
 */
export async function loseSettlement(
  sql: Sql,
  settlementId: string,
  reason: string,
  judged?: readonly StoredTransaction[],
): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'lose_settlement',
    text: `UPDATE settlements SET state = 'lost', failure_reason = $2
     WHERE id = $1 AND state = 'confirmed' AND finalized_at IS NULL
       AND ($3::text[] IS NULL OR EXISTS (SELECT 1 FROM unnest($3::text[], $4::numeric[]) AS judged (sender, nonce)
         WHERE judged.sender = facilitator AND judged.nonce = account_nonce))`,
    values: [
      settlementId,
      reason,
      judged?.map(({ sender }) => sender) ?? null,
      judged?.map(({ accountNonce }) => accountNonce.toString()) ?? null,
    ],
  })
  return rowCount === 1
}
