import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { symbolsOf, wordOf } from '../support/media/tone-code.ts'
import { hasSound } from '../support/media/tone-ear.ts'
import { createToneListener, LISTENING_RATE } from '../support/media/tone-listener.ts'
import { scriptSpeech, speakSamples } from '../support/media/tone-voice.ts'

const word = fc.record({ text: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }), speaker: fc.nat(15) })
const isSpoken = ({ text }: { text: string }) => Buffer.byteLength(text) <= 100 && text === text.toWellFormed()
const at = (timeMs: number) => Math.round((timeMs * LISTENING_RATE) / 1000)
/** Returns what is heard of samples that arrive in pieces of so many. */
function listen(samples: Int16Array, piece: number) {
  const listener = createToneListener()
  const words = []
  for (let at = 0; at < samples.length; at += piece) words.push(...listener.push(samples.subarray(at, at + piece)))
  return [...words, ...listener.end()]
}
function samplesOf(speech: Parameters<typeof speakSamples>[0]): Int16Array {
  const bytes = Buffer.concat([...speakSamples(speech, LISTENING_RATE)])
  return Int16Array.from({ length: bytes.length / 2 }, (_, index) => bytes.readInt16LE(index * 2))
}

describe('the code of scripted voices', () => {
  test('returns every word that it encodes', () => {
    fc.assert(
      fc.property(word.filter(isSpoken), (spoken) => {
        expect(wordOf(symbolsOf(spoken))).toEqual(spoken)
      }),
    )
  })

  test('recognizes a word of which a symbol is another or is missing', () => {
    fc.assert(
      fc.property(word.filter(isSpoken), fc.nat(), fc.nat(15), (spoken, place, low) => {
        const symbols = symbolsOf(spoken)
        const index = place % symbols.length
        const damaged = symbols.map((symbol, at) => (at === index ? { ...symbol, low } : symbol))
        fc.pre(symbols[index]?.low !== low)
        expect(wordOf(damaged)).toBeUndefined()
        expect(wordOf(symbols.toSpliced(index, 1))).not.toEqual(spoken)
      }),
    )
  })

  test('is heard at the times at which it sounds, also in noise and however the samples arrive', () => {
    const speech = scriptSpeech({ durationMs: 20_000, noisy: [{ startMs: 8000, endMs: 14_000 }] })
    const samples = samplesOf(speech)
    for (const piece of [977, 4096, samples.length]) {
      const heard = listen(samples, piece)
      expect(heard.map(({ text, speaker }) => ({ text, speaker }))).toEqual(
        speech.words.map(({ text, speaker }) => ({ text, speaker })),
      )
      for (const [index, { startSeconds, endSeconds }] of heard.entries()) {
        expect(Math.abs(startSeconds * 1000 - (speech.words[index]?.startMs ?? 0))).toBeLessThanOrEqual(2)
        expect(Math.abs(endSeconds * 1000 - (speech.words[index]?.endMs ?? 0))).toBeLessThanOrEqual(2)
      }
    }
  })

  test('a word of which the beginning or the end is missing is not heard', () => {
    const { words, ...rest } = scriptSpeech({ durationMs: 3000 })
    const samples = samplesOf({ ...rest, words })
    const [first, second] = words
    if (first === undefined || second === undefined) throw new Error('no words')
    const texts = (from: number, to?: number) => listen(samples.subarray(from, to), 4096).map(({ text }) => text)
    const all = words.map(({ text }) => text)
    expect(texts(at(first.startMs + 40))).toEqual(all.slice(1))
    expect(texts(0, at(second.endMs - 40))).toEqual([first.text])
  })
})

test('only a recording with sound is decoded', () => {
  expect(hasSound(generateMp3({ durationMs: 1000, seed: 'silence' }))).toBe(false)
})
