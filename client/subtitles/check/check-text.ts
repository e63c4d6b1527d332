import type { SubtitleRules } from '../rules.ts'
import type { Atom, Cue, TranscribedWord } from '../words.ts'
import { countColumns } from './columns.ts'

/** How much strictly increasing starts may move a word. */
const MOVED_MS = 125

/**
 * Checks that cues hold exactly the words of a transcription: every visible character in its order, times where the
 * transcription has usable ones, and no place hidden where a line could break. Returns what is wrong.
 *
 * `repaired` are the words whose times are reported as unusable.
 */
export function checkText(
  cues: readonly Cue[],
  words: readonly TranscribedWord[],
  rules: SubtitleRules,
  repaired: ReadonlySet<number> = new Set(),
): string[] {
  const problems: string[] = []
  const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
  const byWord = new Map<number, Atom[]>()
  for (const atom of atoms) {
    const own = byWord.get(atom.word)
    if (own) own.push(atom)
    else byWord.set(atom.word, [atom])
  }
  for (const [index, word] of words.entries()) {
    const own = byWord.get(index) ?? []
    const expected = visibleCharacters(word)
    const actual = own.map(({ text }) => text).join('')
    if (actual !== expected) problems.push(`word ${index} is "${actual}" instead of "${expected}"`)
    if (own.length > 0 && !repaired.has(index)) problems.push(...checkTimes(own, word, index))
  }
  const segmenter = new Intl.Segmenter(rules.language, { granularity: 'word' })
  for (const [index, atom] of atoms.entries()) {
    const previous = atoms[index - 1]
    if (previous && (atom.word < previous.word || atom.startMs <= previous.startMs)) {
      problems.push(`atom ${index} is out of order`)
    }
    problems.push(...checkAtom(atom, rules, segmenter))
  }
  for (const { lines } of cues) {
    for (const line of lines) {
      const joined = line.atoms.map(({ text, glued }, index) => (index > 0 && !glued ? ` ${text}` : text)).join('')
      if (joined !== line.text) problems.push(`a line is "${line.text}" instead of "${joined}"`)
    }
  }
  return problems
}

/** Returns what a reader must see of a word, without spaces. */
function visibleCharacters({ word, type }: TranscribedWord): string {
  if (type === 'spacing') return ''
  let text = ''
  for (const character of word) {
    const point = character.codePointAt(0) ?? 0
    const controlsDirection = (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069)
    if (controlsDirection || point === 0x200b || point === 0x2060 || point === 0xfeff) continue
    if (/[\s\p{Cc}\p{Z}]/u.test(character)) continue
    text += /\p{Cs}/u.test(character) ? '\ufffd' : character
  }
  if (Array.from(text).every((character) => /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(character))) return ''
  if (type !== 'audio_event') return text
  const marks = '([{*♪<（【［)]}*♪>）】］'
  const characters = Array.from(text)
  while (marks.slice(0, 9).includes(characters[0] ?? ' ')) characters.shift()
  while (marks.slice(9).includes(characters.at(-1) ?? ' ')) characters.pop()
  return characters.length === 0 ? '' : `[${characters.join('')}]`
}

function checkTimes(own: readonly Atom[], { start, end }: TranscribedWord, index: number): string[] {
  if (typeof start !== 'number' || typeof end !== 'number') return [`word ${index} has no times and is not reported`]
  if (!(start >= 0) || !(end > start)) {
    if (Math.round(end * 1000) <= Math.round(start * 1000)) return [`word ${index} has wrong times and is not reported`]
  }
  const first = own[0]?.startMs ?? 0
  const last = own.at(-1)?.endMs ?? 0
  const moved = Math.max(Math.abs(first - start * 1000), Math.abs(last - end * 1000))
  return moved <= MOVED_MS + own.length
    ? []
    : [`word ${index} is at ${first} to ${last} instead of ${start} to ${end} s`]
}

/** An atom that a line could break inside would hide cues from the proof that a violation is forced. */
function checkAtom({ text, event }: Atom, rules: SubtitleRules, segmenter: Intl.Segmenter): string[] {
  if (text === '' || /\s/u.test(text)) return [`an atom is "${text}"`]
  if (countColumns(text) > rules.lineColumns) return [`an atom is longer than a line: "${text}"`]
  if (event || !/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}]/u.test(text)) return []
  const segments = Array.from(segmenter.segment(text))
  return segments.length > 1 && countColumns(text) > rules.lineColumns / 2 ? [`"${text}" could be cut`] : []
}
