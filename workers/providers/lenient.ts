import { z } from 'zod'
import { writtenObjectSchema } from '#shared/operations/text/written-object.ts'
import { storable, storableText } from './wire-fields.ts'

/*
 * Reads what a vendor answered with 200 as far as it can be read: a field that is not as documented counts as absent, and
 * costs no other field, since the vendor bills the answer all the same. The names of such fields are collected, so that
 * operators see that a vendor changed.
 */

/** The fields of the answer that is being read. Reading is synchronous, so there is only one. */
let mended = new Set<string>()

export interface LenientReading<Value> {
  readonly value: Value | undefined
  /** Names of our schemas, never text of the vendor. */
  readonly mended: readonly string[]
}

/** Reads an answer; `value` is undefined when not even its outermost form is as documented. */
export function readLeniently<Value>(schema: z.ZodType<Value>, given: unknown): LenientReading<Value> {
  mended = new Set()
  const { data } = schema.safeParse(given)
  return { value: data, mended: [...mended] }
}

/** Adds what had to be mended to an answer that is delivered. */
export function withMended<Outcome extends { readonly outcome: string }>(
  outcome: Outcome,
  fields: readonly string[],
): Outcome & { readonly mended?: readonly string[] } {
  return outcome.outcome === 'failed' || fields.length === 0 ? outcome : { ...outcome, mended: [...new Set(fields)] }
}

function mend<Value>(name: string, fallback: Value): () => Value {
  return () => {
    mended.add(name)
    return fallback
  }
}

/** A field that may be absent or null, and counts as absent when it is anything else than `schema` reads. */
export function optional<Schema extends z.ZodType>(name: string, schema: Schema) {
  return schema
    .nullish()
    .transform((value) => value ?? undefined)
    .catch(mend(name, undefined))
}

/** A number in the place of text: Cloudflare sends tokens such as `6` so (cloudflare/ai#651, read on 30 November 2026). */
export function numberAsText(name: string) {
  return z.number().transform((value) => {
    mended.add(name)
    return String(value)
  })
}

/** Text, or a number in its place. */
export function optionalText(name: string, text: z.ZodType<string> = storableText) {
  return optional(name, z.union([text, numberAsText(name)]))
}

/**
 * The arguments of a call as its vendor wrote them: text where `documented` reads it, or an object. What else stands in
 * their place is what the model wrote, and no reason to call a tool without arguments.
 */
export function optionalArguments(name: string, documented?: z.ZodType<string>) {
  const object = writtenObjectSchema.transform(({ text }) => text)
  const other = z.unknown().transform((value) => {
    mended.add(name)
    return typeof value === 'string' ? storable(value) : JSON.stringify(value)
  })
  return optional(name, z.union(documented === undefined ? [object, other] : [documented, object, other]))
}

/** A word that the adapter maps, such as a finish reason; one that is not among the known ones is noted. */
export function optionalWord(name: string, known?: ReadonlySet<string>) {
  const word = z.string().max(100)
  const noted = word.transform((text) => {
    if (known?.has(text) === false && text !== '') mended.add(name)
    return text
  })
  return optional(name, noted)
}

/** A count of tokens. Numbers in text are read, fractions are rounded down; a negative count is none. */
export function optionalCount(name: string) {
  const text = z
    .string()
    .regex(/^\d{1,15}$/)
    .transform((digits) => {
      mended.add(name)
      return Number(digits)
    })
  const fraction = z
    .number()
    .nonnegative()
    .max(Number.MAX_SAFE_INTEGER)
    .transform((value) => {
      mended.add(name)
      return Math.floor(value)
    })
  return optional(name, z.union([z.int().nonnegative(), text, fraction]))
}

/** More than any recording lasts; times beyond it could not be written in milliseconds. */
const MOST_SECONDS = 10_000_000

/** Seconds from the start of a recording; numbers in text are read. */
export function optionalSeconds(name: string) {
  const text = z
    .string()
    .regex(/^\d{1,7}(?:\.\d{1,12})?$/)
    .transform((digits) => {
      mended.add(name)
      return Number(digits)
    })
  return optional(name, z.union([z.number().nonnegative().max(MOST_SECONDS), text]))
}

/** A list whose items are read one by one: one that cannot be read is left out. Absent, null or no list: empty. */
export function list<Schema extends z.ZodType>(name: string, item: Schema) {
  return z
    .array(item.nullable().catch(mend(name, null)))
    .nullish()
    .catch(mend(name, undefined))
    .transform((items) => (items ?? []).filter((each) => each !== null))
}

/** Returns a schema of what comes first in a list of results, such as the choices of a completion. */
export function firstOf<Schema extends z.ZodType>(name: string, item: Schema) {
  return list(name, item).transform((items) => items[0])
}

const WORDS: readonly (readonly [RegExp, 'length' | 'content_filter' | 'tool_calls'])[] = [
  [/length|max|limit|truncat|incomplete|interrupt|insufficient|abort|cancel|error|timeout|pause/i, 'length'],
  [/filter|safety|block|refus|prohibit|recitation|moderat|sensitive/i, 'content_filter'],
  [/tool|function/i, 'tool_calls'],
]

/**
 * Returns the nearest reason of ours for a vendor's word that the adapter does not know: servers invent them
 * (`model_length`, `eos_token`, `end`), or send none. What was interrupted (`insufficient_system_resource`, `abort`,
 * `pause_turn`) is not at its end, which callers know from `length`.
 */
export function nearestReason(word: string | undefined): 'stop' | 'length' | 'content_filter' | 'tool_calls' {
  return WORDS.find(([pattern]) => pattern.test(word ?? ''))?.[1] ?? 'stop'
}

/** Notes that a field was not as documented although it could be read. */
export function noteMended(name: string): void {
  mended.add(name)
}
