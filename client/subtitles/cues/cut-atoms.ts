import { columnsOf, graphemesOf } from '../width.ts'
import type { Atom } from '../words.ts'
import type { ShownWord } from './read-words.ts'
import type { WordTimes } from './repair-times.ts'

const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u
/** Where addresses and compounds may be cut: after these. */
const CUT_AFTER = /[/\\?&=#.,:;_\-\u2010-\u2015]$/u

/**
 * Cuts words into atoms: at spaces inside them, between the segments of scripts without spaces, and where a word is
 * longer than `columns`. The parts share the word's time in proportion to their width; starts strictly increase.
 */
export function cutAtoms(
  words: readonly ShownWord[],
  times: readonly WordTimes[],
  { language, columns }: { language: string; columns: number },
): Atom[] {
  const segmenter = new Intl.Segmenter(language, { granularity: 'word' })
  const atoms: Atom[] = []
  let latest = -1
  for (const [position, word] of words.entries()) {
    const time = times[position]
    if (!time) continue
    const parts = partsOf(word.text, segmenter, columns)
    const total = parts.reduce((sum, part) => sum + part.columns, 0)
    const nextStart = Math.max(time.startMs, times[position + 1]?.startMs ?? Infinity)
    const speechEnd = Math.min(time.endMs, nextStart)
    let passed = 0
    for (const [index, part] of parts.entries()) {
      const share = total === 0 ? 0 : passed / total
      passed += part.columns
      const startMs = Math.max(latest + 1, Math.round(time.startMs + (speechEnd - time.startMs) * share))
      const ownEnd = Math.round(time.startMs + (speechEnd - time.startMs) * (total === 0 ? 1 : passed / total))
      const endMs = Math.max(startMs, index === parts.length - 1 ? time.endMs : ownEnd)
      latest = startMs
      atoms.push({
        text: part.text,
        startMs,
        endMs,
        word: word.index,
        glued: index === 0 ? word.glued : part.glued,
        event: word.event,
        ...(word.speaker === undefined ? {} : { speaker: word.speaker }),
      })
    }
  }
  return atoms
}

interface Part {
  readonly text: string
  readonly columns: number
  readonly glued: boolean
}

function partsOf(text: string, segmenter: Intl.Segmenter, columns: number): Part[] {
  const parts: Part[] = []
  for (const spaced of text.split(' ')) {
    const first = parts.length
    const segments = UNSPACED.test(spaced) ? Array.from(segmenter.segment(spaced), ({ segment }) => segment) : [spaced]
    for (const segment of segments) {
      for (const piece of cutToWidth(segment, columns)) parts.push({ ...piece, glued: parts.length > first })
    }
  }
  return parts
}

/** Cuts a word that is longer than a line: after punctuation in its second half, otherwise where the line is full. */
function cutToWidth(word: string, columns: number): { text: string; columns: number }[] {
  if (word.length <= columns / 2 || columnsOf(word) <= columns) return [{ text: word, columns: columnsOf(word) }]
  const pieces: { text: string; columns: number }[] = []
  let text = ''
  let width = 0
  let cut = 0
  let cutWidth = 0
  for (const grapheme of graphemesOf(word)) {
    if (width + grapheme.columns > columns) {
      const at = cutWidth > columns / 2 ? cut : text.length
      const atWidth = cutWidth > columns / 2 ? cutWidth : width
      pieces.push({ text: text.slice(0, at), columns: atWidth })
      text = text.slice(at)
      width -= atWidth
      cut = 0
      cutWidth = 0
    }
    text += grapheme.text
    width += grapheme.columns
    if (CUT_AFTER.test(grapheme.text)) {
      cut = text.length
      cutWidth = width
    }
  }
  pieces.push({ text, columns: width })
  return pieces
}
