import type { Atom, Cue } from '../words.ts'

const PARAGRAPH_PAUSE_MS = 1000
const SENTENCE_END = /[.!?…。！？؟۔।]["'”’»)\]」』]*$/u

/** Renders running text: a paragraph for each turn of a speaker, and after a sentence that a pause follows. */
export function renderText(cues: readonly Cue[]): string {
  let text = ''
  let previous: Atom | undefined
  for (const line of cues.flatMap(({ lines }) => lines)) {
    for (const [index, atom] of line.atoms.entries()) {
      const label = index === 0 && line.prefix.startsWith('[') ? line.prefix : ''
      text += previous === undefined ? '' : begins(previous, atom) ? '\n' : atom.glued ? '' : ' '
      text += label + atom.text
      previous = atom
    }
  }
  return text === '' ? '' : `${text}\n`
}

function begins(previous: Atom, atom: Atom): boolean {
  if (previous.speaker !== atom.speaker) return true
  return SENTENCE_END.test(previous.text) && atom.startMs - previous.endMs >= PARAGRAPH_PAUSE_MS
}
