/** Characters of two columns: East Asian wide and full-width ones (Unicode Standard Annex 11) and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\p{Cf}]*$/u
/** Shortcuts for texts of one width, whose graphemes are single characters. */
const ALL_NARROW = /^[\x20-\x7e]*$/
const ALL_WIDE = /^[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*$/
const GRAPHEMES = new Intl.Segmenter('und', { granularity: 'grapheme' })

/** Returns how many columns a text takes: 2 for each full-width grapheme, 1 for each other visible one. */
export function columnsOf(text: string): number {
  if (ALL_NARROW.test(text)) return text.length
  if (ALL_WIDE.test(text)) return text.length * 2
  let columns = 0
  for (const { segment } of GRAPHEMES.segment(text)) columns += columnsOfGrapheme(segment)
  return columns
}

/** Returns the text's graphemes, each with its columns. */
export function graphemesOf(text: string): { readonly text: string; readonly columns: number }[] {
  return Array.from(GRAPHEMES.segment(text), ({ segment }) => ({ text: segment, columns: columnsOfGrapheme(segment) }))
}

function columnsOfGrapheme(grapheme: string): number {
  if (WIDE.test(grapheme)) return 2
  return INVISIBLE.test(grapheme) ? 0 : 1
}
