import type { Transcript } from '../../../client/audio/transcript.ts'
import type { ScriptedWord } from './tone-voice.ts'

export interface Comparison {
  readonly words: number
  readonly lost: number
  readonly doubled: number
  /** Words that the script does not have. */
  readonly invented: number
  /** The farthest that the start or the end of a word is from its place. */
  readonly farthestMs: number
}

/** Compares a transcript with the script, all of whose words are different. */
export function compareWords({ words = [] }: Transcript, script: readonly ScriptedWord[]): Comparison {
  const places = new Map(script.map((word) => [word.text, word]))
  const counts = new Map<string, number>()
  let farthestMs = 0
  for (const { word, type, start, end } of words) {
    if (type === 'spacing') continue
    counts.set(word, (counts.get(word) ?? 0) + 1)
    const place = places.get(word)
    if (place === undefined) continue
    const off = [(start ?? 0) * 1000 - place.startMs, (end ?? 0) * 1000 - place.endMs]
    farthestMs = Math.max(farthestMs, ...off.map(Math.abs))
  }
  const heard = [...counts.keys()]
  return {
    words: script.length,
    lost: script.filter(({ text }) => !counts.has(text)).length,
    doubled: heard.filter((text) => (counts.get(text) ?? 0) > 1).length,
    invented: heard.filter((text) => !places.has(text)).length,
    farthestMs,
  }
}
