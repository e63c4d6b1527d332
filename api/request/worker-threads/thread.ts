import { move, transferableSymbol, valueSymbol, workerData } from 'piscina'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { encryptUpload } from '#shared/media/staged-upload.ts'
import { operationById } from '#shared/operations/registry.ts'
import { ownMemoryOf } from '../byte-buffer.ts'
import { parseJsonBody } from '../json-body.ts'
import { measureAudio } from '../measure-audio.ts'
import { type Prepared, prepareBody } from '../prepare-request.ts'
import { readQuoteEnvelope } from '../quote-request.ts'
import { isAvailable } from '../require-available.ts'
import { asOutcome, type PlainPrepared, type ThreadExports } from './messages.ts'

/*
 * Runs on threads of its own: what takes so long on a large body that nobody else may wait for it.
 */

const { catalog } = workerData as { readonly catalog: Catalog }

/** Parses, validates, measures, digests and prices a JSON body. */
export const prepareJson: ThreadExports['prepareJson'] = ({ bytes, operationId }) => {
  const answer = asOutcome(() => {
    const given = parseAndFree(bytes)
    const { operation, body } =
      operationId === null ? readQuoteEnvelope(given) : { operation: operationById(operationId), body: given }
    return plain(operation, prepareBody(operation, body, catalog))
  })
  return answer.outcome === 'done' ? handOver(answer, bytesOf(answer.value)) : answer
}

/** Hashes and walks the file of a form, and gives it back. */
export const measureFile: ThreadExports['measureFile'] = (audio) => handOver(measureAudio(audio), audio)

/** Seals an upload for its way to the worker. The audio itself is not needed any more. */
export const sealUpload: ThreadExports['sealUpload'] = ({ audio, stagedUpload }) => {
  const sealed = encryptUpload(stagedUpload, audio)
  return handOver(sealed, sealed)
}

/** The text of an upload is as long again as its bytes; neither waits for the garbage collector longer than it must. */
function parseAndFree({ buffer, byteOffset, byteLength }: Uint8Array): unknown {
  const body = parseJsonBody(Buffer.from(buffer, byteOffset, byteLength))
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
  return body
}

function plain(operation: ReturnType<typeof operationById>, prepared: Prepared): PlainPrepared {
  if (prepared.kind === 'upload') return { operationId: operation.id, prepared }
  const { quote, ...request } = prepared
  const quoted = isAvailable(catalog, operation, request.publicModel) ? asOutcome(quote) : null
  return { operationId: operation.id, prepared: { ...request, quoted } }
}

function bytesOf({ prepared }: PlainPrepared): Uint8Array {
  return prepared.kind === 'upload' ? prepared.upload.audio : prepared.json
}

/** Gives `value` to the main thread, and the memory of `bytes` with it, without a copy. */
function handOver<Value extends object>(value: Value, bytes: Uint8Array): Value {
  return move({ [transferableSymbol]: ownMemoryOf(bytes), [valueSymbol]: value }) as unknown as Value
}
