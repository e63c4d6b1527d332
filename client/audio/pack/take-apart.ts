import type { TranscribedWord } from '../../subtitles/words.ts'
import { retimed, type Transcript, textOfWords } from '../transcript.ts'
import type { Span } from './prepare-packs.ts'

/** The transcript of one clip of a pack. */
export interface ClipTranscript extends Transcript {
  readonly words: readonly TranscribedWord[]
  /**
   * How many of the words were heard in the silence next to the clip. They were added to it, with the time of its edge,
   * and may have been invented by the transcription.
   */
  readonly wordsInSilence: number
}

/**
 * Takes the transcript of a pack apart by time: each word goes, once, to the clip that it overlaps longest, or to the
 * nearest one if it lies in the silence. Times become times of the clip, and speakers are numbered within it.
 */
export function takeApart(transcript: Transcript, spans: readonly Span[]): ClipTranscript[] {
  if (spans.length === 0) throw new RangeError('a pack has at least one clip')
  if (transcript.words === undefined) throw new TypeError('a pack can be taken apart only by the times of its words')
  const words: TranscribedWord[][] = spans.map(() => [])
  const inSilence = spans.map(() => 0)
  let current = 0
  for (const word of transcript.words) {
    // Spacing belongs to the word before it, as does a word without a time.
    if (word.type !== 'spacing' && typeof word.start === 'number') {
      const place = placeOf(word.start * 1000, (word.end ?? word.start) * 1000, spans)
      current = place.clip
      if (place.isSilence) inSilence[current] = (inSilence[current] as number) + 1
    }
    words[current]?.push(word)
  }
  const { text: _, words: __, ...rest } = transcript
  return spans.map(({ startMs, endMs }, index) => {
    const within = (seconds: number) => (Math.min(endMs, Math.max(startMs, seconds * 1000)) - startMs) / 1000
    const own = withoutOuterSpacing(words[index] ?? []).map((word) => retimed(word, within))
    return { ...rest, ...withOwnSpeakers(own), wordsInSilence: inSilence[index] ?? 0 }
  })
}

function placeOf(startMs: number, endMs: number, spans: readonly Span[]): { clip: number; isSilence: boolean } {
  let clip = 0
  let best = Number.NEGATIVE_INFINITY
  for (const [index, span] of spans.entries()) {
    // Negative for a word outside: minus its distance.
    const overlap = Math.min(endMs, span.endMs) - Math.max(startMs, span.startMs)
    if (overlap <= best) continue
    best = overlap
    clip = index
  }
  return { clip, isSilence: best < 0 }
}

function isWord({ type }: TranscribedWord): boolean {
  return type !== 'spacing'
}

function withoutOuterSpacing(words: readonly TranscribedWord[]): readonly TranscribedWord[] {
  return words.slice(Math.max(0, words.findIndex(isWord)), words.findLastIndex(isWord) + 1)
}

/** Numbers speakers in the order in which they speak, as a transcription of the clip alone would. */
function withOwnSpeakers(words: readonly TranscribedWord[]): { text: string; words: TranscribedWord[] } {
  const names = new Map<string, string>()
  const renamed = words.map((word) => {
    const { speaker } = word
    if (!speaker || !/^speaker_\d+$/.test(speaker)) return word
    const name = names.get(speaker) ?? `speaker_${names.size}`
    names.set(speaker, name)
    return { ...word, speaker: name }
  })
  return { text: textOfWords(renamed), words: renamed }
}
