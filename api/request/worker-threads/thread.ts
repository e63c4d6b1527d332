import { move, transferableSymbol, valueSymbol, workerData } from 'piscina'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { encryptUpload } from '#shared/media/staged-upload.ts'
import { operationById } from '#shared/operations/registry.ts'
import { transferableMemoryOf } from '../byte-buffer.ts'
import { parseJsonBody } from '../json-body.ts'
import { measureAudio } from '../measure-audio.ts'
import { type Prepared, prepareBody } from '../prepare-request.ts'
import { readQuoteEnvelope } from '../quote-request.ts'
import { isAvailable } from '../require-available.ts'
import { type PlainPrepared, type ThreadExports, toOutcome } from './messages.ts'

/*
 * The entry point of the worker threads, which process large bodies so that the event loop stays responsive.
 */

const { catalog } = workerData as { readonly catalog: Catalog }

/** Parses, validates, measures, digests and prices a JSON body. */
export const prepareJson: ThreadExports['prepareJson'] = ({ bytes, operationId }) => {
  const outcome = toOutcome(() => {
    const given = parseAndFree(bytes)
    const { operation, body } =
      operationId === null ? readQuoteEnvelope(given) : { operation: operationById(operationId), body: given }
    return toPlain(operation, prepareBody(operation, body, catalog))
  })
  return outcome.outcome === 'done' ? transfer(outcome, bytesOf(outcome.value)) : outcome
}

/** Hashes the file of a form, walks its frames and returns it with the result. */
export const measureFile: ThreadExports['measureFile'] = (audio) => transfer(measureAudio(audio), audio)

/** Encrypts an upload for staging. */
export const sealUpload: ThreadExports['sealUpload'] = ({ audio, stagedUpload }) => {
  const sealed = encryptUpload(stagedUpload, audio)
  return transfer(sealed, sealed)
}

/** Parses a body and frees its bytes immediately, since the parsed upload is as large again. */
function parseAndFree({ buffer, byteOffset, byteLength }: Uint8Array): unknown {
  const body = parseJsonBody(Buffer.from(buffer, byteOffset, byteLength))
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
  return body
}

function toPlain(operation: ReturnType<typeof operationById>, prepared: Prepared): PlainPrepared {
  if (prepared.kind === 'upload') return { operationId: operation.id, prepared }
  const { quote, ...request } = prepared
  const quoted = isAvailable(catalog, operation, request.publicModel) ? toOutcome(quote) : null
  return { operationId: operation.id, prepared: { ...request, quoted } }
}

function bytesOf({ prepared }: PlainPrepared): Uint8Array {
  return prepared.kind === 'upload' ? prepared.upload.audio : prepared.json
}

/** Returns `value` to the main thread and transfers the memory of `bytes` without a copy. */
function transfer<Value extends object>(value: Value, bytes: Uint8Array): Value {
  return move({ [transferableSymbol]: transferableMemoryOf(bytes), [valueSymbol]: value }) as unknown as Value
}
