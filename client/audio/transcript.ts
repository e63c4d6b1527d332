import type { TranscribedWord } from '../subtitles/words.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { isObject } from '../wire/json.ts'

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

const CONTROL = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu
const CONTROL_BUT_LINES = /(?![\t\n])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069\ufeff]/gu
const LANGUAGE = /^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$/
/** More than a century; no recording has such a time. */
const LARGEST_SECONDS = 3_600_000_000

/**
 * Reads a transcription as the service answered it. What is not of its form is left out or becomes a word without a
 * time: the rest is paid for. Throws `transcript_unreadable` if nothing is left.
 */
export function readTranscript(result: unknown): Transcript {
  if (!isObject(result) || (typeof result['text'] !== 'string' && !Array.isArray(result['words'])))
    throw new FareboxError({
      code: 'transcript_unreadable',
      problem: 'The service’s answer is no transcription.',
      money: 'settled',
      advice:
        'Run the command again: the answer is repeated without another charge. If it stays unreadable, ask the operator.',
    })
  const { text, language, words, language_probability_millionths: probability, ...others } = result
  const read = Array.isArray(words) ? words.flatMap(readWord) : undefined
  return {
    ...others,
    text:
      typeof text === 'string' ? text.replace(CONTROL_BUT_LINES, ' ') : (read ?? []).map(({ word }) => word).join(' '),
    ...(typeof language === 'string' && LANGUAGE.test(language) && { language }),
    ...(isTime(probability) && { language_probability_millionths: probability }),
    // No words beside a text are none that were told, and not those of a silent recording.
    ...(read && (read.length > 0 || !hasText(text)) && { words: read }),
  }
}

function hasText(text: unknown): boolean {
  return typeof text === 'string' && text.trim() !== ''
}

function readWord(item: unknown): readonly TranscribedWord[] {
  if (!isObject(item) || typeof item['word'] !== 'string') return []
  const { word, start, end, type, speaker, characters } = item
  return [
    {
      word: word.replace(CONTROL, ' '),
      ...(isTime(start) && { start }),
      ...(isTime(end) && { end }),
      type: type === 'spacing' || type === 'audio_event' ? type : 'word',
      ...(typeof speaker === 'string' && speaker !== '' && { speaker: speaker.replace(CONTROL, ' ') }),
      ...(Array.isArray(characters) && characters.every(isCharacter) && { characters }),
    },
  ]
}

function isCharacter(value: unknown): value is { readonly text: string; readonly start: number; readonly end: number } {
  return isObject(value) && typeof value['text'] === 'string' && isTime(value['start']) && isTime(value['end'])
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= LARGEST_SECONDS
}
