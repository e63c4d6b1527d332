import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { JsonSource } from '#shared/json/json-source.ts'
import type { TextRequest, TextUsage } from '#shared/operations/text/text-request.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { parseJsonText } from './wire-fields.ts'

/**
 * Returns the arguments of a call that the caller sends back, for vendors that take an object. Any other text reaches
 * the model as it is.
 */
export function argumentsObject(text: string): object {
  return JsonSource.parse(text) ?? (text.trim() === '' ? {} : { arguments: text })
}

/**
 * Returns the arguments of a call as the JSON text of an object, or `undefined` when they are none. Nothing can be
 * added to the JSON of an object, so arguments that parse are whole even where the output was cut. Blank ones mean that
 * there are none, unless the output may have been cut before them.
 */
export function callArguments(json: string, mayBeCut: boolean): string | undefined {
  if (json.trim() === '') return mayBeCut ? undefined : '{}'
  return isObject(parseJsonText(json)) ? json : undefined
}

/** Returns whether the request names a sequence that may end its answer before the first visible character. */
export function endsAtStopSequence({ stop_sequences: sequences = [] }: Pick<TextRequest, 'stop_sequences'>): boolean {
  return sequences.length > 0
}

/**
 * Returns the text of an answer. Blank text counts as none where something else is delivered, a call or a refusal;
 * where the blank text is the answer itself, it is delivered as it is.
 */
export function deliveredText(text: string, isWholeAnswer: boolean): string | null {
  return isWholeAnswer || text.trim() !== '' ? text : null
}

/**
 * Returns the counts of an input of so many tokens, of which some were read from the vendor's prompt cache or written to
 * it. Parts that a server reports beyond the whole are left out, since they decide what is charged.
 */
export function inputUsage(
  input: number,
  parts: { readonly cached?: number | null | undefined; readonly written?: number | null | undefined },
): Pick<TextUsage, 'input_tokens' | 'cached_input_tokens' | 'cache_write_tokens'> {
  const cached = Math.min(parts.cached ?? 0, input)
  const written = Math.min(parts.written ?? 0, input - cached)
  return {
    input_tokens: input,
    ...(cached === 0 ? {} : { cached_input_tokens: cached }),
    ...(written === 0 ? {} : { cache_write_tokens: written }),
  }
}

/** The refusal of an answer that the vendor withheld. */
export const WITHHELD_REFUSAL = 'The answer was withheld by the model’s content filter.'

/** Returns the id of a call, which is derived from what identifies it: the vendor's own id would reveal the vendor. */
export function callIdOf(...identity: readonly unknown[]): string {
  return `call_${sha256Hex(JSON.stringify(identity)).slice(0, 24)}`
}
