import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Operation } from './operation.ts'
import { transcriptions } from './transcriptions.ts'

/** Any operation, for code that treats all alike; each one's schemas guard what it is given. */
export type AnyOperation = Operation<unknown, JsonValue, JsonValue, JsonValue, unknown>

/** Every paid operation; the API serves exactly these. */
export const operations: readonly AnyOperation[] = [transcriptions]
