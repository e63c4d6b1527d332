import type { Cue } from '../words.ts'
import { clockTime } from './clock-time.ts'

/**
 * Renders SubRip. The format has no escapes, so what players take for markup or for a line of times is replaced by
 * characters that look alike.
 */
export function renderSrt(cues: readonly Cue[]): string {
  return cues
    .map(({ startMs, endMs, lines }, index) => {
      const text = lines.map((line) => withoutMarkup(line.prefix + line.text)).join('\n')
      return `${index + 1}\n${clockTime(startMs, ',')} --> ${clockTime(endMs, ',')}\n${text}\n`
    })
    .join('\n')
}

/** Players hide text between `<` and `>`, `{\an8}` and `{y:i}`; some, such as FFmpeg, break lines at `\N` and `\n`. */
function withoutMarkup(line: string): string {
  return line
    .replaceAll('-->', '→')
    .replaceAll('<', '‹')
    .replace(/\{(?=\\|\p{L}:)/gu, '❴')
    .replace(/\\(?=[Nnh])/gu, '∖')
}
