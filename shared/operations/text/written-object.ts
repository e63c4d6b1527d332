import { z } from 'zod'
import { type JsonSource, sourceOf } from '#shared/json/json-source.ts'

/** The schema of a JSON object of any members that is only passed through, as it was written. */
export const writtenObjectSchema = z
  .unknown()
  .check(({ value, issues }) => {
    if (!sourceOf(value)) issues.push({ code: 'invalid_type', expected: 'record', input: value })
  })
  .overwrite((value) => sourceOf(value) ?? value)
  .meta({ type: 'object', propertyNames: { type: 'string' }, additionalProperties: {} }) as z.ZodType<JsonSource>
