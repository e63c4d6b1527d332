import type { Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'

/**
 * Raises the revision, which makes all processes read the configuration again, and returns it. Call it first in the
 * transaction of a change: it locks the row, so changes follow each other in the order of their revisions.
 */
export async function raiseRevision(sql: Sql): Promise<bigint> {
  const { revision } = await readOne<{ revision: bigint }>(sql, {
    name: 'raise_configuration_revision',
    text: 'UPDATE configuration_revision SET revision = revision + 1 RETURNING revision',
    values: [],
  })
  return revision
}

/** Waits for other changes of the configuration, and keeps them out until the end of the transaction. */
export async function lockConfiguration(sql: Sql): Promise<void> {
  await sql.query({
    name: 'lock_configuration',
    text: 'SELECT revision FROM configuration_revision FOR UPDATE',
    values: [],
  })
}

/** Reads the revision that each publication and control raises. */
export async function readRevision(sql: Sql): Promise<bigint> {
  const { revision } = await readOne<{ revision: bigint }>(sql, {
    name: 'read_configuration_revision',
    text: 'SELECT revision FROM configuration_revision',
    values: [],
  })
  return revision
}
