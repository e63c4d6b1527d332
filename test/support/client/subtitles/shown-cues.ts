import type { Cue } from '../../../../client/subtitles/subtitles.ts'
import type { ReadCue } from './read-back.ts'

/** Returns what a reader of a file must see. SubRip has no escapes, so four sequences are replaced in it. */
export function shownCues(cues: readonly Cue[], form: 'srt' | 'vtt' | 'voices'): ReadCue[] {
  return cues.map(({ startMs, endMs, lines }) => {
    const text = lines.map(({ prefix, text: own }) => (form === 'voices' ? '' : prefix) + own).join('\n')
    return { startMs, endMs, text: form === 'srt' ? inSubRip(text) : text }
  })
}

function inSubRip(text: string): string {
  return text
    .split('-->')
    .join('→')
    .split('<')
    .join('‹')
    .replace(/\{(\\|\p{L}:)/gu, '❴$1')
    .replace(/\\([Nnh])/gu, '∖$1')
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
