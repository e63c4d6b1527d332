import type { Sql } from '../pool.ts'

type Hex = `0x${string}`

interface DecidedBlock {
  readonly number: bigint
  readonly hash: Hex
}

/** As for settlements: a reorganization replaces the newest blocks. Each block costs an RPC call at every poll. */
const NEWEST_BLOCKS = 8
const FINAL_BLOCKS = 32

/** Returns the newest blocks that decided permits, and the oldest of those up to `finalizedNumber`. */
export async function findUnfinalAllowanceBlocks(sql: Sql, finalizedNumber: bigint): Promise<readonly DecidedBlock[]> {
  const { rows } = await sql.query<{ number: string; hash: Hex }>({
    name: 'find_unfinal_allowance_blocks',
    text: `WITH unfinal AS (
       SELECT DISTINCT block_number, block_hash FROM sponsored_permits
       WHERE block_hash IS NOT NULL AND finalized_at IS NULL)
     (SELECT block_number AS number, block_hash AS hash FROM unfinal ORDER BY block_number DESC LIMIT $2)
     UNION (SELECT block_number, block_hash FROM unfinal WHERE block_number <= $1 ORDER BY block_number LIMIT $3)`,
    values: [finalizedNumber.toString(), NEWEST_BLOCKS, FINAL_BLOCKS],
  })
  return rows.map(({ number, hash }) => ({ number: BigInt(number), hash }))
}

/** Marks permits that these blocks decided as final. Returns their number. */
export async function markAllowancesFinal(sql: Sql, blockHashes: readonly Hex[]): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'mark_allowances_final',
    text: `UPDATE sponsored_permits SET finalized_at = now()
     WHERE block_hash = ANY($1) AND finalized_at IS NULL`,
    values: [blockHashes],
  })
  return rowCount ?? 0
}

/**
 * Moves permits that these blocks decided back to signed: the chain no longer contains the blocks. Raises the fence, as
 * a claim does.
 */
export async function reopenAllowances(sql: Sql, blockHashes: readonly Hex[]): Promise<number> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'reopen_allowances',
    text: `WITH moved AS (
       UPDATE sponsored_permits SET state = 'signed', fence = fence + 1, finished_at = NULL, lease_expires_at = NULL,
         run_after = now(), is_granted_elsewhere = false, failure_code = NULL, failure_reason = NULL, block_number = NULL, block_hash = NULL,
         transaction_hash = NULL, gas_used = NULL, effective_gas_price = NULL, gas_wei = NULL, gas_cost = NULL
       WHERE block_hash = ANY($1) AND finalized_at IS NULL RETURNING id)
     SELECT id, pg_notify('farebox_allowances', id::text) FROM moved`,
    values: [blockHashes],
  })
  return rows.length
}
