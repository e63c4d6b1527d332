import type { Cue } from '../../../../client/subtitles/subtitles.ts'
import type { ReadCue } from './read-back.ts'

/** What a file may hold instead of signs that its readers would take for markup, as `client/README.md` lists it. */
export const LOOK_ALIKES: Readonly<Record<string, string>> = {
  '→': '-->',
  '‹': '<',
  '›': '>',
  '❴': '{',
  '∖': '\\',
  '“': '"',
  '\u2060': '',
}

/** Returns the text with each look-alike as the sign that it stands for: texts that look alike become equal. */
export function folded(text: string): string {
  return text.replace(/[→‹›❴∖“\u2060]/gu, (sign) => LOOK_ALIKES[sign] as string)
}

export const foldedCues = (cues: readonly ReadCue[]): ReadCue[] =>
  cues.map((cue) => ({ ...cue, text: folded(cue.text) }))

/** Returns what a reader of a file must see, but for look-alikes. */
export function shownCues(cues: readonly Cue[], form: 'srt' | 'vtt' | 'voices'): ReadCue[] {
  return foldedCues(
    cues.map(({ startMs, endMs, lines }) => {
      const text = lines.map(({ prefix, text: own }) => (form === 'voices' ? '' : prefix) + own).join('\n')
      return { startMs, endMs, text }
    }),
  )
}

/** Puts lists of cues behind each other, since FFmpeg sorts the cues of a file by time. */
export function shiftedTogether(lists: readonly (readonly Cue[])[]): Cue[] {
  let offset = 0
  return lists.flatMap((cues) => {
    const first = cues[0]?.startMs ?? 0
    const shift = offset - first
    const shifted = cues.map((cue) => ({ ...cue, startMs: cue.startMs + shift, endMs: cue.endMs + shift }))
    offset = (shifted.at(-1)?.endMs ?? offset) + 1000
    return shifted
  })
}
