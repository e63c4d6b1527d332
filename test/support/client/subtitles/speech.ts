import type { Cue, TranscribedWord } from '../../../../client/subtitles/subtitles.ts'

export interface Pace {
  readonly start?: number
  /** Seconds for each character; a word of normal speech has about 0.06. */
  readonly secondsPerCharacter?: number
  readonly speaker?: string
}

/** Times a text like continuous speech, a space after each word. */
export function speak(text: string, { start = 0, secondsPerCharacter = 0.07, speaker }: Pace = {}): TranscribedWord[] {
  let time = start
  return text.split(' ').flatMap((word): TranscribedWord[] => {
    const from = time
    time += word.length * secondsPerCharacter
    const named = speaker === undefined ? {} : { speaker }
    const space: TranscribedWord = { word: ' ', start: time, end: time, type: 'spacing' }
    return [{ word, start: from, end: time, type: 'word', ...named }, space]
  })
}

/** Returns the lines of each cue as a reader sees them. */
export function linesOf(cues: readonly Cue[]): string[][] {
  return cues.map(({ lines }) => lines.map(({ prefix, text }) => prefix + text))
}
