/** The SQLSTATE of a write at a standby. */
const READ_ONLY = '25006'
/** SQLSTATEs of an unavailable server: connection, resources, operator intervention, a transaction that it gave up. */
const UNAVAILABLE_SQL_STATES = new RegExp(`^(08|53|57|25P03|${READ_ONLY})`)
const UNAVAILABLE_SYSTEM_CODES = new Set([
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
])
/** node-postgres throws these errors without a code; `timeout expired` for a server that accepts connections and hangs. */
const UNAVAILABLE_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired$|Query read timeout|Client has encountered a connection error|Client was closed)/

/** Returns whether an error means that PostgreSQL is unreachable, so the caller gets a 503. */
export function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError && error.errors.some(isConnectionFailure)) return true
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  // Without its server a Unix socket is a missing file.
  const isMissingSocket = code === 'ENOENT' && 'syscall' in error && error.syscall === 'connect'
  return (
    isMissingSocket ||
    UNAVAILABLE_SQL_STATES.test(code) ||
    UNAVAILABLE_SYSTEM_CODES.has(code) ||
    UNAVAILABLE_MESSAGES.test(error.message)
  )
}

/**
 * Returns whether the server is a standby, or became one in a failover, after which it may keep its connections: they are of
 * no use, and new ones may lead to the primary.
 */
export function isStandby(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === READ_ONLY
}

/**
 * Returns the first line of an error's message: further ones may quote what was sent. The error of a connection that tried
 * several addresses has only its parts' messages.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join(', ')
  return error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : 'unknown'
}
