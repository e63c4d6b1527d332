import { type AuditHead, BEGINNING, type ChainedAction } from '#shared/operators/audit-chain.ts'
import type { Sql } from '../pool.ts'
import { readFirst, readRows } from '../read-rows.ts'

const PAGE_SIZE = 5000

/** Returns the end of the audit, as its last insert wrote it. */
export async function readAuditHead(sql: Sql): Promise<AuditHead> {
  const head = await readFirst<AuditHead>(sql, {
    name: 'read_audit_head',
    text: 'SELECT position, hash FROM operator_action_head',
    values: [],
  })
  return head ?? BEGINNING
}

/** Reads all actions in the order of the chain, with the content that their hashes are about. */
export async function* readChain(sql: Sql): AsyncGenerator<ChainedAction> {
  let after = BEGINNING.position
  for (;;) {
    const rows: readonly ChainedAction[] = await readRows<ChainedAction>(sql, {
      name: 'read_audit_chain',
      // Spelled out, so that who may replace functions of the ledger does not choose what is checked.
      text: `SELECT position, hash, ARRAY[id::text, (extract(epoch FROM done_at) * 1000000)::bigint::text, operator, source,
           action, subject, reason, details::text] AS parts
         FROM operator_actions WHERE position > $1 ORDER BY position LIMIT $2`,
      values: [after.toString(), PAGE_SIZE],
    })
    yield* rows
    const last = rows.at(-1)
    if (!last || rows.length < PAGE_SIZE) return
    after = last.position
  }
}
