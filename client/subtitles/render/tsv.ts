import type { Cue } from '../words.ts'
import { oneLine } from './one-line.ts'

/** Renders the tab-separated form of Whisper: start and end in milliseconds, and the text. */
export function renderTsv(cues: readonly Cue[]): string {
  const rows = cues.map((cue) => `${cue.startMs}\t${cue.endMs}\t${oneLine(cue).replaceAll('\t', ' ')}\n`)
  return ['start\tend\ttext\n', ...rows].join('')
}
