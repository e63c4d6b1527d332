import type { Atom, Cue } from '../words.ts'

const PARAGRAPH_PAUSE_MS = 1000
/** A paragraph of this length ends with its sentence, at the next short pause when it is longer, and then anywhere. */
const LONG_PARAGRAPH = 500
const LONGER_PARAGRAPH = 1000
const LONGEST_PARAGRAPH = 1500
const SHORT_PAUSE_MS = 250
const SENTENCE_END = /[.!?…。！？؟۔।]["'”’»)\]」』]*$/u

/**
 * Renders running text: a paragraph for each turn of a speaker, after a sentence that a pause follows, and where one would
 * become too long to be read.
 */
export function renderText(cues: readonly Cue[]): string {
  let text = ''
  let paragraph = 0
  let previous: Atom | undefined
  for (const line of cues.flatMap(({ lines }) => lines)) {
    for (const [index, atom] of line.atoms.entries()) {
      const label = index === 0 && line.prefix.startsWith('[') ? line.prefix : ''
      const isNext = previous !== undefined && begins(previous, atom, text.length - paragraph)
      text += previous === undefined ? '' : isNext ? '\n' : atom.glued ? '' : ' '
      if (isNext) paragraph = text.length
      text += label + atom.text
      previous = atom
    }
  }
  return text === '' ? '' : `${text}\n`
}

function begins(previous: Atom, atom: Atom, length: number): boolean {
  if (previous.speaker !== atom.speaker) return true
  const pauseMs = atom.startMs - previous.endMs
  if (SENTENCE_END.test(previous.text) && (pauseMs >= PARAGRAPH_PAUSE_MS || length >= LONG_PARAGRAPH)) return true
  if (atom.glued) return false
  return length >= LONGEST_PARAGRAPH || (length >= LONGER_PARAGRAPH && pauseMs >= SHORT_PAUSE_MS)
}
