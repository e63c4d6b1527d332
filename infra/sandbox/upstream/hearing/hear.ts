import { walkFrames } from '#mp3/walk-frames.ts'

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
  readonly text: string
  readonly items: readonly HeardItem[]
}

/** Returns the words that sound in a recording; an audio event is in parentheses. */
export type HearWords = (file: Uint8Array, signal?: AbortSignal) => Promise<readonly Omit<HeardItem, 'type'>[]>

/** What a vendor hears with. */
export interface Ear {
  readonly hearWords?: HearWords | undefined
  /** Whether it reads the script that a recording carries in place of hearing it; the default. */
  readonly readsScripts?: boolean | undefined
}

export interface HearingOptions {
  readonly tagAudioEvents: boolean
  /** The maximum number of distinct speakers. */
  readonly maximumSpeakers?: number
  readonly signal?: AbortSignal | undefined
}

type Spoken = Pick<HeardItem, 'text' | 'type' | 'speaker'>

/**
 * Hears an MP3 with `hearWords`, or "hears" the script in its lyrics tag, spread over its real duration. Without either it
 * hears a sentence saying that this is a simulation. Returns undefined for other bytes.
 *
 * A script consists of lines; `Ann: …` names the speaker, and the name is not spoken. Without any names, two speakers take
 * turns by line. `(coins jingling)` is an audio event, omitted unless requested.
 */
export async function hear(file: Uint8Array, ear: Ear, options: HearingOptions): Promise<Heard | undefined> {
  const { hearWords, readsScripts = true } = ear
  const walk = walkFrames(file)
  if (walk.outcome !== 'mp3') return undefined
  const durationSeconds = walk.durationMs / 1000
  const lyrics = readsScripts ? readLyrics(file) : undefined
  const sounded = lyrics === undefined ? await hearWords?.(file, options.signal) : undefined
  const script = lyrics?.text ?? `This is a simulated transcription of ${durationSeconds.toFixed(1)} seconds of audio.`
  const isHeard = sounded !== undefined && (sounded.length > 0 || !readsScripts)
  const items = isHeard ? itemsOf(sounded, options) : spread(speak(script, options), durationSeconds)
  const text = items.map((item) => item.text).join('')
  return { language: lyrics?.language ?? 'eng', durationSeconds, text, items }
}

/** Returns the words with the spacing between them, and speakers by the order in which they speak. */
function itemsOf(
  sounded: Awaited<ReturnType<HearWords>>,
  { tagAudioEvents, maximumSpeakers = 32 }: HearingOptions,
): HeardItem[] {
  const speakers = [...new Set(sounded.map(({ speaker }) => speaker))]
  const items: HeardItem[] = []
  for (const { speaker: voice, ...word } of sounded) {
    const type = isOnlyEvents(word.text) ? 'audio_event' : 'word'
    if (type === 'audio_event' && !tagAudioEvents) continue
    const speaker = Math.min(speakers.indexOf(voice), maximumSpeakers - 1)
    const startSeconds = items.at(-1)?.endSeconds
    if (startSeconds !== undefined)
      items.push({ speaker, text: ' ', type: 'spacing', startSeconds, endSeconds: word.startSeconds })
    items.push({ ...word, speaker, type })
  }
  return items
}

function speak(script: string, { tagAudioEvents, maximumSpeakers = 32 }: HearingOptions): Spoken[] {
  const lines = script.split('\n').filter((line) => line.trim() !== '')
  const named = lines.map((line) => /^\s*(?<name>\p{L}[\p{L}\p{N} .'-]{0,30}):\s+(?<words>.*)$/u.exec(line)?.groups)
  const names = [...new Set(named.flatMap((groups) => groups?.['name'] ?? []))]
  const spoken: Spoken[] = []
  let current = 0
  let turns = 0
  for (const [index, line] of lines.entries()) {
    const { name, words = line } = named[index] ?? {}
    if (name !== undefined) current = names.indexOf(name)
    else if (names.length === 0 && !isOnlyEvents(line)) current = turns++ % 2
    const speaker = Math.min(current, maximumSpeakers - 1)
    for (const text of words.match(/\([^()]*\)|[^\s(]+|\(/gu) ?? []) {
      const type = isOnlyEvents(text) ? 'audio_event' : 'word'
      if (type === 'audio_event' && !tagAudioEvents) continue
      if (spoken.length > 0) spoken.push({ text: ' ', type: 'spacing', speaker })
      spoken.push({ text, type, speaker })
    }
  }
  return spoken
}

function isOnlyEvents(line: string): boolean {
  return line.replaceAll(/\([^()]*\)/g, '').trim() === ''
}

/** Spreads the items by their length over the whole duration, without gap or overlap. */
function spread(spoken: readonly Spoken[], durationSeconds: number): HeardItem[] {
  const weights = spoken.map(({ text, type }) => (type === 'spacing' ? 1 : type === 'word' ? text.length + 2 : 12))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  let passed = 0
  const now = () => Math.floor((passed / total) * durationSeconds * 1000) / 1000
  return spoken.map((item, index) => {
    const startSeconds = now()
    passed += weights[index] ?? 0
    return { ...item, startSeconds, endSeconds: now() }
  })
}

/** Reads language and text of the lyrics in a tag as `id3Tag` writes it. */
function readLyrics(file: Uint8Array): { readonly language: string; readonly text: string } | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, Math.min(file.byteLength, 65_536))
  const at = bytes.indexOf('USLT')
  if (bytes.toString('latin1', 0, 3) !== 'ID3' || at < 0 || at + 11 > bytes.length || bytes[at + 10] !== 1)
    return undefined
  const frame = bytes.subarray(at + 11, at + 10 + bytes.readUInt32BE(at + 4))
  const text = frame
    .toString('utf16le', 3)
    .replaceAll(/[\uFEFF\0]/g, '')
    .trim()
  return text === '' ? undefined : { language: frame.toString('latin1', 0, 3), text }
}
