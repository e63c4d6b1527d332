import { spawn } from 'node:child_process'
import pLimit from 'p-limit'
import { findFfmpeg } from '../../../../api/request/audio/find-ffmpeg.ts'
import { measureMpeg } from './mpeg-duration.ts'
import { createToneListener, LISTENING_RATE, type SoundedWord } from './tone-listener.ts'

/** Text of an ID3v2 USLT frame with its ISO 639-2 language (`eng`). */
interface Lyrics {
  readonly language: string
  readonly text: string
}

const DECODE = `-v error -f mp3 -i pipe:0 -ac 1 -ar ${LISTENING_RATE} -f s16le pipe:1`.split(' ')

let ffmpegPath: Promise<string | undefined> | undefined

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

/** Decodes an MP3 with the service's ffmpeg, into pieces of samples of one channel. There are none without an ffmpeg. */
async function* decodeRecording(file: Uint8Array): AsyncGenerator<Int16Array> {
  ffmpegPath ??= findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  const path = await ffmpegPath
  if (path === undefined) return
  const decoder = spawn(path, DECODE, { stdio: ['pipe', 'pipe', 'ignore'] })
  // It may end before it has read everything; what it decoded until then counts.
  decoder.once('error', () => decoder.stdout.destroy())
  decoder.stdin.on('error', () => undefined)
  decoder.stdin.end(file)
  try {
    let rest = Buffer.alloc(0)
    for await (const chunk of decoder.stdout) {
      const bytes = Buffer.concat([rest, chunk as Buffer])
      const samples = new Int16Array(bytes.length >> 1)
      for (let index = 0; index < samples.length; index++) samples[index] = bytes.readInt16LE(index * 2)
      rest = bytes.subarray(samples.length * 2)
      yield samples
    }
  } finally {
    decoder.kill('SIGKILL')
  }
}

/**
 * Reads the first unsynchronized-lyrics frame of an ID3v2.3 or 2.4 tag; undefined when there is none or the tag is
 * damaged. Source: id3.org, ID3v2.3.0 section 4.9 and ID3v2.4.0-frames section 4.8.
 */
function readLyrics(file: Uint8Array): Lyrics | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const version = bytes[3]
  if (bytes.toString('latin1', 0, 3) !== 'ID3' || (version !== 3 && version !== 4) || bytes.length < 10)
    return undefined
  const flags = bytes[5] ?? 0
  const content = bytes.subarray(10, 10 + syncsafe(bytes, 6))
  // Version 2.3 escapes false frame syncs in the whole tag, version 2.4 in each flagged frame.
  const tag = version === 3 && (flags & 0x80) !== 0 ? resynchronized(content) : content
  let offset = (flags & 0x40) === 0 ? 0 : version === 3 ? 4 + readLength(tag, 0, 3) : readLength(tag, 0, 4)
  while (offset + 10 <= tag.length && tag[offset] !== 0) {
    const length = readLength(tag, offset + 4, version)
    const frame = tag.subarray(offset + 10, offset + 10 + length)
    if (tag.toString('latin1', offset, offset + 4) === 'USLT') {
      const isEscaped = version === 4 && ((tag[offset + 9] ?? 0) & 0x02) !== 0
      return lyricsOf(isEscaped ? resynchronized(frame) : frame)
    }
    offset += 10 + length
  }
  return undefined
}

/** Reads the frame: encoding byte, three letters of language, a terminated description, and the text. */
function lyricsOf(frame: Buffer): Lyrics | undefined {
  const encoding = frame[0]
  if (frame.length < 5 || encoding === undefined || encoding > 3) return undefined
  const start = afterDescription(frame, encoding === 1 || encoding === 2 ? 2 : 1)
  const text = decode(frame.subarray(start), encoding).replaceAll('\0', '').trim()
  return text === '' ? undefined : { language: frame.toString('latin1', 1, 4).toLowerCase(), text }
}

/** Returns the offset after the description's terminator, which has two bytes in UTF-16. */
function afterDescription(frame: Buffer, characterBytes: 1 | 2): number {
  for (let offset = 4; offset + characterBytes <= frame.length; offset += characterBytes) {
    if (frame.subarray(offset, offset + characterBytes).every((byte) => byte === 0)) return offset + characterBytes
  }
  return frame.length
}

function decode(bytes: Buffer, encoding: number): string {
  if (encoding === 0) return bytes.toString('latin1')
  if (encoding === 3) return bytes.toString('utf8')
  const isBigEndian = encoding === 2 || (bytes[0] === 0xfe && bytes[1] === 0xff)
  return new TextDecoder(isBigEndian ? 'utf-16be' : 'utf-16le').decode(bytes)
}

function resynchronized(bytes: Buffer): Buffer {
  return Buffer.from(bytes.filter((byte, index) => byte !== 0 || bytes[index - 1] !== 0xff))
}

function readLength(bytes: Buffer, offset: number, version: 3 | 4): number {
  if (offset + 4 > bytes.length) return 0
  return version === 4 ? syncsafe(bytes, offset) : bytes.readUInt32BE(offset)
}

function syncsafe(bytes: Buffer, offset: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(offset, offset + 4)
  return ((a & 0x7f) << 21) | ((b & 0x7f) << 14) | ((c & 0x7f) << 7) | (d & 0x7f)
}
