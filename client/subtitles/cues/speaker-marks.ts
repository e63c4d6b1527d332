import type { SubtitleRules } from '../rules.ts'
import { columnsOf, graphemesOf } from '../width.ts'
import { shownText } from './shown-text.ts'

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
