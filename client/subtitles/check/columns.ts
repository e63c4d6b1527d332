const GRAPHEMES = new Intl.Segmenter('und', { granularity: 'grapheme' })

/** First and last code points of the blocks whose characters are two columns wide (Unicode Standard Annex 11). */
const WIDE_BLOCKS: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x1b000, 0x1b2ff],
  [0x1f200, 0x1f2ff],
  [0x20000, 0x3fffd],
]
const EMOJI_STYLE = 0xfe0f

/** Counts the columns of a text. The checker measures by itself, so that it can find errors of the writer. */
export function countColumns(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length
  let columns = 0
  for (const { segment } of GRAPHEMES.segment(text)) {
    const points = Array.from(segment)
    if (points.some(isWide)) columns += 2
    else if (points.some((point) => !/[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(point))) columns += 1
  }
  return columns
}

function isWide(character: string): boolean {
  const point = character.codePointAt(0) ?? 0
  if (point < 0x1100) return false
  if (point === EMOJI_STYLE || /\p{Emoji_Presentation}/u.test(character)) return true
  return WIDE_BLOCKS.some(([first, last]) => point >= first && point <= last)
}
