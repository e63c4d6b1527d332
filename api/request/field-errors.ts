import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { JsonSource } from '#shared/json/json-source.ts'

/** Sentences that say what to send instead, by the name of the field. */
export type FieldAdvice = Readonly<Record<string, string>>

/** Converts the first validation issue to a 400 that names the field, the rule and the limit, and what to send instead. */
export function invalidField(error: z.ZodError, body: unknown, advice: FieldAdvice = {}): AppError {
  const [issue] = error.issues
  if (!issue) throw new Error('a validation error has at least one issue')
  if (issue.code === 'unrecognized_keys') return unknownField(issue.keys[0] ?? '', advice)
  const param = paramOf(issue.path)
  const given = valueAt(body, issue.path)
  if (given === undefined) return missingField(param)
  const message = `${param} ${ruleOf(issue)}; got ${describeValue(given)}.`
  return new AppError('invalid_field', { param, message: advised(message, param, advice) })
}

export function unknownField(name: string, advice: FieldAdvice = {}): AppError {
  const param = shortName(name)
  const message = `${quoted(name)} is not a field of this endpoint.`
  return new AppError('unknown_field', { param, message: advised(message, name, advice) })
}

function advised(message: string, name: string, advice: FieldAdvice): string {
  return Object.hasOwn(advice, name) ? `${message} ${advice[name]}` : message
}

/** `what` says what to send in the field. */
export function missingField(name: string, what?: string): AppError {
  const message = what === undefined ? `${name} is required.` : `${name} is required: ${what}.`
  return new AppError('missing_field', { param: name, message })
}

export function repeatedField(name: string): AppError {
  return new AppError('duplicate_field', {
    param: shortName(name),
    message: `${quoted(name)} was sent more than once.`,
  })
}

/** Longer than any field of any endpoint; a caller's own name may have megabytes. */
const MAXIMUM_NAME_LENGTH = 64

/** Returns a caller's field name for an error, cut when it is longer than any of ours. */
export function shortName(name: string): string {
  return name.length > MAXIMUM_NAME_LENGTH ? `${name.slice(0, MAXIMUM_NAME_LENGTH)}…` : name
}

/** JSON names of Zod's types. */
const JSON_TYPES: Record<string, string> = { int: 'integer', record: 'object' }

/** Words for the bounds of strings and arrays; a number's bound is the value itself. */
const VERBS: Record<string, string> = { string: 'have', array: 'have' }
const NOUNS: Record<string, string> = { string: ' characters', array: ' items' }

function ruleOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${article(JSON_TYPES[issue.expected] ?? issue.expected)}`
    case 'too_big':
      return `must ${VERBS[issue.origin] ?? 'be'} at most ${issue.maximum}${NOUNS[issue.origin] ?? ''}`
    case 'too_small':
      return `must ${VERBS[issue.origin] ?? 'be'} at least ${issue.minimum}${NOUNS[issue.origin] ?? ''}`
    case 'invalid_value':
      return issue.values.length === 1
        ? `must be ${JSON.stringify(issue.values[0])}`
        : `must be one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}`
    default:
      return issue.message
  }
}

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`
}

function paramOf(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) =>
      typeof part === 'number' ? `[${part}]` : `${index > 0 ? '.' : ''}${shortName(String(part))}`,
    )
    .join('')
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body
  for (const part of path) {
    if (value instanceof JsonSource) value = value.toJSON()
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

/** Long enough to recognize a mistake, short enough not to echo an upload. */
const MAXIMUM_ECHO_LENGTH = 40

function describeValue(value: unknown): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return String(value)
  return Array.isArray(value) ? 'an array' : 'an object'
}

/** Returns a caller's text in quotes, shortened. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > MAXIMUM_ECHO_LENGTH ? `${text.slice(0, MAXIMUM_ECHO_LENGTH)}…` : text)
}
