import type { Author } from '#shared/operators/author.ts'
import type { Operator, Role } from '#shared/operators/operator-account.ts'
import type { Pool, Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { recordAction } from './record-action.ts'

export interface OperatorAccount extends Operator {
  readonly createdAt: Date
  readonly passwordChangedAt: Date
  /** `null` while the account may sign in. */
  readonly disabledAt: Date | null
  /** `null` without an open session. */
  readonly lastUsedAt: Date | null
}

/** `last_actor`: no account that may act would be left. */
export type AccountChange = 'changed' | 'unknown' | 'last_actor'

/** Serializes changes of accounts, so that two of them cannot disable the last two that may act. */
const LOCK_ACCOUNTS = 'LOCK TABLE operators IN SHARE ROW EXCLUSIVE MODE'

export async function listAccounts(sql: Sql): Promise<readonly OperatorAccount[]> {
  return await readRows<OperatorAccount>(sql, {
    name: 'list_operators',
    text: `SELECT name, role, created_at AS "createdAt", password_changed_at AS "passwordChangedAt",
       disabled_at AS "disabledAt",
       (SELECT max(last_used_at) FROM operator_sessions WHERE operator = name) AS "lastUsedAt"
     FROM operators ORDER BY name`,
    values: [],
  })
}

type NewAccount = Operator & { readonly passwordHash: string }

export async function addAccount(pool: Pool, account: NewAccount, author: Author): Promise<'added' | 'exists'> {
  return await inTransaction(pool, async (sql) => await insertAccount(sql, account, author))
}

/** Adds an account unless there is one of any name; processes that start together add one. */
export async function addFirstAccount(pool: Pool, account: NewAccount, author: Author): Promise<'added' | 'exists'> {
  return await inTransaction(pool, async (sql) => {
    await sql.query(LOCK_ACCOUNTS)
    const { rowCount } = await sql.query('SELECT FROM operators LIMIT 1')
    return rowCount === 0 ? await insertAccount(sql, account, author) : 'exists'
  })
}

async function insertAccount(sql: Sql, { name, role, passwordHash }: NewAccount, author: Author) {
  const { rowCount } = await sql.query({
    name: 'add_operator',
    text: 'INSERT INTO operators (name, role, password_hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
    values: [name, role, passwordHash],
  })
  if (rowCount === 0) return 'exists'
  await recordAction(sql, author, { action: 'operator.add', subject: name, reason: null, details: { role } })
  return 'added'
}

export async function changeRole(pool: Pool, name: string, role: Role, author: Author): Promise<AccountChange> {
  return await changeAccount(pool, name, {
    isLosingRole: role !== 'act',
    change: async (sql) => {
      await sql.query({
        name: 'change_operator_role',
        text: 'UPDATE operators SET role = $2 WHERE name = $1',
        values: [name, role],
      })
      await recordAction(sql, author, { action: 'operator.role', subject: name, reason: null, details: { role } })
    },
  })
}

/** Changes the password and ends the account's sessions. */
export async function changePassword(pool: Pool, name: string, hash: string, author: Author): Promise<AccountChange> {
  return await changeAccount(pool, name, {
    isLosingRole: false,
    change: async (sql) => {
      await sql.query({
        name: 'change_operator_password',
        text: 'UPDATE operators SET password_hash = $2, password_changed_at = now() WHERE name = $1',
        values: [name, hash],
      })
      await endSessionsOf(sql, name)
      await recordAction(sql, author, { action: 'operator.password', subject: name, reason: null })
    },
  })
}

/** Disables the account and ends its sessions. */
export async function disableAccount(pool: Pool, name: string, author: Author): Promise<AccountChange> {
  return await changeAccount(pool, name, {
    isLosingRole: true,
    change: async (sql) => {
      await sql.query({
        name: 'disable_operator',
        text: 'UPDATE operators SET disabled_at = coalesce(disabled_at, now()) WHERE name = $1',
        values: [name],
      })
      await endSessionsOf(sql, name)
      await recordAction(sql, author, { action: 'operator.disable', subject: name, reason: null })
    },
  })
}

export async function enableAccount(pool: Pool, name: string, author: Author): Promise<AccountChange> {
  return await changeAccount(pool, name, {
    isLosingRole: false,
    change: async (sql) => {
      await sql.query({
        name: 'enable_operator',
        text: 'UPDATE operators SET disabled_at = NULL WHERE name = $1',
        values: [name],
      })
      await recordAction(sql, author, { action: 'operator.enable', subject: name, reason: null })
    },
  })
}

interface Change {
  /** Whether the account may not act afterwards. */
  readonly isLosingRole: boolean
  readonly change: (sql: Sql) => Promise<void>
}

async function changeAccount(pool: Pool, name: string, { isLosingRole, change }: Change): Promise<AccountChange> {
  return await inTransaction(pool, async (sql) => {
    await sql.query(LOCK_ACCOUNTS)
    const { isKnown, mayAct, others } = await readOne<{ isKnown: boolean; mayAct: boolean; others: number }>(sql, {
      name: 'count_operators_that_may_act',
      text: `SELECT count(*) FILTER (WHERE name = $1) = 1 AS "isKnown",
         coalesce(bool_or(role = 'act' AND disabled_at IS NULL) FILTER (WHERE name = $1), false) AS "mayAct",
         count(*) FILTER (WHERE name <> $1 AND role = 'act' AND disabled_at IS NULL)::int AS others
       FROM operators`,
      values: [name],
    })
    if (!isKnown) return 'unknown'
    if (isLosingRole && mayAct && others === 0) return 'last_actor'
    await change(sql)
    return 'changed'
  })
}

async function endSessionsOf(sql: Sql, name: string): Promise<void> {
  await sql.query({
    name: 'end_sessions_of_operator',
    text: 'DELETE FROM operator_sessions WHERE operator = $1',
    values: [name],
  })
}
