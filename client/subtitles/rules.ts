import type { TranscribedWord } from './words.ts'

/** Languages that are written like another one of the rules. */
const WRITTEN_LIKE: Readonly<Record<string, string>> = { cmn: 'zh', yue: 'zh', wuu: 'zh', nan: 'zh', hak: 'zh' }

const DETECTION_CHARACTERS = 20_000
/** Japanese mixes kana with more Chinese characters than kana, so a tenth shows it. */
const KANA_SHARE = 0.1
const SCRIPT_SHARE = 0.3

export type StyleName = 'netflix' | 'bbc' | 'plain'

/**
 * How speakers are shown: a dash before each line of a cue with two speakers, a label in brackets where a turn begins,
 * or not at all. A line never holds two speakers in any of them.
 */
export type SpeakerMarks = 'dash' | 'label' | 'none'

export interface SubtitleOptions {
  /** `netflix` by default. */
  readonly style?: StyleName
  /** Characters on a line; full-width characters for Chinese, Japanese and Korean. */
  readonly maximumLine?: number
  readonly maximumLines?: number
  /** Dashes by default. */
  readonly speakers?: SpeakerMarks
  /** BCP 47 or ISO 639-3, such as the `language` of a transcription; derived from the script by default. */
  readonly language?: string
  /** 24 by default; the smallest gap between two cues is two frames. */
  readonly framesPerSecond?: number
  /** The length of the recording, which no word that has to be given a time passes. */
  readonly durationMs?: number
}

/**
 * The rules that cues are written and checked by.
 *
 * Widths are counted in columns: a full-width character has two, any other grapheme has one. A limit of 16 full-width
 * characters therefore is 32 columns, and half-width characters count as half, as Netflix counts them.
 */
export interface SubtitleRules {
  readonly style: StyleName
  /** BCP 47 primary language, or `und`. */
  readonly language: string
  readonly lineColumns: number
  readonly maximumLines: number
  readonly columnsPerSecond: number
  readonly minimumMs: number
  readonly maximumMs: number
  readonly gapMs: number
  /** How much earlier than the speech a cue may end, and how far its start may be from its first word. */
  readonly toleranceMs: number
  /** Gaps up to this are closed to `gapMs`, so that text does not flash. */
  readonly closedGapMs: number
  readonly speakers: SpeakerMarks
  readonly dash: string
}

/**
 * Line lengths by language, in columns. Source: the Netflix Timed Text Style Guides for Japanese (13 full-width
 * characters), Simplified and Traditional Chinese (16), Korean (16) and Thai (35); 42 for the others.
 */
const NETFLIX_COLUMNS: Readonly<Record<string, number>> = { ja: 26, zh: 32, ko: 32, th: 35 }
const DEFAULT_COLUMNS = { netflix: 42, bbc: 37, plain: 120 } as const

/**
 * Reading speeds in columns a second: 9 characters for Chinese and 12 for Korean. Netflix asks 4 of Japanese, which
 * only a condensed translation can keep; a transcript is verbatim, so Japanese has the 20 columns of other languages.
 */
const COLUMNS_PER_SECOND: Readonly<Record<string, number>> = { zh: 18, ko: 24 }
export const DEFAULT_COLUMNS_PER_SECOND = 20

export const MINIMUM_MS = Math.ceil(5000 / 6)
const MAXIMUM_MS = 7000
const GAP_FRAMES = 2
/** Netflix: timed "within 3 frames of the audio". */
const TOLERANCE_FRAMES = 3
const CLOSED_GAP_MS = 500
const DEFAULT_FRAMES_PER_SECOND = 24
const SMALLEST_LINE_COLUMNS = 10
const LARGEST_LINE_COLUMNS = 1000
const MOST_LINES = 8
const SLOWEST_FRAMES_PER_SECOND = 1
const FASTEST_FRAMES_PER_SECOND = 1000

/** Resolves options to rules. Throws a `RangeError` for limits that no text could keep. */
export function rulesOf(words: readonly TranscribedWord[], options: SubtitleOptions = {}): SubtitleRules {
  const style = options.style ?? 'netflix'
  const language = primaryLanguage(options.language ?? 'und') ?? languageOfScript(words)
  const framesPerSecond = options.framesPerSecond ?? DEFAULT_FRAMES_PER_SECOND
  requireBetween('framesPerSecond', framesPerSecond, SLOWEST_FRAMES_PER_SECOND, FASTEST_FRAMES_PER_SECOND)
  const maximumLines = options.maximumLines ?? (style === 'plain' ? 1 : 2)
  requireInteger('maximumLines', maximumLines, 1, MOST_LINES)
  const common = {
    style,
    language,
    lineColumns: lineColumns(style, language, options.maximumLine),
    maximumLines,
    maximumMs: MAXIMUM_MS,
    toleranceMs: Math.floor((TOLERANCE_FRAMES * 1000) / framesPerSecond),
    speakers: options.speakers ?? 'dash',
    // Netflix: "a hyphen without a space" in English, followed by a space in other languages.
    dash: language === 'en' ? '-' : '- ',
  }
  if (style === 'plain') return { ...common, columnsPerSecond: Infinity, minimumMs: 0, gapMs: 0, closedGapMs: 0 }
  return {
    ...common,
    columnsPerSecond: COLUMNS_PER_SECOND[language] ?? DEFAULT_COLUMNS_PER_SECOND,
    minimumMs: MINIMUM_MS,
    gapMs: Math.ceil((GAP_FRAMES * 1000) / framesPerSecond),
    closedGapMs: CLOSED_GAP_MS,
  }
}

function lineColumns(style: StyleName, language: string, maximumLine: number | undefined): number {
  const fullWidth = language === 'zh' || language === 'ja' || language === 'ko'
  if (maximumLine === undefined) {
    return style === 'plain' ? DEFAULT_COLUMNS.plain : (NETFLIX_COLUMNS[language] ?? DEFAULT_COLUMNS[style])
  }
  const columns = fullWidth ? maximumLine * 2 : maximumLine
  requireInteger('maximumLine', columns, SMALLEST_LINE_COLUMNS, LARGEST_LINE_COLUMNS)
  return columns
}

function requireInteger(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value)) throw new RangeError(`${name} must be a whole number`)
  requireBetween(name, value, least, most)
}

function requireBetween(name: string, value: number, least: number, most: number): void {
  if (!(value >= least && value <= most)) throw new RangeError(`${name} must be from ${least} to ${most}`)
}

/** Returns the primary language of a BCP 47 or ISO 639-3 tag. */
function primaryLanguage(tag: string): string | undefined {
  try {
    const language = new Intl.Locale(tag.replaceAll('_', '-')).language
    return language === 'und' ? undefined : (WRITTEN_LIKE[language] ?? language)
  } catch {
    return undefined
  }
}

/** Returns the language that the script shows, `und` if it is unknown. */
function languageOfScript(words: readonly TranscribedWord[]): string {
  let sample = ''
  for (const { word } of words) {
    sample += word.slice(0, DETECTION_CHARACTERS)
    if (sample.length >= DETECTION_CHARACTERS) break
  }
  const letters = count(sample, /\p{L}/gu)
  if (letters === 0) return 'und'
  const share = (script: RegExp) => count(sample, script) / letters
  if (share(/[\p{sc=Hiragana}\p{sc=Katakana}]/gu) >= KANA_SHARE) return 'ja'
  if (share(/\p{sc=Hangul}/gu) >= SCRIPT_SHARE) return 'ko'
  if (share(/\p{sc=Han}/gu) >= SCRIPT_SHARE) return 'zh'
  if (share(/\p{sc=Thai}/gu) >= SCRIPT_SHARE) return 'th'
  return 'und'
}

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0
}
