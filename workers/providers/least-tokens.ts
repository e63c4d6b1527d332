import type { TextRequest } from '#shared/operations/text/text-request.ts'

/**
 * A word, which is at least one token: the tokenizers of the vendors never join words. Scripts without spaces count one
 * for each four characters, since few of their tokens are longer.
 */
const WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]{1,4}|[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu

/**
 * Returns how many tokens a text has at least, to charge what was delivered when the vendor could not report its count.
 * English text has about a third more.
 */
export function leastTokens(text: string): number {
  return text.match(WORD)?.length ?? 0
}

/**
 * The longest token of a text without spaces, with a wide margin: Base64 and code have 2 to 4 bytes a token, and a single
 * "word" of them would otherwise count as one.
 */
const MOST_BYTES_OF_TOKEN = 16

/** Returns how many tokens the input has at least, without images, tools and schemas. */
export function leastInputTokens({ system = '', messages }: Pick<TextRequest, 'system' | 'messages'>): number {
  const texts = messages.flatMap(({ parts }) =>
    parts.map((part) => (part.type === 'text' || part.type === 'tool_result' ? part.text : '')),
  )
  return [system, ...texts].reduce((sum, text) => sum + Math.max(leastTokens(text), leastOfBytes(text)), 0)
}

function leastOfBytes(text: string): number {
  // Any number of spaces may be one token.
  return Math.floor(Buffer.byteLength(text.replaceAll(/\s+/g, '')) / MOST_BYTES_OF_TOKEN)
}

/** Few tokens are longer. */
const BYTES_PER_TOKEN = 4

/**
 * Returns how many tokens the delivered part of an answer has at least. `pieces`: the events that it arrived in, each
 * of which is at least one token, since a caller may ask for long output without spaces. A gateway that divides tokens
 * sends more of them, so they count only as far as the length of the output allows.
 */
export function leastOutputTokens({
  text,
  calls,
  pieces = 0,
}: {
  text: string
  calls: readonly { readonly name: string; readonly arguments_json: string }[]
  pieces?: number
}): number {
  const written = [text, ...calls.map(({ name, arguments_json: json }) => `${name} ${json}`)]
  const words = written.reduce((sum, part) => sum + leastTokens(part), 0)
  const bytes = written.reduce((sum, part) => sum + Buffer.byteLength(part), 0)
  return Math.max(words, Math.min(pieces, Math.floor(bytes / BYTES_PER_TOKEN)))
}
