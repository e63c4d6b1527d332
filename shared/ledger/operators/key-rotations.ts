import type { Author } from '#shared/operators/author.ts'
import { KEY_KINDS, type KeyRotation } from '#shared/operators/key-rotation.ts'
import { bindTo } from '../bind-to.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { recordAction } from './record-action.ts'

const ACTION = 'key.rotate'

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
  return await readRows<KeyRotation>(sql, {
    name: 'read_key_rotations',
    text: `SELECT kind, newest."newKey", newest."oldKey", newest."startedAt", newest.operator, newest.reason
     FROM unnest($1::text[]) AS kind CROSS JOIN LATERAL (
       SELECT details ->> 'newKey' AS "newKey", details ->> 'oldKey' AS "oldKey", done_at AS "startedAt", operator, reason
       FROM operator_actions
       WHERE subject = kind AND action = $2 ORDER BY id DESC LIMIT 1) AS newest`,
    values: [KEY_KINDS, ACTION],
  })
}
