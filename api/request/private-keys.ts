import { AppError } from '#shared/errors/app-error.ts'

/** Names under which clients of other services send the key of a wallet. */
const KEY_NAME = /(private|wallet|secret|signing)[-_ ]?key|mnemonic|seed[-_ ]?phrase|recovery[-_ ]?phrase/i

/** The key of a wallet as hexadecimal text. */
const KEY_VALUE = /^(0x)?[0-9a-f]{64}$/i

/** Deep enough for every known client's fields. */
const DEPTH = 8

const NOT_NEEDED =
  'looks like the private key of a wallet. This service never needs one: it was neither used nor stored, and will not be logged. If it holds funds, consider it exposed, since it left your machine. Pay by signing the challenge yourself.'

/** Returns whether a field is named like the private key of a wallet. */
export function isKeyName(name: string): boolean {
  return KEY_NAME.test(name)
}

/** Throws `invalid_field`, without the value, when a field is named like the private key of a wallet. */
export function refuseKeyNames(fields: Readonly<Record<string, unknown>>, where: string): void {
  if (Object.keys(fields).some(isKeyName)) throw keyRefused(where)
}

/**
 * Does the same for a field at any depth, and for values that look like one, except inside `hashes`: a signed payment and
 * the name of a call have numbers of the same length.
 */
export function refuseKeys(fields: Readonly<Record<string, unknown>>, where: string, hashes: readonly string[]): void {
  if (Object.entries(fields).some(([name, value]) => hasKey(name, value, DEPTH, hashes.includes(name))))
    throw keyRefused(where)
}

function hasKey(name: string, value: unknown, depth: number, mayBeHash: boolean): boolean {
  if (isKeyName(name)) return true
  if (typeof value === 'string') return !mayBeHash && KEY_VALUE.test(value)
  if (typeof value !== 'object' || value === null || depth === 0) return false
  return Object.entries(value).some(([inner, content]) => hasKey(inner, content, depth - 1, mayBeHash))
}

/** Returns the refusal, which says nothing of the value. */
export function keyRefused(where: string): AppError {
  return new AppError('invalid_field', { param: where, message: `A field of ${where} ${NOT_NEEDED}` })
}
