import type { WrittenCues } from '../words.ts'

/** Renders cues and violations as JSON: times in seconds, as in a transcription, and the lines with speakers. */
export function renderJson({ cues, violations }: WrittenCues): string {
  const rendered = cues.map(({ startMs, endMs, lines }) => ({
    start: startMs / 1000,
    end: endMs / 1000,
    text: lines.map(({ prefix, text }) => prefix + text).join('\n'),
    lines: lines.map(({ text, speaker }) => ({ text, ...(speaker === undefined ? {} : { speaker }) })),
  }))
  return `${JSON.stringify({ cues: rendered, violations }, null, 2)}\n`
}
