import type { Sql } from '../pool.ts'

/** Reads the revision that each publication and control raises. */
export async function readRevision(sql: Sql): Promise<bigint> {
  const { rows } = await sql.query<{ revision: string }>({
    name: 'read_configuration_revision',
    text: 'SELECT revision FROM configuration_revision',
    values: [],
  })
  return BigInt(rows[0]?.revision ?? 0)
}
