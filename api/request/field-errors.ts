import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'

/** Turns the first fault that validation found into a 400 that names the field, what is wrong with it, and the limit. */
export function invalidField(error: z.ZodError, body: unknown): AppError {
  const [issue] = error.issues
  if (!issue) throw new Error('a validation error has at least one issue')
  if (issue.code === 'unrecognized_keys') return unknownField(issue.keys[0] ?? '')
  const param = paramOf(issue.path)
  const given = valueAt(body, issue.path)
  if (given === undefined) return missingField(param)
  return new AppError('invalid_field', { param, message: `${param} ${faultOf(issue)}; got ${shown(given)}.` })
}

export function unknownField(name: string): AppError {
  return new AppError('unknown_field', { param: name, message: `${shownText(name)} is not a field of this endpoint.` })
}

export function missingField(name: string): AppError {
  return new AppError('missing_field', { param: name, message: `${name} is required.` })
}

export function repeatedField(name: string): AppError {
  return new AppError('duplicate_field', { param: name, message: `${shownText(name)} was sent more than once.` })
}

/** What callers know these of our schemas' types as. */
const jsonTypes: Record<string, string> = { int: 'integer', record: 'object' }

/** How a bound of text and of lists is told; of a number it is the value itself. */
const verbs: Record<string, string> = { string: 'have', array: 'have' }
const nouns: Record<string, string> = { string: ' characters', array: ' items' }

function faultOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${article(jsonTypes[issue.expected] ?? issue.expected)}`
    case 'too_big':
      return `must ${verbs[issue.origin] ?? 'be'} at most ${issue.maximum}${nouns[issue.origin] ?? ''}`
    case 'too_small':
      return `must ${verbs[issue.origin] ?? 'be'} at least ${issue.minimum}${nouns[issue.origin] ?? ''}`
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
    .map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index > 0 ? '.' : ''}${String(part)}`))
    .join('')
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

/** Long enough to recognise one's own mistake, short enough not to echo an upload. */
const LONGEST_ECHO = 40

function shown(value: unknown): string {
  if (typeof value === 'string') return shownText(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return String(value)
  return Array.isArray(value) ? 'an array' : 'an object'
}

function shownText(text: string): string {
  return JSON.stringify(text.length > LONGEST_ECHO ? `${text.slice(0, LONGEST_ECHO)}…` : text)
}
