import type { PermitCall } from '#shared/jobs/admission-store.ts'
import type { Sql } from '../pool.ts'

/** Turns whose calls did not return are deleted by later ones, some at a time. */
const FORGOTTEN_AFTER_SECONDS = 60
const FORGOTTEN_AT_ONCE = 10

/** Gives a call the payer's turn, unless another call has it or a job of the payer is open. Returns whether it has it. */
export async function takePermitTurn(
  sql: Sql,
  { payer, idempotencyKey }: PermitCall,
  seconds: number,
): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'take_permit_turn',
    text: `WITH forgotten AS (
       DELETE FROM permit_turns WHERE payer IN (
         SELECT payer FROM permit_turns WHERE ends_at <= now() - make_interval(secs => $4) AND payer <> $1
         ORDER BY ends_at LIMIT $5 FOR UPDATE SKIP LOCKED))
     INSERT INTO permit_turns AS turn (payer, idempotency_key, ends_at)
     SELECT $1, $2, now() + make_interval(secs => $3)
     WHERE NOT EXISTS (SELECT FROM jobs WHERE payer = $1 AND finished_at IS NULL AND state <> 'review')
     ON CONFLICT (payer) DO UPDATE SET idempotency_key = excluded.idempotency_key, ends_at = excluded.ends_at
     WHERE turn.ends_at <= now() OR turn.idempotency_key = excluded.idempotency_key
     RETURNING payer`,
    values: [payer, idempotencyKey, seconds, FORGOTTEN_AFTER_SECONDS, FORGOTTEN_AT_ONCE],
  })
  return rowCount === 1
}

/** Returns the key of the call that has the payer's turn, or `null`. */
export async function findPermitTurn(sql: Sql, payer: string): Promise<string | null> {
  const { rows } = await sql.query<{ idempotency_key: string }>({
    name: 'find_permit_turn',
    text: 'SELECT idempotency_key FROM permit_turns WHERE payer = $1 AND ends_at > now()',
    values: [payer],
  })
  return rows[0]?.idempotency_key ?? null
}

/** Ends the turn of a call, if it has it. */
export async function endPermitTurn(sql: Sql, { payer, idempotencyKey }: PermitCall): Promise<void> {
  await sql.query({
    name: 'end_permit_turn',
    text: 'DELETE FROM permit_turns WHERE payer = $1 AND idempotency_key = $2',
    values: [payer, idempotencyKey],
  })
}
