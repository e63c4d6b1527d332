import { type ErrorCode, type ErrorCodeEntry, errorCodes } from './error-codes.ts'

export interface AppErrorDetails {
  /** Replaces the table's sentence; must be safe to show to a stranger. */
  message?: string
  /** The request field or header at fault, in the caller's spelling (`num_speakers`, `words[0].text`). */
  param?: string
  /** Seconds until a retry makes sense. */
  retryAfterSeconds?: number
  /** Sent with the answer, for failures that must not hide a receipt. */
  headers?: Readonly<Record<string, string>>
  cause?: unknown
}

/** A failure with a code of the error table. Everything public about it comes from the table and `details`. */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly code: ErrorCode
  readonly entry: ErrorCodeEntry
  readonly param: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ErrorCode, details: AppErrorDetails = {}) {
    super(
      details.message ?? errorCodes[code].message,
      details.cause === undefined ? undefined : { cause: details.cause },
    )
    this.code = code
    this.entry = errorCodes[code]
    this.param = details.param
    this.retryAfterSeconds = details.retryAfterSeconds
    this.headers = details.headers ?? {}
  }
}
