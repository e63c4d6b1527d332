import type { TranscribedWord } from '../words.ts'
import { shownText } from './shown-text.ts'

/** A word that is shown, with its times as the transcription states them. */
export interface ShownWord {
  readonly text: string
  readonly index: number
  readonly glued: boolean
  readonly event: boolean
  readonly speaker?: string
  /** Milliseconds; `NaN` if there is no usable time. */
  readonly statedStart: number
  readonly statedEnd: number
}

/** More than a century; no recording has such a time. */
const LARGEST_SECONDS = 3_600_000_000
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}、。，！？]/u
const CLOSING = /^[,.;:!?…%)\]}»”’、。，！？；：]+$/u

/** Selects the words that are shown and decides which of them follow the one before without a space. */
export function readWords(words: readonly TranscribedWord[]): ShownWord[] {
  const statesSpaces = words.some(({ word, type }) => type === 'spacing' || /^\s+\S|\S\s+$/u.test(word))
  const shown: ShownWord[] = []
  let spaced = false
  let speaker: string | undefined
  for (const [index, item] of words.entries()) {
    const event = item.type === 'audio_event'
    const text = item.type === 'spacing' ? '' : shownText(item.word, event)
    if (text === '') {
      spaced ||= item.word !== ''
      continue
    }
    const previous = shown.at(-1)
    // A name that nobody can see names nobody.
    const named = typeof item.speaker === 'string' && shownText(item.speaker, false) !== '' ? item.speaker : undefined
    const turns = named !== undefined && speaker !== undefined && named !== speaker
    speaker = named ?? speaker
    const glued =
      previous !== undefined &&
      !turns &&
      !event &&
      !previous.event &&
      (statesSpaces ? !spaced && !/^\s/u.test(item.word) : isGlued(previous.text, text))
    shown.push({
      text,
      index,
      glued,
      event,
      ...(speaker === undefined ? {} : { speaker }),
      statedStart: milliseconds(item.start),
      statedEnd: milliseconds(item.end),
    })
    spaced = /\s$/u.test(item.word)
  }
  return shown
}

/** Decides for transcripts that state no spaces at all. */
function isGlued(before: string, after: string): boolean {
  if (CLOSING.test(after)) return true
  return UNSPACED.test(Array.from(before).at(-1) ?? '') && UNSPACED.test(Array.from(after)[0] ?? '')
}

function milliseconds(seconds: number | null | undefined): number {
  return typeof seconds === 'number' && seconds >= 0 && seconds <= LARGEST_SECONDS ? Math.round(seconds * 1000) : NaN
}
