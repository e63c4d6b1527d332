/** The command was not understood, or a setting is missing or wrong; nothing was begun. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'usage'
}
