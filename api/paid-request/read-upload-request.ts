import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import { checkJsonStructure } from './check-json-structure.ts'
import { invalidField, missingField, repeatedField, unknownField } from './invalid-field.ts'
import { readMultipart } from './read-multipart.ts'

/** One byte, with its padding. */
const MINIMUM_BASE64_LENGTH = 4

/** One request's validated options with its upload, whichever of the two forms it came in. */
export interface UploadRequest<Options> {
  readonly options: Options
  readonly audio: Uint8Array
  /** How the caller calls the upload; errors about it name this field. */
  readonly uploadParam: string
}

/** Reads `application/json` or `multipart/form-data`; both describe the same request. Throws the 400s of the field table. */
export async function readUploadRequest<Options>(
  request: FastifyRequest,
  upload: UploadField,
  optionsSchema: z.ZodType<Options>,
): Promise<UploadRequest<Options>> {
  if (request.isMultipart()) {
    const { fields, file } = await readMultipart(request, upload)
    const options = parseOptions(optionsSchema, fields)
    if (file === null) throw missingField(upload.multipartField)
    return { options, audio: file, uploadParam: upload.multipartField }
  }
  const { [upload.jsonField]: encoded, ...fields } = asObject(request.body)
  const options = parseOptions(optionsSchema, fields)
  return { options, audio: decodeBase64(encoded, upload), uploadParam: upload.jsonField }
}

/** Parses a JSON body of raw bytes: UTF-8 only. Throws `invalid_json` and `duplicate_field`. */
export function parseJsonBody(bytes: Buffer): unknown {
  const structure = checkJsonStructure(bytes)
  if (structure.outcome === 'too_complex') throw new AppError('invalid_json', { message: structure.message })
  if (structure.outcome === 'repeated_key') throw repeatedField(structure.key)
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new AppError('invalid_json', { cause })
  }
}

function asObject(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new AppError('invalid_json', { message: 'The request body must be a JSON object.' })
  return body as Record<string, unknown>
}

function parseOptions<Options>(schema: z.ZodType<Options>, fields: Record<string, unknown>): Options {
  // JSON can name a property __proto__, which schemas pass over.
  if (Object.hasOwn(fields, '__proto__')) throw unknownField('__proto__')
  const parsed = schema.safeParse(fields)
  if (!parsed.success) throw invalidField(parsed.error, fields)
  return parsed.data
}

/**
 * Decodes canonical RFC 4648 Base64. Node decodes junk, missing padding and stray bits without complaint, so only text
 * that encodes back to itself is accepted.
 */
function decodeBase64(encoded: unknown, { jsonField, maximumBase64Length }: UploadField): Uint8Array {
  if (encoded === undefined) throw missingField(jsonField)
  if (typeof encoded !== 'string')
    throw new AppError('invalid_field', { param: jsonField, message: `${jsonField} must be a string.` })
  if (encoded.length > maximumBase64Length)
    throw new AppError('audio_too_large', {
      param: jsonField,
      message: `${jsonField} has ${encoded.length.toLocaleString('en')} characters; the limit is ${maximumBase64Length.toLocaleString('en')}.`,
    })
  if (encoded.length < MINIMUM_BASE64_LENGTH)
    throw new AppError('invalid_base64', {
      param: jsonField,
      message: `${jsonField} must have at least ${MINIMUM_BASE64_LENGTH} characters of canonical RFC 4648 Base64.`,
    })
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.length === 0 || bytes.toString('base64') !== encoded)
    throw new AppError('invalid_base64', { param: jsonField })
  return bytes
}
