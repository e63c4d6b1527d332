/** The command was not understood, or a setting is missing or wrong; nothing was begun. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'usage'
}

/** What the program ends with. */
export const EXIT = { done: 0, failed: 1, usage: 2, budget: 3, funds: 4, interrupted: 130 } as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Codes of refusals because of a price. */
const BUDGET_CODES: ReadonlySet<string> = new Set(['budget_exceeded', 'price_above_limit'])

/** Codes of errors that end when the wallet has money, permission to spend it, or no debt. */
const FUNDS_CODES: ReadonlySet<string> = new Set([
  'insufficient_funds',
  'funds_reserved',
  'permit2_allowance_required',
  'not_approved',
  'owner_has_code',
  'payer_blocked',
  'payer_has_code',
  'payer_not_deployed',
  'unpaid_debt',
  'owner_balance_too_low',
  'permits_not_stored',
])

/** Codes of errors in settings and options. */
const SETTINGS_CODES: ReadonlySet<string> = new Set([
  'no_wallet',
  'invalid_private_key',
  'invalid_url',
  'invalid_options',
  'not_offered',
  'list_unreadable',
  'url_not_fetched',
  'unknown_model',
  'limits_unusable',
])

/** Returns the exit code of a command that failed with an error. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return EXIT.usage
  if (!(error instanceof Error)) return EXIT.failed
  const code = 'code' in error ? String(error.code) : ''
  if (error.name === 'AbortError' || code === 'aborted' || code === 'interrupted') return EXIT.interrupted
  if (BUDGET_CODES.has(code)) return EXIT.budget
  if (FUNDS_CODES.has(code)) return EXIT.funds
  return SETTINGS_CODES.has(code) ? EXIT.usage : EXIT.failed
}
