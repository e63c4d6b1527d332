import type { Author } from '#shared/operators/author.ts'
import { KEY_KINDS, type KeyKind, type KeyRotation } from '#shared/operators/key-rotation.ts'
import { bindTo } from '../bind-to.ts'
import type { Sql } from '../pool.ts'
import { recordAction } from './record-action.ts'

const ACTION = 'key.rotate'

interface RotationRow {
  readonly subject: KeyKind
  readonly done_at: Date
  readonly operator: string
  readonly reason: string
  readonly details: { readonly newKey: string; readonly oldKey: string }
}

/** Creates the store of rotations, which are kept among the actions of operators, between the steps of a person. */
export function createKeyRotationStore(sql: Sql) {
  return bindTo(sql, { readRotations, startRotation })
}

async function startRotation(
  sql: Sql,
  { kind, newKey, oldKey, reason }: Pick<KeyRotation, 'kind' | 'newKey' | 'oldKey' | 'reason'>,
  author: Author,
): Promise<void> {
  await recordAction(sql, author, { action: ACTION, subject: kind, reason, details: { newKey, oldKey } })
}

/** Returns the newest rotation of each kind. */
async function readRotations(sql: Sql): Promise<readonly KeyRotation[]> {
  const { rows } = await sql.query<RotationRow>({
    name: 'read_key_rotations',
    text: `SELECT newest.subject, newest.done_at, newest.operator, newest.reason, newest.details
     FROM unnest($1::text[]) AS kind CROSS JOIN LATERAL (
       SELECT subject, done_at, operator, reason, details FROM operator_actions
       WHERE subject = kind AND action = $2 ORDER BY id DESC LIMIT 1) AS newest`,
    values: [KEY_KINDS, ACTION],
  })
  return rows.map(({ subject: kind, done_at: startedAt, operator, reason, details: { newKey, oldKey } }) => ({
    kind,
    newKey,
    oldKey,
    startedAt,
    operator,
    reason,
  }))
}
