import {
  END_MARK,
  HIGH_TONES,
  LOW_TONES,
  MAXIMUM_SYMBOLS,
  START_MARK,
  SYMBOL_MS,
  type Symbol,
  wordOf,
} from './tone-code.ts'

/** A coded word, at the times at which it sounds. */
export interface SoundedWord {
  readonly text: string
  readonly speaker: number
  readonly startSeconds: number
  readonly endSeconds: number
}

/** Hz of the samples that a listener takes. */
export const LISTENING_RATE = 8000

const SYMBOL_SAMPLES = (SYMBOL_MS * LISTENING_RATE) / 1000
const LONGEST_WORD_SAMPLES = (MAXIMUM_SYMBOLS + 2) * SYMBOL_SAMPLES
/** Steps in which the start of a word is looked for, and then found exactly: 5 ms and 1 ms. */
const COARSE_STEP = 40
const FINE_STEP = 8
/** Below this root mean square of 32,767, nothing is a voice. */
const QUIETEST = 150
/** Shares of a window's energy: a start mark has half of it in its low tone, and a symbol all in its two tones. */
const MARK_SHARE = 0.3
const SYMBOL_SHARE = 0.5

const WINDOW = Float64Array.from(
  { length: SYMBOL_SAMPLES },
  (_, index) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (index + 0.5)) / SYMBOL_SAMPLES),
)
const LOW = LOW_TONES.map(detectorOf)
const HIGH = HIGH_TONES.map(detectorOf)
const START_TONE = detectorOf(LOW_TONES[START_MARK] ?? 0)

interface Detector {
  readonly cosine: Float64Array
  readonly sine: Float64Array
}

/** Hears coded words in consecutive pieces of samples, of one channel at `LISTENING_RATE`. */
export function createToneListener(): { push(samples: Int16Array): SoundedWord[]; end(): SoundedWord[] } {
  let pending = new Int16Array()
  let passed = 0
  const listen = (isLast: boolean) => {
    const words: SoundedWord[] = []
    const last = pending.length - (isLast ? 3 * SYMBOL_SAMPLES : LONGEST_WORD_SAMPLES)
    let at = 0
    while (at <= last) {
      const found = wordAt(pending, at)
      if (found === undefined) at += COARSE_STEP
      else {
        words.push({ ...found.word, ...timesOf(passed + found.start, passed + found.end) })
        at = found.end
      }
    }
    pending = pending.slice(at)
    passed += at
    return words
  }
  return {
    push: (samples) => {
      const joined = new Int16Array(pending.length + samples.length)
      joined.set(pending)
      joined.set(samples, pending.length)
      pending = joined
      return listen(false)
    },
    end: () => listen(true),
  }
}

function timesOf(start: number, end: number): Pick<SoundedWord, 'startSeconds' | 'endSeconds'> {
  return { startSeconds: start / LISTENING_RATE, endSeconds: end / LISTENING_RATE }
}

/** Returns the word whose start mark begins to sound in the window at `at`. */
function wordAt(samples: Int16Array, at: number) {
  const energy = energyAt(samples, at)
  if (energy < QUIETEST ** 2 * SYMBOL_SAMPLES) return undefined
  if (shareOf(powerAt(samples, at, START_TONE), energy) < MARK_SHARE) return undefined
  const start = loudestMark(samples, at)
  const symbols: Symbol[] = []
  for (let end = start; symbols.length < MAXIMUM_SYMBOLS;) {
    const symbol = symbolAt(samples, end)
    if (symbol === undefined) return undefined
    symbols.push(symbol)
    end += SYMBOL_SAMPLES
    if (symbol.low !== END_MARK) continue
    const word = wordOf(symbols)
    return word && { word, start, end }
  }
  return undefined
}

/** Returns where the start mark fills the window best: the fading window prefers the exact place. */
function loudestMark(samples: Int16Array, from: number): number {
  let best = from
  let highest = 0
  for (let at = from; at <= from + SYMBOL_SAMPLES; at += FINE_STEP) {
    const power = powerAt(samples, at, START_TONE)
    if (power <= highest) continue
    highest = power
    best = at
  }
  return best
}

function symbolAt(samples: Int16Array, at: number): Symbol | undefined {
  if (at + SYMBOL_SAMPLES > samples.length) return undefined
  const low = loudest(samples, at, LOW)
  const high = loudest(samples, at, HIGH)
  if (shareOf(low.power + high.power, energyAt(samples, at)) < SYMBOL_SHARE) return undefined
  return { low: low.tone, high: high.tone }
}

function loudest(samples: Int16Array, at: number, detectors: readonly Detector[]): { tone: number; power: number } {
  let tone = 0
  let power = -1
  for (const [index, detector] of detectors.entries()) {
    const found = powerAt(samples, at, detector)
    if (found <= power) continue
    power = found
    tone = index
  }
  return { tone, power }
}

function powerAt(samples: Int16Array, at: number, { cosine, sine }: Detector): number {
  let real = 0
  let imaginary = 0
  for (let index = 0; index < SYMBOL_SAMPLES; index++) {
    const sample = samples[at + index] ?? 0
    real += sample * (cosine[index] as number)
    imaginary += sample * (sine[index] as number)
  }
  return real * real + imaginary * imaginary
}

/** Returns the energy within the window, weighted by it. */
function energyAt(samples: Int16Array, at: number): number {
  let energy = 0
  for (let index = 0; index < SYMBOL_SAMPLES; index++) {
    const weighted = (samples[at + index] ?? 0) * (WINDOW[index] as number)
    energy += weighted * weighted
  }
  return energy
}

/** Returns the share of the energy that the powers of tones explain: 1 for tones alone. The factor is that of the window. */
function shareOf(power: number, energy: number): number {
  return (3 * power) / (SYMBOL_SAMPLES * energy)
}

function detectorOf(frequency: number): Detector {
  const angle = (2 * Math.PI * frequency) / LISTENING_RATE
  return {
    cosine: WINDOW.map((weight, index) => weight * Math.cos(angle * index)),
    sine: WINDOW.map((weight, index) => weight * Math.sin(angle * index)),
  }
}
