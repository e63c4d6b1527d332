import { formatUsdc } from '../../budget/usdc.ts'

/** Characters that JSON allows unescaped but a terminal or line reader may act on. */
const ACTIVE = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g

/** Renders one line of NDJSON: names in snake_case, atomic amounts as decimal USDC. */
export function jsonLine(value: object): string {
  const json = JSON.stringify(wireForm(value))
  return `${json.replace(ACTIVE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

function wireForm(value: unknown): unknown {
  if (typeof value === 'bigint') return formatUsdc(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Error) return errorForm(value)
  if (Array.isArray(value)) return value.map(wireForm)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [snakeCase(name), wireForm(member)]))
}

/** What a program needs to go on after an error. */
export function errorForm(error: Error): Record<string, unknown> {
  const { code = 'unexpected', money, advice, key, requestId } = error as Error & Record<string, unknown>
  return { code, message: error.message, money, advice, key, request_id: requestId }
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
