import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { chatCompletions } from './chat-completions.ts'
import { images } from './images.ts'
import { messages } from './messages.ts'
import type { Operation, UploadField } from './operation.ts'
import { speech } from './speech.ts'
import { transcriptions } from './transcriptions.ts'

const registered = [chatCompletions, messages, images, speech, transcriptions] as const

/** The id of a registered operation. Key tables by it, so that the compiler reports an operation that is missing. */
export type OperationId = (typeof registered)[number]['id']

/** Any operation, for code that treats them all the same way; each operation's schemas validate what it receives. */
export type AnyOperation = Operation<OperationId, unknown, JsonValue, JsonValue, JsonValue, unknown>

/** Every paid operation; the API serves exactly these. */
export const operations: readonly AnyOperation[] = registered

/** An operation whose requests contain a file. */
export type UploadOperation = AnyOperation & { readonly upload: UploadField }

/** The one operation with an upload: a form that names its operation only in a field is read as one of this. */
export const uploadOperation = findUploadOperation()

function findUploadOperation(): UploadOperation {
  const [found, ...others] = operations.filter((known): known is UploadOperation => known.upload !== null)
  if (!found || others.length > 0) throw new Error('exactly one operation must have an upload')
  return found
}

/** Returns the operation with this id. Throws for an unknown id: stored jobs carry only ids that were served. */
export function operationById(id: string): AnyOperation {
  const operation = operations.find((known) => known.id === id)
  if (!operation) throw new Error(`there is no operation ${id}`)
  return operation
}
