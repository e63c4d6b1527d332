import type { AuditHead } from '#shared/operators/audit-chain.ts'
import type { Author } from '#shared/operators/author.ts'
import type { Operator } from '#shared/operators/operator-account.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readRows } from '../read-rows.ts'
import {
  addAccount,
  addFirstAccount,
  changePassword,
  changeRole,
  disableAccount,
  enableAccount,
  listAccounts,
} from './accounts.ts'
import { readAuditHead } from './read-chain.ts'
import { type NewAction, recordAction } from './record-action.ts'
import { beginSignIn, endSession, forgetFailures, openSession } from './sign-in.ts'

/**
 * The operators of the console, their sessions, and what they did. Every change of an account is recorded with its
 * author; no account is ever deleted.
 */
export type OperatorStore = ReturnType<typeof createOperatorStore>

/** Creates the store of operators, their sessions and what they did, over one pool. */
export function createOperatorStore(pool: Pool) {
  return bindTo(pool, {
    listAccounts,
    addAccount,
    addFirstAccount,
    changeRole,
    changePassword,
    disableAccount,
    enableAccount,
    beginSignIn,
    openSession,
    forgetFailures,
    useSession,
    endSession,
    readCookieSecret,
    sweepSessions,
    recordEvent: recordAction,
    readAuditHead,
    readActions,
  })
}

/** Returns what all processes of the console sign their cookies with. */
async function readCookieSecret(sql: Sql): Promise<Buffer> {
  const { rows } = await sql.query<{ secret: Buffer }>('SELECT secret FROM console_secret')
  if (!rows[0]) throw new Error('the migration wrote the secret of the console')
  return rows[0].secret
}

/** Deletes sessions that have expired, and failures that no limit counts any more. */
async function sweepSessions(sql: Sql): Promise<void> {
  await sql.query('DELETE FROM operator_sessions WHERE expires_at < now()')
  await sql.query(`DELETE FROM failed_sign_ins WHERE failed_at < now() - interval '1 day'`)
}

/**
 * Returns whose session a token stands for, and counts as its use; `null` when it has ended. Its use is written once a
 * minute, not with every request.
 */
async function useSession(sql: Sql, tokenSha256: string, idleSeconds: number): Promise<Operator | null> {
  const operator = await readFirst<Operator>(sql, {
    name: 'use_operator_session',
    text: `WITH valid AS (
         SELECT token_sha256, last_used_at, name, role FROM operator_sessions JOIN operators ON name = operator
         WHERE token_sha256 = $1 AND expires_at > now() AND last_used_at > now() - $2::int * interval '1 second'
           AND disabled_at IS NULL),
       used AS (
         UPDATE operator_sessions SET last_used_at = now() FROM valid
         WHERE operator_sessions.token_sha256 = valid.token_sha256
           AND valid.last_used_at < now() - interval '1 minute')
     SELECT name, role FROM valid`,
    values: [tokenSha256, idleSeconds],
  })
  return operator ?? null
}

/** What an operator did. */
interface OperatorAction extends Required<NewAction>, AuditHead {
  readonly id: bigint
  readonly doneAt: Date
  readonly operator: string
  readonly source: Author['source']
}

interface ActionFilter {
  readonly operator?: string | undefined
  readonly subject?: string | undefined
  readonly action?: string | undefined
}

/** An id after every action. */
const END = 9_223_372_036_854_775_807n

/** Returns at most `limit` actions, newest first, before the action `before`. Each filter has a statement of its own, so that it uses its index. */
async function readActions(
  sql: Sql,
  { operator, subject, action }: ActionFilter,
  { before, limit }: { readonly before: bigint | null; readonly limit: number },
): Promise<{ readonly actions: readonly OperatorAction[]; readonly next: bigint | null }> {
  const filters = [
    ['operator', operator],
    ['subject', subject],
    ['action', action],
  ].filter((entry): entry is [string, string] => entry[1] !== undefined)
  const rows = await readRows<OperatorAction>(sql, {
    name: ['read_operator_actions', ...filters.map(([column]) => `by_${column}`)].join('_'),
    text: `SELECT id, done_at AS "doneAt", operator, source, action, subject, reason, details, position, hash
     FROM operator_actions
     WHERE id < $1${filters.map(([column], index) => ` AND ${column} = $${index + 3}`).join('')}
     ORDER BY id DESC LIMIT $2`,
    values: [(before ?? END).toString(), limit + 1, ...filters.map(([, value]) => value)],
  })
  const actions = rows.slice(0, limit)
  return { actions, next: rows.length > limit ? (actions.at(-1)?.id ?? null) : null }
}
