import { z } from 'zod'

/** The identifiers of the specification; which of them are on offer is the catalog's matter. */
export const textModelSchema = z.enum([
  'textmodel-3.6-flash',
  'textmodel-3.5-flash-lite',
  'textmodel-3.5-flash',
  'textmodel-3.1-flash-lite',
  'textmodel-2.5-flash',
  'textmodel-2.5-pro',
  'textmodel-2.5-flash-lite',
])

/** The bounds come first, so that integers beyond the safe ones are told them too. */
export const maxTokensSchema = z.number().min(1).max(65_536).int()

/** Unicode code points, which is what lengths and billed characters are counted in. */
export function countCodePoints(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) count += 1
  return count
}

/** Text whose length is bounded in code points, as JSON Schema counts it; `z.string().max()` counts UTF-16 units. */
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
 * A string or something structured. A plain union would report only that neither matched; here the fault inside the
 * structure is reported where it stands. `expected` completes "must be …".
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

/**
 * Refuses text that cannot be kept as it is, anywhere in a body: lone surrogates have no UTF-8 form, and PostgreSQL
 * stores no U+0000. Names of properties count as text too.
 */
export function refuseUnstorableText({ value, issues }: z.core.ParsePayload): void {
  const path = pathToUnstorable(value)
  if (path)
    issues.push({
      code: 'custom',
      path,
      message: 'must be valid Unicode without lone surrogates and without U+0000',
      input: value,
    })
}

function pathToUnstorable(value: unknown): PropertyKey[] | null {
  if (typeof value === 'string') return isStorable(value) ? null : []
  if (typeof value !== 'object' || value === null) return null
  for (const [key, member] of Object.entries(value)) {
    const path = isStorable(key) ? pathToUnstorable(member) : []
    if (path) return [Array.isArray(value) ? Number(key) : key, ...path]
  }
  return null
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
