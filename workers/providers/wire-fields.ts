import { z } from 'zod'
import { parseKeepingSources } from '#shared/json/json-source.ts'

/**
 * A name in a vendor's error, such as `rate_limit_error`, `INVALID_ARGUMENT` or `BadRequestError`. Anything that is not
 * words of letters joined by underscores counts as absent: names are stored and logged, and a vendor might quote the
 * caller's text in that place.
 */
export const errorToken = z
  .string()
  .max(64)
  .regex(/^[A-Za-z]+(?:_[A-Za-z]+)*$/)
  .nullish()
  .transform((name) => name ?? undefined)
  .catch(undefined)

/** PostgreSQL stores neither NUL nor a lone surrogate, and JSON escapes can carry both. */
export const storableText = z.string().transform(storable)

export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '')
}

const NONE: ReadonlySet<string> = new Set()

/**
 * Parses a body as JSON; `undefined` when it is none. The parser's message, which quotes the body, is discarded. Objects
 * under the names of `written` stay as the vendor wrote them.
 */
export function readJson(bytes: Uint8Array, written = NONE): unknown {
  try {
    return parseKeepingSources(new TextDecoder('utf-8', { fatal: true }).decode(bytes), written)
  } catch {
    return undefined
  }
}

/** Parses the body of an error. Bytes that are not UTF-8 are replaced, since only its codes are read. */
export function readErrorJson(bytes: Uint8Array): unknown {
  return parseJsonText(new TextDecoder().decode(bytes))
}

/** Parses a text as JSON, such as the data of an event, as `readJson` does. */
export function parseJsonText(text: string, written = NONE): unknown {
  try {
    return parseKeepingSources(text, written)
  } catch {
    return undefined
  }
}
