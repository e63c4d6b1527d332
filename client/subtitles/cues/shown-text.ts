import type { SubtitleRules } from '../rules.ts'
import { columnsOf, graphemesOf } from '../width.ts'

/**
 * Embeddings, overrides and isolates reorder whatever follows them on the screen; the other characters are invisible
 * and would separate words from their punctuation. Joiners and the marks LRM, RLM and ALM stay: scripts need them.
 */
const REMOVED = /[\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff]/gu
const LONE_SURROGATE = /\p{Cs}/gu
const SPACE = /[\s\p{Cc}\p{Z}]+/gu
const NOTHING_VISIBLE = /^[\p{Default_Ignorable_Code_Point}\p{Cf}\s]*$/u
const EVENT_MARKS = /^[\s([{*♪<（【［]+|[\s)\]}*♪>）】］]+$/gu

/**
 * Returns the text of a word as it is shown: well-formed, on one line, without characters that control the display.
 * Empty if nothing would be visible. Sound events are in square brackets, whatever the vendor puts around them.
 */
export function shownText(text: string, event: boolean): string {
  const clean = text.replace(LONE_SURROGATE, '\ufffd').replace(REMOVED, '').replace(SPACE, ' ').trim()
  if (NOTHING_VISIBLE.test(clean)) return ''
  if (!event) return clean
  const inner = clean.replace(EVENT_MARKS, '')
  return inner === '' ? '' : `[${inner}]`
}

/** Returns the name that readers see: `speaker_0` is "Speaker 1"; other names stay as they are. */
export function speakerName(speaker: string): string {
  const number = /^speaker_(\d{1,4})$/u.exec(speaker)?.[1]
  return number === undefined ? shownText(speaker, false) : `Speaker ${Number(number) + 1}`
}

/** Returns the label of a speaker with its space. It takes at most half of a line. */
export function speakerLabel(speaker: string, { lineColumns }: SubtitleRules): string {
  const room = Math.floor(lineColumns / 2) - '[…] '.length
  let name = ''
  let columns = 0
  for (const grapheme of graphemesOf(speakerName(speaker))) {
    columns += grapheme.columns
    if (columns > room) return `[${name}…] `
    name += grapheme.text
  }
  return `[${name}] `
}

/** Returns how many columns of a line the longest mark takes. */
export function longestMark(speakers: ReadonlySet<string>, rules: SubtitleRules): number {
  if (rules.speakers === 'none') return 0
  if (rules.speakers === 'dash') return speakers.size > 1 ? columnsOf(rules.dash) : 0
  let longest = 0
  for (const speaker of speakers) longest = Math.max(longest, columnsOf(speakerLabel(speaker, rules)))
  return longest
}
