import { randomBytes } from 'node:crypto'
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
 * Returns the arguments of a call, or `undefined` when the output was cut before their end. Nothing can be added to the
 * JSON of an object, so arguments that parse are whole even then. Blank ones mean that there are none; other text than the
 * JSON of an object is what the model wrote, and is delivered.
 */
export function callArguments(json: string, mayBeCut: boolean): string | undefined {
  if (json.trim() === '') return mayBeCut ? undefined : '{}'
  return mayBeCut && !isObject(parseJsonText(json)) ? undefined : json
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
function inputUsage(
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

/** Returns the id of a call: the vendor's own would reveal the vendor, is missing at some, and repeats at others. */
export function newCallId(): string {
  return `call_${randomBytes(12).toString('hex')}`
}

/** Counts of an answer as its vendor reported them, each where it did. */
export interface ReportedCounts {
  readonly input?: number | undefined
  readonly cached?: number | undefined
  readonly written?: number | undefined
  readonly output?: number | undefined
  readonly thinking?: number | undefined
  /** Input and output together. */
  readonly total?: number | undefined
}

/**
 * Returns the usage of a delivered answer. What the vendor did not count is what request and answer have at least.
 * Thinking is a part of the output, except where the total shows that it was counted beside it, or, without a total, it
 * exceeds the output: then the vendor bills both (docs.x.ai, reasoning; ai.google.dev/gemini-api/docs/openai; read on 2026-11-28).
 */
export function answerUsage(
  { input = 0, cached, written, output, thinking = 0, total = 0 }: ReportedCounts,
  least: { readonly input: number; readonly output: number },
): TextUsage {
  // A count of no token is none that was counted.
  const rest = input > 0 ? Math.max(0, total - input) : 0
  const isBeside = output !== undefined && (rest > 0 ? rest >= output + thinking : thinking > output)
  const measured = output === undefined ? rest : output + (isBeside ? thinking : 0)
  const outputTokens = measured > 0 ? measured : Math.max(least.output, thinking)
  const inputTokens = input > 0 ? input : measured > 0 && total > measured ? total - measured : least.input
  return {
    ...inputUsage(inputTokens, { cached, written }),
    output_tokens: outputTokens,
    ...(thinking === 0 ? {} : { thinking_tokens: Math.min(thinking, outputTokens) }),
  }
}

/** Returns the reported sequence that ended an answer, where it is one of the request's. */
export function endingSequence(
  { stop_sequences: sequences = [] }: Pick<TextRequest, 'stop_sequences'>,
  ...reported: readonly (string | null | undefined)[]
): { stop_sequence?: string } {
  const sequence = reported.find((text) => typeof text === 'string' && sequences.includes(text))
  return typeof sequence === 'string' ? { stop_sequence: sequence } : {}
}
