import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import { invalidField } from './field-errors.ts'
import { asObject } from './json-body.ts'

/** Strict: any other field would seem to be priced but be ignored. */
const quoteRequestSchema = z.strictObject({ operation: z.string(), request: z.unknown() })

/**
 * Reads the operation and its request from the body of `POST /v1/quotes`. Throws `invalid_json` for anything but an
 * object, and the 400s of the two fields.
 */
export function readQuoteEnvelope(given: unknown): { operation: AnyOperation; body: unknown } {
  const fields = asObject(given)
  const parsed = quoteRequestSchema.safeParse(fields)
  if (!parsed.success) throw invalidField(parsed.error, fields)
  const operation = operations.find(({ id }) => id === parsed.data.operation)
  if (operation && parsed.data.request !== undefined) return { operation, body: parsed.data.request }
  if (operation) throw new AppError('missing_field', { param: 'request', message: 'request is required.' })
  const names = operations.map(({ id }) => id).join(', ')
  throw new AppError('invalid_field', { param: 'operation', message: `operation must be one of ${names}.` })
}
