import type { ActionFilter, OperatorAction, OperatorActions } from '#shared/operators/operator-store.ts'
import type { Sql } from '../pool.ts'

type Row = Omit<OperatorAction, 'id' | 'position'> & { readonly id: string; readonly position: string }

/** An id after every action. */
const END = 9_223_372_036_854_775_807n

/** Returns a page of actions, newest first. Each filter has a statement of its own, so that it uses its index. */
export async function readActions(
  sql: Sql,
  { operator, subject, action }: ActionFilter,
  { before, limit }: { readonly before: bigint | null; readonly limit: number },
): ReturnType<OperatorActions['readActions']> {
  const filters = [
    ['operator', operator],
    ['subject', subject],
    ['action', action],
  ].filter((entry): entry is [string, string] => entry[1] !== undefined)
  const { rows } = await sql.query<Row>({
    name: ['read_operator_actions', ...filters.map(([column]) => `by_${column}`)].join('_'),
    text: `SELECT id, done_at AS "doneAt", operator, source, action, subject, reason, details, position, hash
     FROM operator_actions
     WHERE id < $1${filters.map(([column], index) => ` AND ${column} = $${index + 3}`).join('')}
     ORDER BY id DESC LIMIT $2`,
    values: [(before ?? END).toString(), limit + 1, ...filters.map(([, value]) => value)],
  })
  const actions = rows.slice(0, limit).map((row) => ({ ...row, id: BigInt(row.id), position: BigInt(row.position) }))
  return { actions, next: rows.length > limit ? (actions.at(-1)?.id ?? null) : null }
}
