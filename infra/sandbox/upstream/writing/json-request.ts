import { createHash } from 'node:crypto'

/** Parses a request's JSON; undefined when the body is not JSON. */
export function readJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return undefined
  }
}

/**
 * Returns the top-level fields of a JSON request for the call log, each as JSON text. A long Base64 string is replaced by its
 * length and SHA-256 and that of a data URI is left out, so that a log of many images stays readable.
 */
export function loggedFields(body: Uint8Array): Record<string, string> {
  const request = readJson(body)
  if (typeof request !== 'object' || request === null || Array.isArray(request)) return {}
  return Object.fromEntries(
    Object.entries(request).map(([name, value]) => [
      name,
      JSON.stringify(value, (_, part: unknown) => shortened(part)).replaceAll(LONG_DATA_URI, ';base64,…'),
    ]),
  )
}

const LONG_DATA_URI = /;base64,[A-Za-z0-9+/]{200,}=*/g

function shortened(value: unknown): unknown {
  if (typeof value !== 'string' || value.length < 512 || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return value
  return `(${value.length} Base64 characters, SHA-256 ${createHash('sha256').update(value).digest('hex')})`
}
