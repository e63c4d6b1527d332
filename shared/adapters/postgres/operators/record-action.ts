import type { Author } from '#shared/operators/author.ts'
import type { NewAction } from '#shared/operators/operator-store.ts'
import type { Sql } from '../pool.ts'

/** Records a change of an operator. Call it in the transaction that makes the change, so that neither exists alone. */
export async function recordAction(sql: Sql, author: Author, { action, subject, reason, details }: NewAction) {
  await sql.query({
    name: 'record_operator_action',
    text: `INSERT INTO operator_actions (operator, source, action, subject, reason, details)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    values: [author.operator, author.source, action, subject, reason, JSON.stringify(details ?? {})],
  })
}
