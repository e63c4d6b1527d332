import type { Multipart } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { shrinkAdvice } from '#shared/audio/conversion.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import { type BodyArrival, collectBytes } from './body-bytes.ts'
import { missingField, quoted, repeatedField, shortName } from './field-errors.ts'
import { parseFields } from './json-body.ts'
import type { UploadRequest } from './json-upload.ts'

/** Longer than any option of any endpoint. */
const MAXIMUM_FIELD_BYTES = 4096
const MAXIMUM_FIELDS = 32
/** Replaces bytes that are not UTF-8 when text is decoded. */
const REPLACEMENT_CHARACTER = '\uFFFD'

/** Reads the fields and the upload of a form. Throws the 400s of its fields, and as `readMultipart`. */
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
 * Reads a form with one file and text fields. Converts text to the types of the JSON request, booleans and integers;
 * text that cannot be converted is left for validation to reject. `file` is `null` when none was sent. Throws what
 * `arrival` throws or reports.
 */
export async function readMultipart(
  request: FastifyRequest,
  upload: UploadField,
  arrival: BodyArrival,
): Promise<{ fields: Record<string, unknown>; file: Uint8Array | null }> {
  const fields: Record<string, unknown> = {}
  let file: Uint8Array | null = null
  const delimiters = createDelimiterCounter(request.headers['content-type'] ?? '')
  const drainRest = enforceBodyLimit(request, arrival, delimiters)
  let parts = 0
  try {
    for await (const part of request.parts(partLimits(upload))) {
      parts += 1
      // Undefined for a part without a name, which the type does not say.
      const name = part.fieldname as string | undefined
      if (name === undefined)
        throw new AppError('invalid_multipart', {
          message: 'A part of the form has no name. Name each after its field.',
        })
      const isFile = part.type === 'file'
      if (isFile && name !== upload.multipartField) throw unexpectedFile(name, upload)
      if (isFile ? file !== null : Object.hasOwn(fields, name)) throw repeatedField(name)
      if (isFile) file = await readFile(part, upload, request.headers['content-length'])
      else fields[name] = readField(part, upload)
    }
    // An option that was lost would change what is sold.
    if (delimiters.total() !== parts + 1)
      throw new AppError('invalid_multipart', {
        message: 'A part of the multipart body could not be read. Check its delimiter line and its headers.',
      })
    return { fields, file }
  } catch (cause) {
    throw toAppError(cause)
  } finally {
    drainRest()
  }
}

function partLimits(upload: UploadField) {
  return {
    limits: {
      fileSize: upload.maximumBytes,
      fieldSize: MAXIMUM_FIELD_BYTES,
      fields: MAXIMUM_FIELDS,
      // One more than allowed, so that the error can name the second one.
      files: 2,
    },
    throwFileSizeLimit: false,
    // Clients may omit the file name: the field name identifies the file.
    isPartAFile: (name: string | undefined, _type: string | undefined, fileName: string | undefined) =>
      name === upload.multipartField || fileName !== undefined,
  }
}

/**
 * Enforces the body limit, which Fastify does not apply to forms, since they are parsed as they arrive. A client that
 * is rejected early is still sending: the returned function discards the rest of a body of valid length, so that the
 * response is not lost. A body that is too long is cut off by the error handling, after the client has had time to read
 * the response.
 */
function enforceBodyLimit(
  { raw, headers, routeOptions: { bodyLimit } }: FastifyRequest,
  arrival: BodyArrival,
  delimiters: DelimiterCounter,
): () => void {
  const tooLarge = new AppError('body_too_large')
  if (Number(headers['content-length']) > bodyLimit) throw tooLarge
  let arrivedBytes = 0
  let isRead = false
  let isRefused = false
  const refuse = (error: unknown) => {
    if (isRead || isRefused) return
    isRefused = true
    // The form parser listens for errors and fails with this one.
    raw.emit('error', error)
  }
  arrival.onTooSlow(refuse)
  raw.on('data', (chunk: Buffer) => {
    arrivedBytes += chunk.length
    if (isRefused) return
    if (isRead) {
      if (arrivedBytes > bodyLimit) raw.destroy()
      return
    }
    try {
      if (arrivedBytes > bodyLimit) throw tooLarge
      arrival.count(arrivedBytes)
      delimiters.add(chunk)
    } catch (error) {
      refuse(error)
    }
  })
  return () => {
    isRead = true
    raw.unpipe()
    if (arrivedBytes <= bodyLimit) raw.resume()
  }
}

/** What the parser's errors mean where the form can be read. Source: @fastify/multipart 10, `index.js`. */
const MESSAGES: ReadonlyMap<unknown, string> = new Map([
  ['FST_FIELDS_LIMIT', `The form has more than ${MAXIMUM_FIELDS} fields besides the file.`],
  [
    'FST_INVALID_JSON_FIELD_ERROR',
    `A field of the form that is declared as application/json is not valid JSON of at most ${MAXIMUM_FIELD_BYTES} bytes. Fields need no content-type.`,
  ],
])

/** Converts a parser error to a 400: only the caller's bytes are involved in reading a form. */
function toAppError(cause: unknown): AppError {
  if (cause instanceof AppError) return cause
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  // The parser rejects names like `constructor`.
  if (code === 'FST_PROTO_VIOLATION') return new AppError('unknown_field', { cause })
  const message = MESSAGES.get(code)
  return new AppError('invalid_multipart', { ...(message !== undefined && { message }), cause })
}

async function readFile(
  part: Extract<Multipart, { type: 'file' }>,
  upload: UploadField,
  announced: string | undefined,
): Promise<Uint8Array> {
  const tooLarge = new AppError('audio_too_large', {
    param: upload.multipartField,
    message: `The ${upload.multipartField} exceeds the limit of ${upload.maximumBytes.toLocaleString('en')} bytes. ${shrinkAdvice(upload)}`,
  })
  // Immediately, not after the rest of the part has arrived.
  part.file.once('limit', () => part.file.destroy(tooLarge))
  const collected = collectBytes(Math.min(Number(announced ?? Number.POSITIVE_INFINITY), upload.maximumBytes))
  try {
    for await (const chunk of part.file) collected.add(chunk as Buffer)
    if (part.file.truncated) throw tooLarge
    return collected.toBuffer()
  } catch (error) {
    collected.discard()
    throw error
  }
}

function readField(part: Extract<Multipart, { type: 'field' }>, { formTypes }: UploadField): unknown {
  const { fieldname: name, value } = part
  if (part.valueTruncated)
    throw new AppError('invalid_field', {
      param: shortName(name),
      message: `${shortName(name)} has more than ${MAXIMUM_FIELD_BYTES} bytes.`,
    })
  // A part with content type JSON is already parsed; validation checks its type.
  if (typeof value !== 'string') return value
  if (value.includes(REPLACEMENT_CHARACTER))
    throw new AppError('invalid_field', { param: shortName(name), message: `${shortName(name)} must be valid UTF-8.` })
  return typedValue(value, formTypes[name])
}

function typedValue(text: string, type: 'boolean' | 'integer' | undefined): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  if (type === 'integer' && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
  return text
}

function unexpectedFile(name: string, { multipartField }: UploadField): AppError {
  return new AppError('unknown_field', {
    param: shortName(name),
    message: `${quoted(name)} is not a file of this endpoint. Name the file part ${JSON.stringify(multipartField)}.`,
  })
}

type DelimiterCounter = ReturnType<typeof createDelimiterCounter>

/**
 * Creates the counter of the delimiter lines of a form as it arrives, the closing one included. The form parser drops a
 * part whose delimiter line has blanks at its end (which RFC 2046, 5.1.1, allows) or whose head is unusable, without an
 * error: only the count reveals it.
 */
export function createDelimiterCounter(contentType: string) {
  const [, quoted, plain] = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(contentType) ?? []
  const delimiter = Buffer.from(`\r\n--${quoted ?? plain ?? ''}`, 'latin1')
  // The first delimiter may be the start of the body.
  let tail = Buffer.from('\r\n')
  let total = 0
  return {
    add: (chunk: Buffer) => {
      const border = Buffer.concat([tail, chunk.subarray(0, delimiter.length - 1)])
      total += countOf(delimiter, border) + countOf(delimiter, chunk)
      tail = Buffer.from(Buffer.concat([tail, chunk.subarray(-delimiter.length)]).subarray(1 - delimiter.length))
    },
    total: () => total,
  }
}

function countOf(needle: Buffer, bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + needle.length)) count += 1
  return count
}
