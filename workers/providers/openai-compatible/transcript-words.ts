import type { z } from 'zod'
import type { TranscribedWord } from '../provider.ts'
import { haveTimes, withTimes } from '../timed-items.ts'
import type { transcriptionWire } from './wire.ts'

type Answer = z.infer<typeof transcriptionWire>
type Piece = Answer['words'][number]

/**
 * Returns the words of a transcript, wherever the server lists them: at the top or inside its segments; none when it says no
 * times. Servers built on faster-whisper keep the space before each word.
 */
export function wordsOf({ words, segments }: Answer): TranscribedWord[] {
  const listed = words.length > 0 ? words : segments.flatMap((segment) => joinPieces(segment.words))
  if (!haveTimes(listed)) return []
  return withTimes(listed, 0).flatMap(({ item, ...times }) => {
    const text = textOf(item).trim()
    return text === '' ? [] : [{ text, type: 'word' as const, ...times }]
  })
}

/** Returns the text of a transcript without one of its own: that of its segments, or else of its words. */
export function joinedText(answer: Answer): string {
  const segments = answer.segments.map(({ text = '' }) => text)
  if (segments.some((text) => text.trim() !== '')) return segments.map(withSpace).join('')
  return wordsOf(answer)
    .map(({ text }) => text)
    .join(' ')
}

function withSpace(text: string): string {
  return /^\s/.test(text) || SPACELESS.test(text) ? text : ` ${text}`
}

/** What begins in a script that is written without spaces. */
const SPACELESS = /^[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u

/**
 * Joins the pieces of words inside a segment: whisper.cpp lists tokens, of which those that begin a word begin with a space.
 * Where none does, each piece is a word. Source: see `transcriptionWire`.
 */
function joinPieces(pieces: readonly Piece[]): readonly Piece[] {
  if (!pieces.some((piece) => /^\s/.test(textOf(piece)))) return pieces
  const words: Piece[] = []
  for (const piece of pieces) {
    const text = textOf(piece)
    const current = words.at(-1)
    if (current === undefined || /^\s/.test(text) || SPACELESS.test(text)) words.push(piece)
    else words[words.length - 1] = { ...current, word: textOf(current) + text, end: piece.end ?? current.end }
  }
  return words
}

function textOf({ word, text }: Piece): string {
  return word ?? text ?? ''
}
