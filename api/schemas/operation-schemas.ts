import type { AnyOperation } from '#shared/operations/registry.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'

/** The JSON request of an operation: its own fields, and the upload as Base64 where it has one. */
export function jsonRequestSchema({ bodySchema, upload }: AnyOperation): JsonSchema {
  const body = jsonSchemaOf(bodySchema, 'input')
  if (!upload) return body
  return withField(body, upload.jsonField, {
    type: 'string',
    contentEncoding: 'base64',
    contentMediaType: 'audio/mpeg',
    minLength: 4,
    maxLength: upload.maximumBase64Length,
    description: 'Canonical RFC 4648 Base64 of one MP3: no data-URL prefix, no whitespace.',
  })
}

/** The `multipart/form-data` request of an operation with an upload, or `null`. Other fields keep their JSON types. */
export function multipartRequestSchema({ bodySchema, upload }: AnyOperation): JsonSchema | null {
  if (!upload) return null
  return withField(jsonSchemaOf(bodySchema, 'input'), upload.multipartField, {
    type: 'string',
    format: 'binary',
    contentMediaType: 'audio/mpeg',
    description: 'One MP3. File name and part type are ignored; the bytes decide.',
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
