/** SQLSTATE classes that mean the server or the way to it is gone: connection, operator intervention, resources, cancelled. */
const UNAVAILABLE_SQL_STATES = /^(08|53|57)/
const UNAVAILABLE_SYSTEM_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])
/** node-postgres throws these without a code. */
const UNAVAILABLE_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed)/

/** Whether an error means that PostgreSQL could not be asked, so that the caller gets a 503 and no verdict. */
export function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError && error.errors.some(isConnectionFailure)) return true
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  return (
    UNAVAILABLE_SQL_STATES.test(code) || UNAVAILABLE_SYSTEM_CODES.has(code) || UNAVAILABLE_MESSAGES.test(error.message)
  )
}
