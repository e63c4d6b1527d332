import { z } from 'zod'
import { textModels } from '#shared/catalog/published-models.ts'
import { pathToInfinity, pathToUnstorable } from '#shared/json/untrusted-json.ts'

/**
 * Body limit of operations whose requests contain one bounded text: 4,000 code points, each fully escaped, and the
 * rest.
 */
export const SHORT_BODY_BYTES = 256 * 1024

/** Every published text model; the catalog decides which of them are available. */
export const textModelSchema = z.enum(textModels.map(({ id }) => id))

/** The bounds come first, so that their message also covers integers beyond the safe ones. */
export const maxTokensSchema = z.number().min(1).max(65_536).int()

/** Counts Unicode code points, the unit of lengths and billed characters. */
export function countCodePoints(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) count += 1
  return count
}

/**
 * Creates a schema whose length is bounded in code points, like JSON Schema's; `z.string().max()` counts UTF-16 units.
 */
export function textOfCodePoints(minimum: number, maximum: number): z.ZodType<string> {
  return z
    .string()
    .check(({ value, issues }) => {
      const count = countCodePoints(value)
      const bound = { origin: 'string', inclusive: true, input: value } as const
      if (count < minimum) issues.push({ code: 'too_small', minimum, ...bound })
      if (count > maximum) issues.push({ code: 'too_big', maximum, ...bound })
    })
    .meta({ minLength: minimum, maxLength: maximum })
}

/**
 * Creates a schema of a string or an array. A plain union would only report that neither matched; this one reports the
 * error inside the array at its path. `expected` completes "must be …".
 */
export function stringOr<T>(structured: z.ZodType<T>, expected: string): z.ZodType<string | T> {
  const { $schema: _, ...jsonSchema } = z.toJSONSchema(z.union([z.string(), structured]), { io: 'input' })
  const schema = z
    .unknown()
    .check(({ value, issues }) => {
      if (typeof value === 'string') return
      if (!Array.isArray(value)) {
        issues.push({ code: 'custom', message: `must be ${expected}`, input: value })
        return
      }
      for (const issue of structured.safeParse(value).error?.issues ?? [])
        issues.push({ ...issue, input: value } as z.core.$ZodRawIssue)
    })
    .meta(jsonSchema)
  return schema as z.ZodType<string | T>
}

/** Rejects text and numbers that cannot be stored unchanged, anywhere in a body. */
export function refuseUnstorable({ value, issues }: z.core.ParsePayload): void {
  const refuse = (path: PropertyKey[] | null, message: string) => {
    if (path) issues.push({ code: 'custom', path, message, input: value })
  }
  refuse(pathToUnstorable(value), 'must be valid Unicode without lone surrogates and without U+0000')
  refuse(pathToInfinity(value), 'must be a number below 1e309')
}
