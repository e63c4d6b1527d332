import type { Operator } from '#shared/operators/operator-account.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readOne } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { recordAction } from './record-action.ts'

/** How often wrong passwords may be tried before an address has to wait. */
export interface SignInLimits {
  readonly windowSeconds: number
  /** For one account from one address. */
  readonly byAccountAndAddress: number
  /** From one address, whatever the account. */
  readonly byAddress: number
  /** For one account from all addresses from which nobody has signed in to it within 30 days. */
  readonly byAccount: number
  /** From one known browser, which no other limit counts and none stops until then. */
  readonly byDevice: number
}

/** A browser in which somebody has signed in to an account. */
export interface KnownDevice {
  readonly id: string
  /** When its cookie was signed. A change of the password since then makes it a stranger's. */
  readonly knownSince: Date
}

export interface SignInAttempt {
  readonly outcome: 'allowed'
  /** Counts as a failure until the sign-in succeeds, so that guesses that are sent together are counted. */
  readonly attempt: bigint
  /** The id of the known browser that it is counted for; `null` when it counts for address and account. */
  readonly device: string | null
  /** `null` for an account that does not exist or is disabled. */
  readonly account: (Operator & { readonly passwordHash: string }) | null
}

interface ThrottledSignIn {
  readonly outcome: 'throttled'
  readonly retryAfterSeconds: number
  /** `null` when there is no account of that name. */
  readonly account: string | null
}

interface NewSession {
  readonly operator: string
  readonly passwordHash: string
  readonly address: string
  readonly device: string | null
  readonly tokenSha256: string
  readonly lifetimeSeconds: number
  readonly replaces: string | null
}

/** Any number that no other advisory lock of the ledger uses. */
const SIGN_IN_LOCK = 7_402_118

/**
 * Counts a sign-in as failed until it succeeds, unless there were too many failures before. A refused one is not
 * counted: an account is open again as soon as the window has passed, however long strangers keep trying. A known browser
 * is counted alone, so that nobody at its address, and nobody who guesses its account, keeps it out.
 */
export async function beginSignIn(
  pool: Pool,
  name: string,
  { address, device }: { readonly address: string; readonly device: KnownDevice | null },
  limits: SignInLimits,
): Promise<SignInAttempt | ThrottledSignIn> {
  return await inTransaction(pool, async (sql) => {
    // Guesses that are sent together must see each other's rows.
    await sql.query(`SELECT pg_advisory_xact_lock(${SIGN_IN_LOCK})`)
    const account = await findAccount(sql, name)
    const isKnown = device !== null && account !== null && (await isTrusted(sql, device, account, limits))
    const retryAfterSeconds = isKnown ? 0 : await readWait(sql, name, address, limits)
    if (retryAfterSeconds > 0) return { outcome: 'throttled', retryAfterSeconds, account: account?.name ?? null }
    const counted = isKnown ? device.id : null
    const { id: attempt } = await readOne<{ id: bigint }>(sql, {
      name: 'begin_sign_in',
      text: 'INSERT INTO failed_sign_ins (operator, address, device) VALUES ($1, $2, $3) RETURNING id',
      values: [name, address, counted],
    })
    return { outcome: 'allowed', attempt, device: counted, account }
  })
}

/** Returns whether a known browser may still guess by itself. */
async function isTrusted(sql: Sql, { id, knownSince }: KnownDevice, account: Account, limits: SignInLimits) {
  if (account.passwordChangedAt >= knownSince) return false
  const { failures } = await readOne<{ failures: number }>(sql, {
    name: 'count_failures_of_device',
    text: `SELECT count(*)::int AS failures FROM failed_sign_ins WHERE device = $1 AND ${isRecent('$2')}`,
    values: [id, limits.windowSeconds],
  })
  return failures < limits.byDevice
}

/** Returns the seconds until the oldest of too many failures leaves the window; 0 when there are few. */
async function readWait(sql: Sql, name: string, address: string, limits: SignInLimits): Promise<number> {
  const wait = await readOne<Record<'byBoth' | 'byAddress' | 'byAccount', number | null>>(sql, {
    name: 'read_failed_sign_ins',
    text: `SELECT
       (SELECT ${secondsLeft('$3')} FROM failed_sign_ins WHERE operator = $1 AND address = $2 AND device IS NULL
          AND ${isRecent('$3')} ORDER BY failed_at DESC OFFSET $4 - 1 LIMIT 1) AS "byBoth",
       (SELECT ${secondsLeft('$3')} FROM failed_sign_ins WHERE address = $2 AND device IS NULL
          AND ${isRecent('$3')} ORDER BY failed_at DESC OFFSET $5 - 1 LIMIT 1) AS "byAddress",
       (SELECT ${secondsLeft('$3')} FROM failed_sign_ins WHERE operator = $1 AND device IS NULL
          AND ${isRecent('$3')} ORDER BY failed_at DESC OFFSET $6 - 1 LIMIT 1) AS "byAccount"`,
    values: [name, address, limits.windowSeconds, limits.byAccountAndAddress, limits.byAddress, limits.byAccount],
  })
  const own = Math.max(wait.byBoth ?? 0, wait.byAddress ?? 0)
  const ofAccount = wait.byAccount ?? 0
  if (own > 0 || ofAccount === 0) return own
  return (await isKnownAddress(sql, name, address)) ? 0 : ofAccount
}

function isRecent(windowSeconds: string): string {
  return `failed_at > now() - ${windowSeconds}::int * interval '1 second'`
}

function secondsLeft(windowSeconds: string): string {
  return `ceil(extract(epoch FROM failed_at - now()) + ${windowSeconds}::int)::int`
}

/** Strangers who guess from many addresses must not lock the account's owner out. */
async function isKnownAddress(sql: Sql, name: string, address: string): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'find_sign_in_from_address',
    text: `SELECT FROM operator_actions WHERE operator = $1 AND action = 'session.open'
       AND details ->> 'address' = $2 AND done_at > now() - interval '30 days' LIMIT 1`,
    values: [name, address],
  })
  return rowCount === 1
}

type Account = Operator & { readonly passwordHash: string; readonly passwordChangedAt: Date }

async function findAccount(sql: Sql, name: string): Promise<Account | null> {
  const account = await readFirst<Account>(sql, {
    name: 'find_operator',
    text: `SELECT name, role, password_hash AS "passwordHash", password_changed_at AS "passwordChangedAt"
     FROM operators WHERE name = $1 AND disabled_at IS NULL`,
    values: [name],
  })
  return account ?? null
}

/**
 * Opens a session and forgets the failures of this known browser, or else of this account and address. Ends the
 * session `replaces`. Returns `false`, and opens none, when the account was disabled or its password changed since
 * `passwordHash` was read.
 */
export async function openSession(pool: Pool, session: NewSession): Promise<boolean> {
  const { operator, passwordHash, address, device, tokenSha256, lifetimeSeconds, replaces } = session
  return await inTransaction(pool, async (sql) => {
    // A change of the account waits for this row, and then ends the session.
    const { rowCount } = await sql.query({
      name: 'lock_operator_of_session',
      text: 'SELECT FROM operators WHERE name = $1 AND password_hash = $2 AND disabled_at IS NULL FOR SHARE',
      values: [operator, passwordHash],
    })
    if (rowCount === 0) return false
    await forgetFailures(sql, { operator, address, device })
    if (replaces !== null) await endSession(sql, replaces)
    await sql.query({
      name: 'open_operator_session',
      text: `INSERT INTO operator_sessions (token_sha256, operator, expires_at)
       VALUES ($1, $2, now() + $3::int * interval '1 second')`,
      values: [tokenSha256, operator, lifetimeSeconds],
    })
    const author = { operator, source: 'console' } as const
    await recordAction(sql, author, { action: 'session.open', subject: operator, reason: null, details: { address } })
    return true
  })
}

/** Forgets the failures of a known browser, or else of an account and address. */
export async function forgetFailures(
  sql: Sql,
  { operator, address, device }: Pick<NewSession, 'operator' | 'address' | 'device'>,
): Promise<void> {
  await sql.query({
    name: 'forget_failed_sign_ins',
    // A known browser leaves alone what others of its address are counted for.
    text: `DELETE FROM failed_sign_ins WHERE operator = $1
       AND CASE WHEN $3::text IS NULL THEN address = $2 AND device IS NULL ELSE device = $3 END`,
    values: [operator, address, device],
  })
}

export async function endSession(sql: Sql, tokenSha256: string): Promise<void> {
  await sql.query({
    name: 'end_operator_session',
    text: 'DELETE FROM operator_sessions WHERE token_sha256 = $1',
    values: [tokenSha256],
  })
}
