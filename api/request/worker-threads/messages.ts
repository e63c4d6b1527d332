import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError, type AppErrorDetails } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { MeasuredUpload } from '../measure-audio.ts'
import type { PreparedDescription, PreparedRequest, PreparedUpload } from '../prepare-request.ts'

/** Bodies up to this size take a few milliseconds, as long as a round trip to a thread. */
export const SMALL_BODY_BYTES = 256 * 1024

/*
 * Tasks for a thread and their results, as plain data. Byte arrays are transferred: the sender can no longer use them.
 */

/** A JSON body, sent to an operation's endpoint or, with `null`, to the quotes route. */
interface JsonTask {
  readonly bytes: Uint8Array
  readonly catalog: Catalog
  readonly operationId: string | null
}

/** A JSON-RPC message. */
interface MessageTask {
  readonly bytes: Uint8Array
  readonly catalog: Catalog
}

interface EncryptionTask {
  readonly audio: Uint8Array
  readonly stagedUpload: StagedUpload
}

/** An `AppError` without its stack and cause. */
interface PlainRefusal extends AppErrorDetails {
  readonly code: ErrorCode
}

export type Outcome<Value> =
  | { readonly outcome: 'done'; readonly value: Value }
  | { readonly outcome: 'refused'; readonly refusal: PlainRefusal }

/** A `PreparedRequest` that is already priced; `quoted` is `null` for a model that is not available. */
interface PlainRequest extends Omit<PreparedRequest, 'quote'> {
  readonly quoted: Outcome<Quote<JsonValue>> | null
}

export interface PlainPrepared {
  readonly operationId: string
  readonly prepared: PlainRequest | PreparedUpload | PreparedDescription
  /** Of a quote only: whether its answer is the challenge to sign. */
  readonly wantsChallenge: boolean
}

/** A JSON-RPC message without the arguments of its tool call, and what they were prepared to. */
export interface PlainMessage {
  readonly message: unknown
  /** `null` for a message that calls none of the tools. */
  readonly prepared: Outcome<PlainPrepared> | null
}

/** A JSON body whose upload is taken out of it. */
interface UploadTask {
  readonly bytes: Uint8Array
  readonly field: Pick<UploadField, 'jsonField' | 'maximumBase64Length'>
}

/** The upload with the rest of the body, as `splitJsonUpload` returns it, or the body as it was. */
export type TakenUpload =
  | { readonly outcome: 'taken'; readonly rest: Uint8Array; readonly upload: MeasuredUpload }
  | { readonly outcome: 'left'; readonly bytes: Uint8Array }

/** The parameters and results of the functions that `thread.ts` exports. */
export interface ThreadTasks {
  readonly start: { readonly task: null; readonly result: null }
  readonly takeUpload: { readonly task: UploadTask; readonly result: TakenUpload }
  readonly prepareJson: { readonly task: JsonTask; readonly result: Outcome<PlainPrepared> }
  readonly prepareMessage: { readonly task: MessageTask; readonly result: Outcome<PlainMessage> }
  readonly measureFile: { readonly task: Uint8Array; readonly result: MeasuredUpload }
  readonly sealUpload: { readonly task: EncryptionTask; readonly result: Uint8Array }
}

/** The exports of `thread.ts`. */
export type ThreadExports = {
  [Name in keyof ThreadTasks]: (
    task: ThreadTasks[Name]['task'],
  ) => ThreadTasks[Name]['result'] | Promise<ThreadTasks[Name]['result']>
}

/** Runs `work` and returns its value, or an `AppError` as plain data; throws any other error. */
export function toOutcome<Value>(work: () => Value): Outcome<Value> {
  try {
    return { outcome: 'done', value: work() }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const { code, message, param } = error
    return { outcome: 'refused', refusal: { code, message, ...(param === undefined ? {} : { param }) } }
  }
}

/** Returns the value, or throws the `AppError` again. */
export function valueOrThrow<Value>(outcome: Outcome<Value>): Value {
  if (outcome.outcome === 'done') return outcome.value
  const { code, ...details } = outcome.refusal
  throw new AppError(code, details)
}
