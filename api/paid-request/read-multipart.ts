import type { Multipart } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import { unknownField } from './invalid-field.ts'

/** No option of any endpoint is longer. */
const MAXIMUM_FIELD_BYTES = 4096
const MAXIMUM_FIELDS = 32

/**
 * Reads a form with one file and options as text. Form text becomes the types of the JSON form: `true` and `false` for
 * booleans, digits for integers; other text is left for validation to refuse. `file` is `null` when none was sent.
 */
export async function readMultipart(
  request: FastifyRequest,
  upload: UploadField,
): Promise<{ fields: Record<string, unknown>; file: Uint8Array | null }> {
  const fields: Record<string, unknown> = {}
  let file: Uint8Array | null = null
  for await (const part of partsOf(request, upload)) {
    if (part.type === 'file') {
      if (part.fieldname !== upload.multipartField) throw unknownField(part.fieldname)
      if (file !== null) throw repeated(part.fieldname)
      file = await readFile(part, upload)
    } else {
      if (Object.hasOwn(fields, part.fieldname)) throw repeated(part.fieldname)
      if (part.valueTruncated || typeof part.value !== 'string')
        throw new AppError('invalid_field', {
          param: part.fieldname,
          message: `${part.fieldname} has more than ${MAXIMUM_FIELD_BYTES} bytes.`,
        })
      fields[part.fieldname] = typedValue(part.value, upload.formTypes[part.fieldname])
    }
  }
  return { fields, file }
}

/** A broken form is the caller's fault; everything else that happens while reading keeps its own error. */
async function* partsOf(request: FastifyRequest, upload: UploadField): AsyncGenerator<Multipart> {
  const limits = {
    fileSize: upload.maximumBytes,
    fieldSize: MAXIMUM_FIELD_BYTES,
    fields: MAXIMUM_FIELDS,
    // One more than allowed, so that the second one can be named in the refusal.
    files: 2,
  }
  // Clients may leave out the file name; the field's name says that it is the file.
  const isPartAFile = (name: string | undefined, _type: string | undefined, fileName: string | undefined) =>
    name === upload.multipartField || fileName !== undefined
  try {
    yield* request.parts({ limits, isPartAFile })
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    throw new AppError('invalid_multipart', { cause })
  }
}

async function readFile(part: Extract<Multipart, { type: 'file' }>, upload: UploadField): Promise<Uint8Array> {
  const chunks: Buffer[] = []
  for await (const chunk of part.file) chunks.push(chunk as Buffer)
  if (part.file.truncated)
    throw new AppError('audio_too_large', {
      param: upload.multipartField,
      message: `The file has more than ${upload.maximumBytes.toLocaleString('en')} bytes, which is the limit.`,
    })
  return Buffer.concat(chunks)
}

function typedValue(text: string, type: 'boolean' | 'integer' | undefined): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text)
  return text
}

function repeated(name: string): AppError {
  return new AppError('duplicate_field', { param: name, message: `${name} was sent more than once.` })
}
