import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { HIGH_TONES, LOW_TONES, SYMBOL_MS, symbolsOf } from './tone-code.ts'

/** A word that the simulated vendors hear in any MP3 that is made of the recording. */
export interface ScriptedWord {
  readonly text: string
  readonly speaker: number
  readonly startMs: number
  readonly endMs: number
}

export interface Speech {
  readonly words: readonly ScriptedWord[]
  readonly durationMs: number
  /** Where noise is louder than the level of a silence, so that no pause is one. */
  readonly noisy?: readonly { readonly startMs: number; readonly endMs: number }[]
}

interface ScriptOptions {
  readonly durationMs: number
  readonly noisy?: Speech['noisy']
  readonly seed?: number
  /** Pauses between words, which no noise lets count as silences; at least 30 ms. */
  readonly gapMs?: readonly [shortest: number, longest: number]
}

const AMPLITUDE = 10_000
const RAMP_MS = 2
/** -31 dB: below the voices by 20 dB, and above the level of a silence. */
const NOISE_AMPLITUDE = 900
const CONSONANTS = 'bdfgklmnprstvz'
const VOWELS = 'aeiou'

/** Returns how long a voice speaks a word. */
function spokenMs(text: string): number {
  return symbolsOf({ text, speaker: 0 }).length * SYMBOL_MS
}

/**
 * Writes a script: sentences of different words by up to four speakers, with short gaps between words and longer pauses
 * between sentences, except in noise. The same options result in the same script.
 */
export function scriptSpeech({ durationMs, noisy = [], seed = 1, gapMs = [150, 220] }: ScriptOptions): Speech {
  const random = randomNumbers(seed)
  const between = (from: number, to: number) => from + random() * (to - from)
  const isNoisy = (timeMs: number) => noisy.some(({ startMs, endMs }) => timeMs >= startMs - 2000 && timeMs < endMs)
  const words: ScriptedWord[] = []
  for (let startMs = between(100, 400), speaker = 0, left = 8; ; left--) {
    const text = wordNumber(words.length)
    const endMs = startMs + spokenMs(text)
    if (endMs > durationMs - 100) return { words, durationMs, noisy }
    words.push({ text, speaker, startMs, endMs })
    const isPause = left === 0 && !isNoisy(endMs)
    startMs = endMs + (isPause ? between(350, 900) : between(...gapMs))
    if (left > 0) continue
    left = 5 + Math.floor(random() * 8)
    speaker = Math.floor(random() * 4)
  }
}

/** Speaks a script: yields samples of 16 bits, a second at a time. */
export function* speakSamples({ words, durationMs, noisy = [] }: Speech, sampleRate: number): Generator<Buffer> {
  const random = randomNumbers(7)
  const total = Math.round((durationMs * sampleRate) / 1000)
  const voices = words.flatMap(({ text, speaker, startMs }) =>
    symbolsOf({ text, speaker }).map((symbol, index) => ({
      ...symbol,
      at: Math.round(((startMs + index * SYMBOL_MS) * sampleRate) / 1000),
    })),
  )
  const waveOf = waves(sampleRate)
  let next = 0
  for (let from = 0; from < total; from += sampleRate) {
    const second = new Float64Array(Math.min(sampleRate, total - from))
    for (let index = Math.max(0, next - 1); index < voices.length; index++) {
      const { low, high, at } = voices[index] as (typeof voices)[number]
      if (at >= from + second.length) break
      next = index + 1
      for (const [offset, sample] of waveOf(low, high).entries())
        if (at + offset >= from && at + offset < from + second.length) second[at + offset - from] = sample
    }
    const isNoisy = noisy.some(
      ({ startMs, endMs }) =>
        from < (endMs * sampleRate) / 1000 && from + second.length > (startMs * sampleRate) / 1000,
    )
    const bytes = Buffer.alloc(second.length * 2)
    for (const [index, sample] of second.entries())
      bytes.writeInt16LE(Math.round(sample + (isNoisy ? (random() * 2 - 1) * NOISE_AMPLITUDE : 0)), index * 2)
    yield bytes
  }
}

/** Returns a WAV file of a script. */
export function waveOfSpeech(speech: Speech, sampleRate = 16_000): Buffer {
  const samples = Buffer.concat([...speakSamples(speech, sampleRate)])
  return Buffer.concat([waveHeader(samples.length, sampleRate), samples])
}

/** Writes a WAV file of a script of any length. */
export async function writeSpeech(path: string, speech: Speech, sampleRate = 16_000): Promise<void> {
  const file = createWriteStream(path)
  const bytes = Math.round((speech.durationMs * sampleRate) / 1000) * 2
  file.write(waveHeader(bytes, sampleRate))
  for (const second of speakSamples(speech, sampleRate)) if (!file.write(second)) await once(file, 'drain')
  file.end()
  await once(file, 'close')
}

function waveHeader(bytes: number, sampleRate: number): Buffer {
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(36 + bytes, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRate, 24)
  header.writeUInt32LE(sampleRate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(bytes, 40)
  return header
}

/** Returns a word of syllables; different numbers have different words. */
function wordNumber(number: number): string {
  const syllables = CONSONANTS.length * VOWELS.length
  const syllable = (index: number) => `${CONSONANTS[Math.floor(index / VOWELS.length)]}${VOWELS[index % VOWELS.length]}`
  const rest = Math.floor(number / syllables)
  return (rest === 0 ? '' : wordNumber(rest - 1)) + syllable(number % syllables)
}

/** Returns the sound of symbols, each computed once. */
function waves(sampleRate: number): (low: number, high: number) => Float64Array {
  const known = new Map<number, Float64Array>()
  const length = Math.floor((SYMBOL_MS * sampleRate) / 1000)
  const ramp = (RAMP_MS * sampleRate) / 1000
  return (low, high) => {
    const found = known.get(low * 16 + high)
    if (found !== undefined) return found
    const wave = Float64Array.from({ length }, (_, index) => {
      const fade = Math.min(1, index / ramp, (length - index) / ramp)
      return (
        AMPLITUDE *
        fade *
        (tone(LOW_TONES[low] ?? 0, index / sampleRate) + tone(HIGH_TONES[high] ?? 0, index / sampleRate))
      )
    })
    known.set(low * 16 + high, wave)
    return wave
  }
}

function tone(frequency: number, seconds: number): number {
  return Math.sin(2 * Math.PI * frequency * seconds)
}

/** Returns numbers from 0 to 1, the same ones for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
