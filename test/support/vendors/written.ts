import { JsonSource } from '#shared/json/json-source.ts'

/** Returns a schema as a caller would have written it. */
export function written(schema: object): JsonSource {
  return new JsonSource(JSON.stringify(schema))
}
