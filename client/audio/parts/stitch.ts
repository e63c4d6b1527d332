import { shownText } from '../../subtitles/cues/shown-text.ts'
import type { TranscribedWord } from '../../subtitles/words.ts'
import { retimed, separatorBetween, type Transcript } from '../transcript.ts'

/** The transcript of one part of a recording. */
export interface TranscribedPart {
  readonly transcript: Transcript
  /** What is added to its times to get times of the recording. */
  readonly offsetMs: number
  readonly durationMs: number
}

export interface StitchOptions {
  /** How many people speak, if it is known. One person has the same name in all parts. */
  readonly speakers?: number
}

/**
 * Joins the transcripts of a recording's parts, in their order. Parts do not overlap, so every word is taken once.
 *
 * A transcription names speakers by their order within its part: `speaker_0` of two parts may be two people. So each
 * name says its part (`part 2: speaker_0`), unless only one person speaks.
 */
export function stitch(parts: readonly TranscribedPart[], options: StitchOptions = {}): Transcript {
  const [only] = parts
  if (only === undefined) throw new RangeError('a recording has at least one part')
  const isWhole = parts.length === 1
  const text = parts
    .map(({ transcript }) => transcript.text)
    .reduce((before, after) => before + separatorBetween(before, after) + after, '')
  const words = wordsOf(parts, (speaker, index) => {
    return isWhole || options.speakers === 1 ? speaker : `part ${index + 1}: ${speaker}`
  })
  return { ...languageOf(parts), text, ...(words && { words }) }
}

function wordsOf(
  parts: readonly TranscribedPart[],
  nameOf: (speaker: string, part: number) => string,
): TranscribedWord[] | undefined {
  // Words of some parts only would look like a transcript of the whole.
  if (parts.some(({ transcript }) => transcript.words === undefined)) return undefined
  const joined: TranscribedWord[] = []
  for (const [index, { transcript, offsetMs }] of parts.entries()) {
    const words = (transcript.words ?? []).map((word) => ({
      ...retimed(word, (seconds) => Math.max(0, seconds + offsetMs / 1000)),
      ...(word.speaker && shownText(word.speaker, false) !== '' && { speaker: nameOf(word.speaker, index) }),
    }))
    const spacing = spacingBetween(joined.at(-1), words[0])
    if (spacing && joined.some(({ type }) => type === 'spacing')) joined.push(spacing)
    for (const word of words) joined.push(word)
  }
  return joined
}

/** Returns the spacing at a seam, for transcripts whose words have spacings between them. */
function spacingBetween(before: TranscribedWord | undefined, after: TranscribedWord | undefined) {
  if (before === undefined || after === undefined || separatorBetween(before.word, after.word) === '') return undefined
  return {
    word: ' ',
    type: 'spacing' as const,
    ...(typeof before.end === 'number' && { start: before.end }),
    ...(typeof after.start === 'number' && { end: Math.max(before.end ?? 0, after.start) }),
  }
}

/** Returns the language that is spoken longest, with the lowest probability that it has in a part. */
function languageOf(
  parts: readonly TranscribedPart[],
): Pick<Transcript, 'language' | 'language_probability_millionths'> {
  const durations = new Map<string, number>()
  for (const { transcript, durationMs } of parts) {
    const { language } = transcript
    if (language !== undefined) durations.set(language, (durations.get(language) ?? 0) + durationMs)
  }
  const [longest] = [...durations].sort(([, one], [, other]) => other - one)
  if (longest === undefined) return {}
  const [language] = longest
  const probabilities = parts
    .filter(({ transcript }) => transcript.language === language)
    .flatMap(({ transcript: { language_probability_millionths: probability } }) => probability ?? [])
  return {
    language,
    ...(probabilities.length > 0 && { language_probability_millionths: Math.min(...probabilities) }),
  }
}
