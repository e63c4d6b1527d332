import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { type AnyOperation, operations, uploadOperation } from '#shared/operations/registry.ts'
import { describedAudioSchema } from '../schemas/quotes.ts'
import { invalidField } from './field-errors.ts'
import { asObject, parseFields } from './json-body.ts'
import { type Prepared, type PreparedDescription, prepareBody, type ReadingCatalogs } from './prepare-request.ts'

/** A request to be priced, as the body of `POST /v1/quotes` contains it. */
export interface PreparedQuote {
  readonly operation: AnyOperation
  readonly prepared: Prepared
  /** Whether the answer is the challenge to sign instead of a quote. */
  readonly wantsChallenge: boolean
}

/** Strict: any other field would seem to be priced but be ignored. */
const quoteRequestSchema = z.strictObject({
  operation: z.string(),
  request: z.unknown(),
  challenge: z.boolean().default(false),
})

const descriptionSchema = z.object({ audio: describedAudioSchema })

/** Reads the parsed body of `POST /v1/quotes`. Pure. Throws the 400s of its fields and those of the endpoint. */
export function prepareQuote(given: unknown, catalogs: ReadingCatalogs): PreparedQuote {
  const { operation, body, wantsChallenge } = readEnvelope(given)
  const prepared = describesAudio(operation, body)
    ? prepareDescription(operation, body)
    : prepareBody(operation, body, catalogs)
  return { operation, prepared, wantsChallenge }
}

/** Returns the request inside a parsed body whose operation takes an upload; anything else otherwise. */
export function uploadRequestOf(given: unknown): unknown {
  const { operation, request } = (given ?? {}) as { readonly operation?: unknown; readonly request?: unknown }
  return operation === uploadOperation.id ? request : null
}

function readEnvelope(given: unknown) {
  const fields = asObject(given)
  const parsed = quoteRequestSchema.safeParse(fields)
  if (!parsed.success) throw invalidField(parsed.error, fields)
  const { operation: id, request: body, challenge: wantsChallenge } = parsed.data
  const operation = operations.find((known) => known.id === id)
  if (operation && body !== undefined) return { operation, body, wantsChallenge }
  if (operation) throw new AppError('missing_field', { param: 'request', message: 'request is required.' })
  const names = operations.map((known) => known.id).join(', ')
  throw new AppError('invalid_field', { param: 'operation', message: `operation must be one of ${names}.` })
}

function describesAudio({ upload }: AnyOperation, body: unknown): body is Record<string, unknown> {
  return upload !== null && typeof body === 'object' && body !== null && Object.hasOwn(body, 'audio')
}

function prepareDescription({ upload, bodySchema }: AnyOperation, given: Record<string, unknown>): PreparedDescription {
  const { audio, ...options } = given
  if (upload && Object.hasOwn(options, upload.jsonField))
    throw new AppError('invalid_field', {
      param: 'audio',
      message: `audio describes the recording in place of ${upload.jsonField}. Send only one of them.`,
    })
  const body = parseFields(bodySchema, options, upload?.advice)
  const { sha256, bytes, duration_ms: durationMs } = parseFields(descriptionSchema, { audio }).audio
  return { kind: 'description', body, audio: { sha256, bytes, durationMs } }
}

/** Reads the text fields of a form: those of the operation, with `operation` and `challenge` among them. */
export function quoteFormSchema({ id, bodySchema }: AnyOperation) {
  return z
    .looseObject({ operation: z.literal(id), challenge: z.boolean().default(false) })
    .transform((fields, context) => {
      const { operation: _, challenge: wantsChallenge, ...options } = fields
      const parsed = bodySchema.safeParse(options)
      if (parsed.success) return { wantsChallenge, body: parsed.data }
      context.issues.push(...(parsed.error.issues as unknown as z.core.$ZodRawIssue[]))
      return z.NEVER
    })
}
