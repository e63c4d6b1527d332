import { ERROR_CODES, type ErrorCode, type ErrorCodeEntry } from './error-codes.ts'

/** Details that one occurrence of an error adds to its table entry. */
export interface AppErrorDetails {
  /** Replaces the table's message; must be safe to show to anyone. */
  message?: string
  /** The request field or header that caused the error, as callers write it (`num_speakers`, `words[0].text`). */
  param?: string
  /** Seconds to wait before a retry. */
  retryAfterSeconds?: number
  /** Members of the body of a 402 or 412 that only this occurrence has. */
  members?: Readonly<Record<string, unknown>>
  /** Sent with the response, for failures that must not hide a receipt. */
  headers?: Readonly<Record<string, string>>
  cause?: unknown
}

/** An error with a code of the error table. Everything public about it comes from the table and `details`. */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly code: ErrorCode
  readonly entry: ErrorCodeEntry
  readonly param: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ErrorCode, details: AppErrorDetails = {}) {
    super(
      details.message ?? ERROR_CODES[code].message,
      details.cause === undefined ? undefined : { cause: details.cause },
    )
    this.code = code
    this.entry = ERROR_CODES[code]
    this.param = details.param
    this.retryAfterSeconds = details.retryAfterSeconds
    this.members = details.members ?? {}
    this.headers = details.headers ?? {}
  }
}
