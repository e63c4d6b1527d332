import { speakerName } from '../cues/speaker-marks.ts'
import type { Cue, CueLine } from '../words.ts'
import { clockTime } from './clock-time.ts'

/** Renders WebVTT. With `voices`, speakers are voice tags instead of dashes and labels. */
export function renderVtt(cues: readonly Cue[], { voices = false }: { readonly voices?: boolean } = {}): string {
  const blocks = cues.map(({ startMs, endMs, lines }) => {
    const text = lines.map((line) => (voices ? withVoice(line) : escaped(line.prefix + line.text))).join('\n')
    return `${clockTime(startMs, '.')} --> ${clockTime(endMs, '.')}\n${text}\n`
  })
  return ['WEBVTT\n', ...blocks].join('\n')
}

function withVoice({ speaker, text }: CueLine): string {
  return speaker === undefined ? escaped(text) : `<v ${escaped(speakerName(speaker))}>${escaped(text)}</v>`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
