import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { shrinkAdvice } from '#shared/audio/conversion.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { decodeCanonicalBase64 } from '#shared/operations/canonical-base64.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import type { BodyArrival } from './body-bytes.ts'
import { missingField } from './field-errors.ts'
import { asObject, parseFields } from './json-body.ts'
import { readMultipart } from './multipart.ts'

/** The length of one byte with padding. */
const MINIMUM_BASE64_LENGTH = 4

/** The validated fields of a request with its upload, from a form or from JSON. */
export interface UploadRequest<Body> {
  readonly body: Body
  readonly audio: Uint8Array
  /** The field that the upload was sent in; errors about the upload name it. */
  readonly uploadParam: string
}

/** Reads the form. Throws the 400s of its fields. */
export async function readMultipartRequest<Body>(
  request: FastifyRequest,
  upload: UploadField,
  bodySchema: z.ZodType<Body>,
  arrival: BodyArrival,
): Promise<UploadRequest<Body>> {
  const { fields, file } = await readMultipart(request, upload, arrival)
  const body = parseFields(bodySchema, fields, upload.advice)
  if (file === null) throw missingField(upload.multipartField, `the MP3 as a file part of the form`)
  return { body, audio: file, uploadParam: upload.multipartField }
}

/**
 * Reads the same request from JSON, whose upload `parseJsonWithUpload` may have decoded already. Throws the 400s of its
 * fields.
 */
export function readJsonUpload<Body>(
  given: unknown,
  upload: UploadField,
  bodySchema: z.ZodType<Body>,
): UploadRequest<Body> {
  const { [upload.jsonField]: encoded, ...fields } = asObject(given)
  const body = parseFields(bodySchema, fields, upload.advice)
  return { body, audio: decodeBase64(encoded, upload), uploadParam: upload.jsonField }
}

function decodeBase64(encoded: unknown, upload: UploadField): Uint8Array {
  const { jsonField, maximumBase64Length } = upload
  if (encoded === undefined) throw missingField(jsonField, 'the MP3 as Base64')
  if (encoded instanceof Uint8Array) return encoded
  if (typeof encoded !== 'string')
    throw new AppError('invalid_field', { param: jsonField, message: `${jsonField} must be a string.` })
  if (encoded.length > maximumBase64Length)
    throw new AppError('audio_too_large', {
      param: jsonField,
      message: `${jsonField} has ${encoded.length.toLocaleString('en')} characters; the limit is ${maximumBase64Length.toLocaleString('en')}. ${shrinkAdvice(upload)}`,
    })
  if (encoded.length < MINIMUM_BASE64_LENGTH)
    throw new AppError('invalid_base64', {
      param: jsonField,
      message: `${jsonField} must have at least ${MINIMUM_BASE64_LENGTH} characters of canonical RFC 4648 Base64.`,
    })
  const bytes = decodeCanonicalBase64(encoded)
  if (!bytes)
    throw new AppError('invalid_base64', { param: jsonField, message: `${jsonField} ${base64Fault(encoded)}` })
  return bytes
}

const BASE64_COMMAND = 'base64 -w0 < input.mp3'

/** What clients send instead of canonical Base64, with what to send. */
const BASE64_FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^data:/i, 'begins with a data-URL prefix. Send only what follows its comma.'],
  [/\s/, `contains whitespace or line breaks. Send it as one line: ${BASE64_COMMAND}`],
  [/[-_]/, 'uses the URL-safe alphabet. Use the standard one, with + and /.'],
]

function base64Fault(encoded: string): string {
  const [, fault] = BASE64_FAULTS.find(([pattern]) => pattern.test(encoded)) ?? []
  if (fault !== undefined) return fault
  return encoded.length % 4 === 0
    ? `must be canonical RFC 4648 Base64 of the MP3. Encode it with: ${BASE64_COMMAND}`
    : 'must have a multiple of four characters. Pad it with =, and send all of it.'
}
