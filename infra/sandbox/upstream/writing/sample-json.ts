import { createHash } from 'node:crypto'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }
interface Schema {
  readonly [keyword: string]: unknown
}

interface Sampling {
  readonly root: Schema
  /** The source of the values, so that they depend on the prompt. */
  readonly prompt: string
}

/** Below this depth optional properties are omitted, and below twice this depth everything, so that recursion ends. */
const FULL_DEPTH = 6

/**
 * Returns a value that is valid for a JSON Schema, built from the words of `prompt`; the same for the same input. Supports type
 * (also in upper case), const, enum, properties, required, items, prefixItems, anyOf, oneOf, allOf, local `$ref`, the bounds
 * of numbers, strings and arrays, the common formats, and a pattern if one of a few ordinary strings matches it.
 */
export function sampleJson(schema: unknown, prompt: string): Json {
  const root = asSchema(schema)
  return sample(root, '', 0, { root, prompt })
}

/** Returns a value like {@link sampleJson} that must be an object, such as a tool's arguments. */
export function sampleObject(schema: unknown, prompt: string): { [key: string]: Json } {
  const value = sampleJson({ ...asSchema(schema), type: 'object' }, prompt)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

function sample(given: Schema, name: string, depth: number, sampling: Sampling): Json {
  const schema = resolve(given, sampling, 0)
  if (depth > 2 * FULL_DEPTH) return null
  if (schema['const'] !== undefined) return schema['const'] as Json
  const choices = schema['enum']
  if (Array.isArray(choices) && choices.length > 0) return choose(choices as Json[], name, sampling)
  switch (typeOf(schema)) {
    case 'object':
      return sampleProperties(schema, depth, sampling)
    case 'array':
      return sampleItems(schema, name, depth, sampling)
    case 'integer':
      return sampleNumber(schema, 1)
    case 'number':
      return sampleNumber(schema, 0.5)
    case 'boolean':
      return hash(sampling.prompt + name) % 2 === 0
    case 'null':
      return null
    default:
      return sampleString(schema, name, sampling)
  }
}

/** Follows `$ref` and takes the first usable alternative; adjacent keywords still apply. */
function resolve(given: Schema, sampling: Sampling, steps: number): Schema {
  if (steps > 20) return {}
  const { $ref, anyOf, oneOf, allOf, ...rest } = given
  if (typeof $ref === 'string') return resolve({ ...pointedAt($ref, sampling.root), ...rest }, sampling, steps + 1)
  const alternatives = [anyOf, oneOf].find((list) => Array.isArray(list) && list.length > 0)
  if (Array.isArray(alternatives)) {
    const branch = alternatives.map(asSchema).find((candidate) => typeOf(candidate) !== 'null')
    return merged([rest, resolve(branch ?? asSchema(alternatives[0]), sampling, steps + 1)])
  }
  if (!Array.isArray(allOf)) return given
  // Branches multiply, so a recursive schema must end sooner here.
  return merged([rest, ...allOf.map((branch) => resolve(asSchema(branch), sampling, steps + 5))])
}

function merged(schemas: readonly Schema[]): Schema {
  const required = schemas.flatMap((schema) => (Array.isArray(schema['required']) ? schema['required'] : []))
  const properties = Object.assign({}, ...schemas.map((schema) => asSchema(schema['properties']))) as Schema
  return {
    ...(Object.assign({}, ...schemas) as Schema),
    ...(required.length === 0 ? {} : { required }),
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
  }
}

function pointedAt(reference: string, root: Schema): Schema {
  if (!reference.startsWith('#')) return {}
  let found: unknown = root
  for (const step of reference.split('/').slice(1)) {
    found = asSchema(found)[decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')]
  }
  return asSchema(found)
}

function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {}
}

function typeOf(schema: Schema): string {
  const { type } = schema
  const names = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string')
  const name = names.map((each) => each.toLowerCase()).find((each, _, all) => each !== 'null' || all.length === 1)
  if (name !== undefined) return name
  if (schema['properties'] !== undefined || schema['additionalProperties'] !== undefined) return 'object'
  return schema['items'] !== undefined || schema['prefixItems'] !== undefined ? 'array' : 'string'
}

function sampleProperties(schema: Schema, depth: number, sampling: Sampling): Json {
  const required: unknown[] = Array.isArray(schema['required']) ? schema['required'] : []
  const properties = asSchema(schema['properties'])
  const names = new Set([
    ...(depth < FULL_DEPTH ? Object.keys(properties) : []),
    ...required.filter((name) => typeof name === 'string'),
  ])
  return Object.fromEntries(
    [...names].map((name) => [name, sample(asSchema(properties[name]), name, depth + 1, sampling)]),
  )
}

function sampleItems(schema: Schema, name: string, depth: number, sampling: Sampling): Json {
  const first = Array.isArray(schema['prefixItems']) ? schema['prefixItems'] : []
  const wanted = Math.max(first.length, bound(schema, 'minItems') ?? 0, depth < FULL_DEPTH ? 2 : 0)
  const count = Math.min(wanted, bound(schema, 'maxItems') ?? wanted)
  const items: Json[] = []
  const known = new Set<string>()
  for (let index = 0; items.length < count && index < count + 50; index += 1) {
    const item = sample(asSchema(first[items.length] ?? schema['items']), `${name}${index}`, depth + 1, sampling)
    if (schema['uniqueItems'] === true && known.has(JSON.stringify(item))) continue
    known.add(JSON.stringify(item))
    items.push(item)
  }
  return items
}

function sampleNumber(schema: Schema, step: number): number {
  const lowest = bound(schema, 'minimum') ?? (bound(schema, 'exclusiveMinimum') ?? Number.NEGATIVE_INFINITY) + step
  const highest = bound(schema, 'maximum') ?? (bound(schema, 'exclusiveMaximum') ?? Number.POSITIVE_INFINITY) - step
  const value = Math.min(highest, Math.max(lowest, 1))
  const multiple = bound(schema, 'multipleOf')
  if (multiple !== undefined && multiple > 0) return Math.ceil(value / multiple) * multiple
  return step === 1 ? Math.ceil(value) : value
}

function bound(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  time: '12:00:00Z',
  duration: 'P1D',
  email: 'person@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
}

function sampleString(schema: Schema, name: string, { prompt }: Sampling): string {
  const format = FORMATS[String(schema['format'])]
  if (format !== undefined) return format
  const { pattern } = schema
  const place = /\b(?:in|at|for|to)\s+(\p{Lu}[\p{L}'-]+(?:\s\p{Lu}[\p{L}'-]+)*)/u.exec(prompt)?.[1]
  const words = prompt
    .match(/[\p{L}\p{N}'-]+/gu)
    ?.slice(0, 6)
    .join(' ')
  const ordinary = [/city|place|location|town|country/i.test(name) ? place : undefined, words, name, 'text']
  const candidates = ordinary.filter((text): text is string => text !== undefined && text !== '')
  const fitting = [...candidates, 'a', 'A', '1', 'abc', 'ABC', '123', '12345', 'A1', 'a-1', ...Object.values(FORMATS)]
  const fits = typeof pattern === 'string' ? fitting.find((text) => matches(pattern, text)) : undefined
  const shortest = bound(schema, 'minLength') ?? 0
  const longest = bound(schema, 'maxLength') ?? 200
  const text = fits ?? candidates[0] ?? 'text'
  return Array.from(text.padEnd(shortest, '.')).slice(0, Math.max(longest, 0)).join('')
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(text)
  } catch {
    // A pattern in another dialect is ignored.
    return false
  }
}

function choose(choices: readonly Json[], name: string, { prompt }: Sampling): Json {
  const lowered = prompt.toLowerCase()
  const mentioned = choices.find((choice) => typeof choice === 'string' && lowered.includes(choice.toLowerCase()))
  return mentioned ?? choices[hash(prompt + name) % choices.length] ?? null
}

function hash(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0)
}
