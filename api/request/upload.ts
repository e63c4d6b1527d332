import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
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
  const body = parseFields(bodySchema, fields)
  if (file === null) throw missingField(upload.multipartField)
  return { body, audio: file, uploadParam: upload.multipartField }
}

/** Reads the same request from JSON. Throws the 400s of its fields. */
export function readJsonUpload<Body>(
  given: unknown,
  upload: UploadField,
  bodySchema: z.ZodType<Body>,
): UploadRequest<Body> {
  const { [upload.jsonField]: encoded, ...fields } = asObject(given)
  const body = parseFields(bodySchema, fields)
  return { body, audio: decodeBase64(encoded, upload), uploadParam: upload.jsonField }
}

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
  const bytes = decodeCanonicalBase64(encoded)
  if (!bytes) throw new AppError('invalid_base64', { param: jsonField })
  return bytes
}
