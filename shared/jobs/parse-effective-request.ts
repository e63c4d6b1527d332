import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { parseKeepingSources } from '#shared/json/json-source.ts'
import { WRITTEN_MEMBERS } from '#shared/operations/text/text-request.ts'

/** Reads the effective request of a job from its stored text. Throws `SyntaxError` when that is not JSON. */
export function parseEffectiveRequest(text: string): JsonValue {
  return parseKeepingSources(text, WRITTEN_MEMBERS) as JsonValue
}
