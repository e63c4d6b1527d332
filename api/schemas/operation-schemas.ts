import type { AnyOperation } from '#shared/operations/registry.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'

/** Returns the schema of an operation's JSON request: its fields, and its upload, if any, as Base64. */
export function jsonRequestSchema({ bodySchema, upload }: AnyOperation): JsonSchema {
  const body = jsonSchemaOf(bodySchema, 'input')
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
export function multipartRequestSchema({ bodySchema, upload }: AnyOperation): JsonSchema | null {
  if (!upload) return null
  return withField(jsonSchemaOf(bodySchema, 'input'), upload.multipartField, {
    type: 'string',
    format: 'binary',
    contentMediaType: 'audio/mpeg',
    description: 'One MP3. File name and content type are ignored; only the bytes count.',
  })
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
