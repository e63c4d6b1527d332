import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError, type AppErrorDetails } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { MeasuredUpload } from '../measure-audio.ts'
import type { PreparedRequest, PreparedUpload } from '../prepare-request.ts'

/*
 * What goes to a thread and comes back, as plain data. Byte arrays change hands: whoever sends one has it no more.
 */

/** A whole JSON body: of an operation's endpoint, or, with `null`, of the route for quotes. */
export interface JsonTask {
  readonly bytes: Uint8Array
  readonly operationId: string | null
}

export interface EncryptionTask {
  readonly audio: Uint8Array
  readonly stagedUpload: StagedUpload
}

/** An `AppError` without its stack and cause. */
export interface PlainRefusal extends AppErrorDetails {
  readonly code: ErrorCode
}

export type Outcome<Value> =
  | { readonly outcome: 'done'; readonly value: Value }
  | { readonly outcome: 'refused'; readonly refusal: PlainRefusal }

/** As `PreparedRequest`, priced already; `null` of a model that is not available. */
export interface PlainRequest extends Omit<PreparedRequest, 'quote'> {
  readonly quoted: Outcome<Quote<JsonValue>> | null
}

export interface PlainPrepared {
  readonly operationId: string
  readonly prepared: PlainRequest | PreparedUpload
}

/** What the exports of `thread.ts` are given and give. */
export interface ThreadTasks {
  readonly prepareJson: { readonly task: JsonTask; readonly answer: Outcome<PlainPrepared> }
  readonly measureFile: { readonly task: Uint8Array; readonly answer: MeasuredUpload }
  readonly sealUpload: { readonly task: EncryptionTask; readonly answer: Uint8Array }
}

/** What `thread.ts` exports. */
export type ThreadExports = {
  [Name in keyof ThreadTasks]: (task: ThreadTasks[Name]['task']) => ThreadTasks[Name]['answer']
}

/** Runs `work`; a refusal of the request becomes data, everything else is thrown. */
export function asOutcome<Value>(work: () => Value): Outcome<Value> {
  try {
    return { outcome: 'done', value: work() }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const { code, message, param } = error
    return { outcome: 'refused', refusal: { code, message, ...(param === undefined ? {} : { param }) } }
  }
}

/** The value, or the refusal thrown as it was on the thread. */
export function valueOf<Value>(outcome: Outcome<Value>): Value {
  if (outcome.outcome === 'done') return outcome.value
  const { code, ...details } = outcome.refusal
  throw new AppError(code, details)
}
