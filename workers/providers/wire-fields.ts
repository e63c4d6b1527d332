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
 * Parses a body as JSON; `undefined` when it is none. Bytes that are not UTF-8 are replaced, as in the events of a stream: one
 * of them costs a character, not an answer that the vendor bills.
 */
export function readJson(bytes: Uint8Array, written = NONE): unknown {
  return parseJsonText(new TextDecoder().decode(bytes), written)
}

/**
 * Parses a text as JSON, such as the data of an event; `undefined` when it is none. The parser's message, which quotes the text,
 * is discarded. Objects under the names of `written` stay as the vendor wrote them.
 */
export function parseJsonText(text: string, written = NONE): unknown {
  try {
    return parseKeepingSources(text, written)
  } catch {
    return undefined
  }
}
