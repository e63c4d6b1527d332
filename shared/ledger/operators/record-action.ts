import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Author } from '#shared/operators/author.ts'
import type { Sql } from '../pool.ts'

/** What an operator does. */
export interface NewAction {
  /** What was done, as `noun.verb`, such as `deployment.drain`. */
  readonly action: string
  /** What it was done to, such as the id of a job or the name of a deployment. */
  readonly subject: string
  /** `null` where no reason is asked for. */
  readonly reason: string | null
  /** Never a password, key or token. */
  readonly details?: { readonly [name: string]: JsonValue }
}

/**
 * Records what an operator did. Call it in the transaction that makes a change, so that neither exists alone; outside
 * of one for what changed nothing, such as a download.
 */
export async function recordAction(sql: Sql, author: Author, { action, subject, reason, details }: NewAction) {
  await sql.query({
    name: 'record_operator_action',
    text: `INSERT INTO operator_actions (operator, source, action, subject, reason, details)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    values: [author.operator, author.source, action, subject, reason, JSON.stringify(details ?? {})],
  })
}
