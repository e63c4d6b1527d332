import type { TranscribedWord } from '../subtitles/words.ts'

/** The result of a transcription, of which only these fields depend on the recording's parts. Times are in seconds. */
export interface Transcript {
  readonly text: string
  readonly language?: string | undefined
  readonly language_probability_millionths?: number | undefined
  readonly words?: readonly TranscribedWord[] | undefined
}

/** Scripts that are written without spaces between words. */
const SPACELESS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u
const MICROSECONDS = 1_000_000

/** Returns a word with its times, and those of its characters, changed by the same function of seconds. */
export function retimed(word: TranscribedWord, change: (seconds: number) => number): TranscribedWord {
  const changed = (time: number) => Math.round(change(time) * MICROSECONDS) / MICROSECONDS
  return {
    ...word,
    ...(typeof word.start === 'number' && { start: changed(word.start) }),
    ...(typeof word.end === 'number' && { end: changed(word.end) }),
    ...(word.characters && {
      characters: word.characters.map((character) => ({
        ...character,
        start: changed(character.start),
        end: changed(character.end),
      })),
    }),
  }
}

/** Returns what stands between two texts: nothing where there is a space already or the script has none. */
export function separatorBetween(before: string, after: string): '' | ' ' {
  if (before === '' || after === '' || /\s$/u.test(before) || /^\s/u.test(after)) return ''
  const last = Array.from(before).at(-1) ?? ''
  const first = Array.from(after)[0] ?? ''
  return SPACELESS.test(last) && SPACELESS.test(first) ? '' : ' '
}

/** Returns the text of words: with their own spacing if they have any, otherwise with spaces. */
export function textOfWords(words: readonly TranscribedWord[]): string {
  const hasSpacing = words.some(({ type, word }) => type === 'spacing' || /^\s|\s$/u.test(word))
  const texts = words.map(({ word }) => word)
  const text = hasSpacing
    ? texts.join('')
    : texts.reduce((before, after) => before + separatorBetween(before, after) + after, '')
  return text.trim()
}
