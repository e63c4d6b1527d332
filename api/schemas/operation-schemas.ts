import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'

/** Returns the schema of an operation's JSON request: its fields, and its upload, if any, as Base64. */
export function jsonRequestSchema(operation: AnyOperation, catalog: Catalog): JsonSchema {
  const body = fieldsSchema(operation, catalog)
  const { upload } = operation
  if (!upload) return body
  return withField(body, upload.jsonField, {
    type: 'string',
    contentEncoding: 'base64',
    contentMediaType: 'audio/mpeg',
    minLength: 4,
    maxLength: upload.maximumBase64Length,
    description: 'One MP3 in canonical RFC 4648 Base64, without data-URL prefix or whitespace.',
  })
}

/**
 * Returns the schema of the `multipart/form-data` request, or `null` for an operation without upload. Other fields keep
 * their JSON types.
 */
export function multipartRequestSchema(operation: AnyOperation, catalog: Catalog): JsonSchema | null {
  const { upload } = operation
  if (!upload) return null
  return withField(fieldsSchema(operation, catalog), upload.multipartField, {
    type: 'string',
    format: 'binary',
    contentMediaType: 'audio/mpeg',
    description: 'One MP3. File name and content type are ignored; only the bytes count.',
  })
}

/** Returns the schema of the fields other than the upload, with the catalog's defaults. */
function fieldsSchema({ bodySchema, catalogDefaults }: AnyOperation, catalog: Catalog): JsonSchema {
  const schema = jsonSchemaOf(bodySchema, 'input')
  const defaults = Object.entries(catalogDefaults?.(catalog) ?? {})
  if (defaults.length === 0) return schema
  const properties = schema['properties'] as Record<string, JsonSchema>
  const changed = defaults.map(([name, value]) => [name, { ...properties[name], default: value }])
  return { ...schema, properties: { ...properties, ...Object.fromEntries(changed) } }
}

export function resultSchemaOf({ resultSchema }: AnyOperation): JsonSchema {
  return jsonSchemaOf(resultSchema, 'output')
}

function withField(schema: JsonSchema, name: string, field: JsonSchema): JsonSchema {
  const required = (schema['required'] ?? []) as readonly string[]
  return {
    ...schema,
    properties: { [name]: field, ...(schema['properties'] as JsonSchema) },
    required: [name, ...required],
  }
}

/** Returns the example of a JSON request, for a model of the catalog: the operator may not serve the usual one. */
export function exampleRequest(
  { requestExample, category }: AnyOperation,
  catalog: Catalog,
): Readonly<Record<string, JsonValue>> {
  const served = catalog.models.filter((model) => model.category === category)
  const [first] = served
  if (first === undefined || served.some(({ id }) => id === requestExample['model'])) return requestExample
  return { ...requestExample, model: first.id }
}
