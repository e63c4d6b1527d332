import { createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { Pool } from './pool.ts'
import { quoted } from './role-rights.ts'
import { withConnection } from './with-connection.ts'

/** SQLSTATEs of a login that is refused: a wrong password, and a role that may not log in at all. */
const REFUSED: ReadonlySet<unknown> = new Set(['28P01', '28000'])
/** SQLSTATEs when another process created the role in the meantime. */
const EXISTS: ReadonlySet<unknown> = new Set(['42710', '23505'])

/**
 * Makes sure that a service can log in with `serviceUrl`, and returns its role. Creates a role that does not exist, and
 * sets the password of one that cannot log in; both need `CREATEROLE`. A role that can is left as it is.
 */
export async function prepareServiceRole(owner: Pool, serviceUrl: string): Promise<string> {
  const { username, password } = new URL(serviceUrl)
  const role = decodeURIComponent(username)
  const { rows } = await owner.query<{ is_own: boolean; exists: boolean }>({
    name: 'find_service_role',
    text: 'SELECT $1 = current_user AS is_own, EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS exists',
    values: [role],
  })
  if (rows[0]?.is_own)
    throw new Error(`DATABASE_URL and MIGRATION_DATABASE_URL name the same role, ${role}; leave the latter out instead`)
  // Not the password itself, which the server could write to its log.
  const secret = `PASSWORD '${scramVerifier(decodeURIComponent(password))}'`
  if (!rows[0]?.exists)
    await owner.query(`CREATE ROLE ${quoted(role)} LOGIN NOINHERIT ${secret}`).catch((error: unknown) => {
      if (!EXISTS.has(codeOf(error))) throw error
    })
  else if (!(await canLogIn(serviceUrl))) await owner.query(`ALTER ROLE ${quoted(role)} LOGIN ${secret}`)
  return role
}

async function canLogIn(connectionString: string): Promise<boolean> {
  try {
    await withConnection({ connectionString, applicationName: 'farebox migrate' }, (pool) => pool.query('SELECT 1'))
    return true
  } catch (error) {
    if (REFUSED.has(codeOf(error))) return false
    throw error
  }
}

const ITERATIONS = 4096
const SALT_BYTES = 16

/** What PostgreSQL stores of a password (RFC 5802), so that the password itself does not leave this process. */
function scramVerifier(password: string): string {
  const salt = randomBytes(SALT_BYTES)
  const salted = pbkdf2Sync(password.normalize('NFKC'), salt, ITERATIONS, 32, 'sha256')
  const keyOf = (text: string) => createHmac('sha256', salted).update(text).digest()
  const stored = Buffer.from(sha256Hex(keyOf('Client Key')), 'hex').toString('base64')
  const server = keyOf('Server Key').toString('base64')
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString('base64')}$${stored}:${server}`
}

function codeOf(error: unknown): unknown {
  return Object(error).code
}
