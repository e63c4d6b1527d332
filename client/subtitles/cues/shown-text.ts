/**
 * Embeddings, overrides and isolates reorder whatever follows them on the screen; the other characters are invisible
 * and would separate words from their punctuation. Joiners and the marks LRM, RLM and ALM stay: scripts need them.
 */
const REMOVED = /[\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff]/gu
const LONE_SURROGATE = /\p{Cs}/gu
const SPACE = /[\s\p{Cc}\p{Z}]+/gu
const NOTHING_VISIBLE = /^[\p{Default_Ignorable_Code_Point}\p{Cf}\s]*$/u
const EVENT_MARKS = /^[\s([{*♪<（【［]+|[\s)\]}*♪>）】］]+$/gu

/**
 * Returns the text of a word as it is shown: well-formed, on one line, without characters that control the display.
 * Empty if nothing would be visible. Sound events are in square brackets, whatever the vendor puts around them.
 */
export function shownText(text: string, event: boolean): string {
  const clean = text.replace(LONE_SURROGATE, '\ufffd').replace(REMOVED, '').replace(SPACE, ' ').trim()
  if (NOTHING_VISIBLE.test(clean)) return ''
  if (!event) return clean
  const inner = clean.replace(EVENT_MARKS, '')
  return inner === '' ? '' : `[${inner}]`
}
