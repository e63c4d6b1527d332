import type { Atom } from '../words.ts'
import { functionWords } from './function-words.ts'

const SENTENCE_END = /[.!?…。！？؟۔।]["'”’»)\]」』]*$/u
const ABBREVIATION = /^(?:\p{Lu}|mr|mrs|ms|dr|prof|st|vs|etc|z\.b|d\.h|bzw|ca|nr|sr|sra|m|mme)\.$/iu
const CLAUSE_END = /[,;:–—،؛、，；：-]["'”’»)\]」』]*$/u
const NEVER_FIRST = /^[,.;:!?…%)\]}»”、。，！？；：）」』】〉》ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ]/u
const NEVER_LAST = /[([{«“¿¡（「『【〈《]$/u
const EDGES = /^[^\p{L}\p{N}]+|[^\p{L}\p{N}']+$/gu

/** What a break costs; a line or a cue that ends with a sentence costs nothing. */
const COST = { clause: 2, beforeFunctionWord: 4, anywhere: 10, afterLeader: 22, insideWord: 45, kinsoku: 60 } as const

export interface BreakCosts {
  /** For each atom: what it costs to break the text before it. */
  readonly before: Float64Array
  /** 1 for each atom that ends a sentence. */
  readonly endsSentence: Uint8Array
}

export function breakCosts(atoms: readonly Atom[], language: string): BreakCosts {
  const before = new Float64Array(atoms.length + 1)
  const endsSentence = new Uint8Array(atoms.length)
  const lexical = lexicalStarts(atoms, language)
  for (const [index, atom] of atoms.entries()) {
    endsSentence[index] = SENTENCE_END.test(atom.text) && !ABBREVIATION.test(atom.text) ? 1 : 0
    const previous = atoms[index - 1]
    if (previous)
      before[index] = breakCost(previous, atom, endsSentence[index - 1] === 1, lexical[index] === 1, language)
  }
  return { before, endsSentence }
}

function breakCost(previous: Atom, next: Atom, sentence: boolean, lexical: boolean, language: string): number {
  if (previous.speaker !== next.speaker) return 0
  if (NEVER_FIRST.test(next.text) || NEVER_LAST.test(previous.text)) return COST.kinsoku
  const sameWord = previous.word === next.word
  if (sameWord && (next.event || (next.glued && !lexical))) return COST.insideWord
  if (next.glued && !lexical) return COST.insideWord
  if (sentence || next.event || previous.event) return 0
  if (CLAUSE_END.test(previous.text)) return COST.clause
  const lists = functionWords(language)
  const last = bare(previous.text)
  if (lists.leads.has(last) || lists.begins.has(last)) return COST.afterLeader
  return lists.begins.has(bare(next.text)) ? COST.beforeFunctionWord : COST.anywhere
}

function bare(text: string): string {
  return text.toLowerCase().replace('’', "'").replace(EDGES, '')
}

/**
 * Marks the atoms that begin a word of the language. Transcripts of Chinese, Japanese and Thai often time single
 * characters, so the words are looked up in the joined text.
 */
function lexicalStarts(atoms: readonly Atom[], language: string): Uint8Array {
  const starts = new Uint8Array(atoms.length).fill(1)
  const segmenter = new Intl.Segmenter(language, { granularity: 'word' })
  for (let first = 0; first < atoms.length; first++) {
    let end = first + 1
    while (end < atoms.length && atoms[end]?.glued === true) end++
    if (end - first > 1) markRun(atoms, first, end, segmenter, starts)
    first = end - 1
  }
  return starts
}

function markRun(atoms: readonly Atom[], first: number, end: number, segmenter: Intl.Segmenter, starts: Uint8Array) {
  let text = ''
  const offsets = new Map<number, number>()
  for (let index = first; index < end; index++) {
    offsets.set(text.length, index)
    starts[index] = index === first ? 1 : 0
    text += atoms[index]?.text ?? ''
  }
  for (const { index: offset } of segmenter.segment(text)) {
    const index = offsets.get(offset)
    if (index !== undefined) starts[index] = 1
  }
}
