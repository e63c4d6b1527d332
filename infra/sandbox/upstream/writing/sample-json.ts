type Schema = Readonly<Record<string, unknown>>

/** Below this depth optional properties are written, and to twice this depth required ones, so that recursion ends. */
const FULL_DEPTH = 6

const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  email: 'person@example.com',
  uri: 'https://example.com/',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
}

/**
 * Returns a value of a JSON Schema with words of `prompt`; the same for the same input. Supports type (also in upper case),
 * const, enum, properties, required, items, anyOf, oneOf, allOf, local `$ref`, common formats, and lower and upper bounds.
 */
export function sampleJson(schema: unknown, prompt: string): unknown {
  const root = asSchema(schema)

  function sample(given: Schema, name: string, depth: number): unknown {
    const found = resolve(given, 0)
    const { const: fixed, enum: choices, properties, required, items, format } = found
    if (depth > 2 * FULL_DEPTH) return null
    if (fixed !== undefined) return fixed
    if (Array.isArray(choices)) return choices.find((choice) => prompt.includes(String(choice))) ?? choices[0]
    const bound = (keyword: string, otherwise: number) => Number(found[keyword] ?? otherwise)
    switch (typeOf(found)) {
      case 'object': {
        const known = asSchema(properties)
        const names = [depth < FULL_DEPTH ? Object.keys(known) : [], required ?? []].flat() as string[]
        return Object.fromEntries(names.map((each) => [each, sample(asSchema(known[each]), each, depth + 1)]))
      }
      case 'array': {
        const length = Math.min(bound('minItems', depth < FULL_DEPTH ? 2 : 0), bound('maxItems', Infinity))
        return Array.from({ length }, () => sample(asSchema(items), name, depth + 1))
      }
      case 'integer':
      case 'number': {
        const highest = Math.min(bound('maximum', Infinity), bound('exclusiveMaximum', Infinity) - 1)
        return Math.min(highest, Math.max(1, bound('minimum', 1), bound('exclusiveMinimum', 0) + 1))
      }
      case 'boolean':
        return true
      case 'null':
        return null
      default: {
        const text = FORMATS[String(format)] ?? sampleText(name, prompt)
        return text.padEnd(bound('minLength', 0), '.').slice(0, bound('maxLength', 200))
      }
    }
  }

  /** Follows `$ref` and takes the first alternative other than null; adjacent keywords still apply. */
  function resolve(given: Schema, steps: number): Schema {
    const { $ref, anyOf, oneOf, allOf, ...rest } = given
    if (steps > 20) return rest
    const alternatives = [anyOf ?? oneOf ?? []].flat().map(asSchema)
    const chosen = alternatives.find((each) => typeOf(each) !== 'null') ?? alternatives[0]
    const parts = [typeof $ref === 'string' ? pointedAt($ref) : {}, chosen ?? {}, ...[allOf ?? []].flat().map(asSchema)]
    return Object.assign({}, rest, ...parts.map((part) => resolve(part, steps + parts.length))) as Schema
  }

  function pointedAt(reference: string): Schema {
    const steps = reference.split('/').slice(1)
    return asSchema(steps.reduce<unknown>((found, step) => asSchema(found)[decodeURIComponent(step)], root))
  }

  return sample(root, '', 0)
}

function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {}
}

function typeOf({ type, properties, items }: Schema): string {
  const names = ([type ?? []].flat() as string[]).map((name) => name.toLowerCase())
  return names.find((name) => name !== 'null') ?? names[0] ?? (properties ? 'object' : items ? 'array' : 'string')
}

/** Returns the place that a prompt names for a property of that kind, otherwise its first words. */
function sampleText(name: string, prompt: string): string {
  const place = /\b(?:in|at|for|to)\s+(\p{Lu}[\p{L}'-]+(?:\s\p{Lu}[\p{L}'-]+)*)/u.exec(prompt)?.[1]
  const words = prompt.match(/[\p{L}\p{N}'-]+/gu)?.slice(0, 6) ?? []
  return (/city|place|location|town|country/i.test(name) ? place : undefined) ?? (words.join(' ') || name || 'text')
}
