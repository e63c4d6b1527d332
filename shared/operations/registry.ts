import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { chatCompletions } from './chat-completions.ts'
import { images } from './images.ts'
import { messages } from './messages.ts'
import type { Operation } from './operation.ts'
import { speech } from './speech.ts'
import { transcriptions } from './transcriptions.ts'

/** Any operation, for code that treats all alike; each one's schemas guard what it is given. */
export type AnyOperation = Operation<unknown, JsonValue, JsonValue, JsonValue, unknown>

/** Every paid operation; the API serves exactly these. */
export const operations: readonly AnyOperation[] = [chatCompletions, messages, images, speech, transcriptions]

/** The operation of this operationId. Throws for an id that no operation has: jobs hold only ids that were served. */
export function operationById(id: string): AnyOperation {
  const operation = operations.find((known) => known.id === id)
  if (!operation) throw new Error(`no operation is called ${id}`)
  return operation
}
