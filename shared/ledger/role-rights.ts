import type { Pool, Sql } from './pool.ts'
import { inTransaction } from './transaction.ts'

/** What a service may do to a table that is not listed here: everything that leaves the table itself as it is. */
const ALL = 'SELECT, INSERT, UPDATE, DELETE'
/** Records that nobody takes back. Triggers refuse it, too; a role without the right cannot switch them off. */
const APPENDED = 'SELECT, INSERT'
/** Money and work, which move but do not vanish. */
const KEPT = 'SELECT, INSERT, UPDATE'
const READ = 'SELECT'

const RIGHTS: Readonly<Record<string, string>> = {
  operator_actions: APPENDED,
  resolutions: APPENDED,
  catalogs: APPENDED,
  publications: APPENDED,
  archive_objects: APPENDED,
  // The archive moves documents out; `hash` is written over itself to find out whose it is.
  receipts: `${APPENDED}, UPDATE (body, archive_object)`,
  settlement_transactions: `${APPENDED}, UPDATE (hash, raw_transaction, archive_object)`,
  jobs: KEPT,
  authorizations: KEPT,
  upstream_attempts: KEPT,
  settlements: KEPT,
  settlement_batches: KEPT,
  unknown_settlements: KEPT,
  uncharged_work: KEPT,
  operators: KEPT,
  operator_action_head: READ,
  console_secret: READ,
  schema_migrations: READ,
}

/** Anything that no other lock of the ledger uses. */
const RIGHTS_LOCK = 8453_2027

/**
 * Gives a role the rights of a service on the ledger, and on the schema of the queue where it is in the same database,
 * and no others. Safe to repeat; needs the owner's connection.
 */
export async function grantServiceRights(pool: Pool, role: string, queueSchema: string): Promise<void> {
  await inTransaction(pool, async (sql) => {
    await sql.query(`SELECT pg_advisory_xact_lock(${RIGHTS_LOCK})`)
    const { rows: tables } = await sql.query<{ schema: string; name: string; is_queue: boolean }>({
      name: 'list_tables_to_grant',
      text: `SELECT schemaname AS schema, tablename AS name, schemaname = $1 AS is_queue FROM pg_tables
       WHERE schemaname IN (current_schema(), $1) ORDER BY 1, 2`,
      values: [queueSchema],
    })
    const to = quoted(role)
    const statements = tables.flatMap(({ schema, name, is_queue: isQueue }) => {
      const table = `${quoted(schema)}.${quoted(name)}`
      const rights = isQueue ? ALL : (RIGHTS[name] ?? ALL)
      return [`REVOKE ALL ON ${table} FROM ${to}`, `GRANT ${rights} ON ${table} TO ${to}`]
    })
    for (const schema of new Set(tables.map((table) => quoted(table.schema))))
      statements.push(
        `REVOKE CREATE ON SCHEMA ${schema} FROM PUBLIC, ${to}`,
        `GRANT USAGE ON SCHEMA ${schema} TO ${to}`,
        `GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${to}`,
      )
    await sql.query(statements.join(';\n'))
  })
}

/** Returns the roles that have such rights: what a migration adds is granted to them as well. */
export async function findServiceRoles(sql: Sql): Promise<readonly string[]> {
  const { rows } = await sql.query<{ role: string }>(
    `SELECT DISTINCT grantee::regrole::text AS role FROM pg_class, aclexplode(relacl)
     WHERE oid = to_regclass('jobs') AND privilege_type = 'INSERT' AND grantee NOT IN (0, relowner)`,
  )
  return rows.map(({ role }) => role.replace(/^"(.*)"$/, '$1').replaceAll('""', '"'))
}

/** What makes the role of a connection able to change what is recorded for good; `null` for the role of a service. */
export async function findRoleProblem(sql: Sql): Promise<string | null> {
  const { rows } = await sql.query<{ role: string; is_superuser: boolean; is_owner: boolean }>(
    `SELECT current_user AS role, rolsuper AS is_superuser,
       EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('operator_actions')
         AND pg_has_role(current_user, relowner, 'MEMBER')) AS is_owner
     FROM pg_roles WHERE rolname = current_user`,
  )
  const [found] = rows
  if (!found || !(found.is_superuser || found.is_owner)) return null
  return `the role ${found.role} is ${found.is_superuser ? 'a superuser' : 'the owner of the tables'}, who can rewrite the audit and every record; give the services a role of their own (MIGRATION_DATABASE_URL, infra/stores.md)`
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
