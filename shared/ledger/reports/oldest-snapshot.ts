import type { Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'

/**
 * Returns how many transactions began since the oldest snapshot of this database was taken: of those that change rows, whose
 * earlier versions PostgreSQL keeps as long as it is open. What holds it may be a session, a standby, a replication slot or a
 * prepared transaction. Any role may read these; those of vacuum, which hold back nothing, have no user.
 */
export async function readOldestSnapshot(sql: Sql): Promise<number> {
  const { transactions } = await readOne<{ transactions: number }>(sql, {
    name: 'read_oldest_snapshot',
    text: `SELECT coalesce(max(age(xid)), 0) AS transactions FROM (
       SELECT unnest(ARRAY[backend_xmin, backend_xid]) AS xid FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND usesysid IS NOT NULL AND (datname IS NULL OR datname = current_database())
       UNION ALL SELECT xmin FROM pg_replication_slots
       UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()) AS held`,
    values: [],
  })
  return transactions
}
