import pLimit from 'p-limit'
import { decodeRecording } from './decode-recording.ts'
import { readLyrics } from './lyrics-tag.ts'
import { measureMpeg } from './mpeg-duration.ts'
import { createToneListener, type SoundedWord } from './tone-listener.ts'

/** One transcribed item, independent of any vendor's format. `speaker` counts from 0 in order of speaking. */
export interface HeardItem {
  readonly text: string
  readonly type: 'word' | 'spacing' | 'audio_event'
  readonly speaker: number
  readonly startSeconds: number
  readonly endSeconds: number
}

export interface Heard {
  /** ISO 639-2 code of the lyrics tag; `eng` for audio without one. */
  readonly language: string
  readonly durationSeconds: number
  readonly items: readonly HeardItem[]
}

export interface HearingOptions {
  readonly tagAudioEvents: boolean
  /** The maximum number of distinct speakers. */
  readonly maximumSpeakers?: number
}

type Spoken = Pick<HeardItem, 'text' | 'type' | 'speaker'>

/** Recordings that are decoded at the same time: each keeps a core busy. */
const atOnce = pLimit(2)

/**
 * "Hears" an MP3: returns the script in its lyrics tag, spread over its real duration. Without one, the sound is decoded, and
 * the words that scripted voices speak in `tone-code.ts` are returned at the times at which they sound. Other audio yields a
 * sentence saying that this is a simulation. Returns undefined for bytes without MPEG frames.
 *
 * A script consists of lines; `Ann: …` names the speaker, and the name is not spoken. Without any names, two speakers take
 * turns by line. `(coins jingling)` is an audio event, omitted unless requested.
 */
export async function hear(file: Uint8Array, options: HearingOptions): Promise<Heard | undefined> {
  const measured = measureMpeg(file)
  if (measured === undefined) return undefined
  const { durationSeconds, hasSound } = measured
  const lyrics = readLyrics(file)
  const sounded = lyrics === undefined && hasSound ? await atOnce(() => listen(file)) : []
  if (sounded.length > 0) return { language: 'eng', durationSeconds, items: itemsOf(sounded, options) }
  const script = lyrics?.text ?? `This is a simulated transcription of ${durationSeconds.toFixed(1)} seconds of audio.`
  const spoken = speak(script, options)
  return { language: lyrics?.language ?? 'eng', durationSeconds, items: spread(spoken, durationSeconds) }
}

async function listen(file: Uint8Array): Promise<SoundedWord[]> {
  const listener = createToneListener()
  const words: SoundedWord[] = []
  for await (const samples of decodeRecording(file)) for (const word of listener.push(samples)) words.push(word)
  return [...words, ...listener.end()]
}

/** Returns the words with the spacing between them, and speakers by the order in which they speak. */
function itemsOf(
  sounded: readonly SoundedWord[],
  { tagAudioEvents, maximumSpeakers = 32 }: HearingOptions,
): HeardItem[] {
  const speakers = [...new Set(sounded.map(({ speaker }) => speaker))]
  const items: HeardItem[] = []
  for (const { text, speaker, startSeconds, endSeconds } of sounded) {
    const type = isOnlyEvents(text) ? 'audio_event' : 'word'
    if (type === 'audio_event' && !tagAudioEvents) continue
    const common = { speaker: Math.min(speakers.indexOf(speaker), maximumSpeakers - 1) }
    const previous = items.at(-1)
    if (previous !== undefined)
      items.push({ ...common, text: ' ', type: 'spacing', startSeconds: previous.endSeconds, endSeconds: startSeconds })
    items.push({ ...common, text, type, startSeconds, endSeconds })
  }
  return items
}

function speak(script: string, options: HearingOptions): Spoken[] {
  const lines = script.split(/\r\n|[\r\n]/).filter((line) => line.trim() !== '')
  const named = lines.map((line) => /^\s*(?<name>\p{L}[\p{L}\p{N} .'-]{0,30}):\s+(?<words>.*)$/u.exec(line)?.groups)
  const names = [...new Set(named.flatMap((groups) => groups?.['name'] ?? []))]
  let current = 0
  let turns = 0
  const spoken = lines.flatMap((line, index): Spoken[] => {
    const name = named[index]?.['name']
    if (name !== undefined) current = names.indexOf(name)
    else if (names.length === 0 && !isOnlyEvents(line)) current = turns++ % 2
    const speaker = Math.min(current, (options.maximumSpeakers ?? 32) - 1)
    const items = tokens(named[index]?.['words'] ?? line, options.tagAudioEvents)
    return [...items.map((item) => ({ ...item, speaker })), { text: ' ', type: 'spacing', speaker }]
  })
  return withoutNeedlessSpacing(spoken)
}

function isOnlyEvents(line: string): boolean {
  return line.replaceAll(/\([^()]*\)/g, '').trim() === ''
}

function tokens(line: string, tagAudioEvents: boolean): Omit<Spoken, 'speaker'>[] {
  const found = line.match(/\([^()]*\)|\s+|[^\s(]+|\(/gu) ?? []
  return found.flatMap((text): Omit<Spoken, 'speaker'>[] => {
    if (/^\s/u.test(text)) return [{ text: ' ', type: 'spacing' }]
    if (!/^\(.+\)$/u.test(text)) return [{ text, type: 'word' }]
    return tagAudioEvents ? [{ text, type: 'audio_event' }] : []
  })
}

/** Removes duplicate spacing, which omitted events leave behind, and trailing spacing. */
function withoutNeedlessSpacing(spoken: readonly Spoken[]): Spoken[] {
  const kept = spoken.filter(({ type }, index) => {
    const previous = spoken[index - 1]
    return type !== 'spacing' || (previous !== undefined && previous.type !== 'spacing')
  })
  return kept.at(-1)?.type === 'spacing' ? kept.slice(0, -1) : kept
}

/** Spreads the items by their length over the whole duration, without gap or overlap. */
function spread(spoken: readonly Spoken[], durationSeconds: number): HeardItem[] {
  const weights = spoken.map(({ text, type }) => (type === 'spacing' ? 1 : type === 'word' ? text.length + 2 : 12))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  let passed = 0
  return spoken.map((item, index) => {
    const startSeconds = toMilliseconds((passed / total) * durationSeconds)
    passed += weights[index] ?? 0
    return { ...item, startSeconds, endSeconds: toMilliseconds((passed / total) * durationSeconds) }
  })
}

function toMilliseconds(seconds: number): number {
  return Math.floor(seconds * 1000) / 1000
}
