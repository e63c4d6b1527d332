import type { Catalog } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { operationById, uploadOperation } from '#shared/operations/registry.ts'
import { parseJsonBody } from '../json-body.ts'
import { parseJsonWithUpload } from '../json-upload.ts'
import { isAvailable, prepareBody, type ReadingCatalogs } from '../prepare-request.ts'
import { type PreparedQuote, prepareQuote, uploadRequestOf } from '../quote-request.ts'
import { prepareCall, recordingHolderOf, type ToolCall, toolCallOf, withoutArguments } from '../tool-call.ts'
import {
  type Outcome,
  type PlainMessage,
  type PlainPrepared,
  SMALL_BODY_BYTES,
  type ThreadExports,
  toOutcome,
} from './messages.ts'
import { asBuffer, free, transfer } from './transfers.ts'

/*
 * What needs the schemas and prices of the operations, which take longer to load than most bodies to be read.
 */

/** Parses, validates, measures, digests and prices a JSON body. */
export const prepareJson: ThreadExports['prepareJson'] = async ({ bytes, operationId, catalog }) => {
  const outcome =
    prepareUpload(bytes, operationId, catalog) ?? toOutcome(() => prepare(parseAndFree(bytes), operationId, catalog))
  return outcome.outcome === 'done' ? transfer(outcome, bytesOf(outcome.value)) : outcome
}

/** Parses a JSON-RPC message, and does the same with the arguments of its tool call. */
export const prepareMessage: ThreadExports['prepareMessage'] = async ({ bytes, catalog }) => {
  const outcome = toOutcome(() => readMessage(bytes, catalog))
  const prepared = outcome.outcome === 'done' ? outcome.value.prepared : null
  return prepared?.outcome === 'done' ? transfer(outcome, bytesOf(prepared.value)) : outcome
}

/** Prepares a request with a large upload. Returns `null` for any other, and for one that is not accepted. */
function prepareUpload(bytes: Uint8Array, operationId: string | null, catalog: Catalog): Outcome<PlainPrepared> | null {
  const { upload } = operationId === null ? uploadOperation : operationById(operationId)
  const holderOf = operationId === null ? uploadRequestOf : (parsed: unknown) => parsed
  const given = upload && parseJsonWithUpload(asBuffer(bytes), upload, holderOf)
  if (given === null) return null
  const outcome = toOutcome(() => prepare(given, operationId, catalog))
  if (outcome.outcome === 'refused' || outcome.value.prepared.kind !== 'upload') return null
  free(bytes)
  return outcome
}

function readMessage(bytes: Uint8Array, catalog: Catalog): PlainMessage {
  const given = parseJsonWithUpload(asBuffer(bytes), uploadOperation.upload, recordingHolderOf)
  const read = given === null ? null : splitMessage(given, catalog)
  // Anything else is judged by its text.
  if (read?.prepared?.outcome !== 'done' || read.prepared.value.prepared.kind !== 'upload')
    return splitMessage(parseAndFree(bytes), catalog)
  free(bytes)
  return read
}

function splitMessage(given: unknown, catalog: Catalog): PlainMessage {
  const message = withoutArguments(given)
  requireShort(message, SMALL_BODY_BYTES, 'Only the arguments of a tool may be this long.')
  const call = toolCallOf(given)
  return { message, prepared: call && toOutcome(() => prepareArguments(call, catalog)) }
}

function prepareArguments(call: ToolCall, catalog: Catalog): PlainPrepared {
  const prepared = prepareCall(call, catalogsOf(catalog))
  const { bodyLimitBytes } = prepared.operation
  if (bodyLimitBytes !== null)
    requireShort(call.arguments, bodyLimitBytes, `The arguments of this tool may have ${bodyLimitBytes} bytes.`)
  return toPlain(prepared, catalog)
}

function requireShort(value: unknown, limitBytes: number, message: string): void {
  if (JSON.stringify(value).length > limitBytes) throw new AppError('body_too_large', { message })
}

/** Parses a body and frees its bytes immediately, since the parsed upload is as large again. */
function parseAndFree(bytes: Uint8Array): unknown {
  const body = parseJsonBody(asBuffer(bytes))
  free(bytes)
  return body
}

function prepare(given: unknown, operationId: string | null, catalog: Catalog): PlainPrepared {
  const catalogs = catalogsOf(catalog)
  if (operationId === null) return toPlain(prepareQuote(given, catalogs), catalog)
  const operation = operationById(operationId)
  return toPlain({ operation, prepared: prepareBody(operation, given, catalogs), wantsChallenge: false }, catalog)
}

function catalogsOf(catalog: Catalog): ReadingCatalogs {
  return { read: catalog, offered: () => catalog }
}

function toPlain({ operation, prepared, wantsChallenge }: PreparedQuote, catalog: Catalog): PlainPrepared {
  if (prepared.kind !== 'request') return { operationId: operation.id, prepared, wantsChallenge }
  const { quote, ...request } = prepared
  const quoted = isAvailable(catalog, operation, request.publicModel) ? toOutcome(quote) : null
  return { operationId: operation.id, prepared: { ...request, quoted }, wantsChallenge }
}

function bytesOf({ prepared }: PlainPrepared): Uint8Array {
  switch (prepared.kind) {
    case 'request':
      return prepared.json
    case 'upload':
      return prepared.upload.audio
    case 'description':
      return new Uint8Array()
  }
}
