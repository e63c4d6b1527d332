import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cue, type TranscribedWord, writeCues } from '../../../../client/subtitles/subtitles.ts'
import { judgeList } from '../../../support/client/subtitles/judge-list.ts'

const TEXT =
  'Today we are going to talk about the history of the railway in the north of England, which is one of the most interesting stories that nobody ever tells and so on until they all sleep well.'
const WORDS = TEXT.split(' ')
const MINIMUM_MS = 834
/** The plain style promises no minimum. */
const PLAIN_MS = 700
const before = { word: 'Before.', start: 1, end: 1.5 }
const after = (start: number) => ({ word: 'After.', start, end: start + 0.4 })
const crowd = (times: (index: number) => Partial<TranscribedWord>) =>
  WORDS.map((word, index) => ({ word, ...times(index) }))
const isReadable = ({ startMs, endMs, lines }: Cue) => {
  const columns = lines.reduce((sum, { prefix, text }) => sum + prefix.length + text.length, lines.length - 1)
  return endMs - startMs >= MINIMUM_MS && columns * 50 <= endMs - startMs
}

describe('40 words at one moment', () => {
  it.each<[string, TranscribedWord[], number, number]>([
    ['and the next 17 s later', [before, ...crowd(() => ({ start: 10, end: 10 })), after(27)], 10_000, 27_000],
    ['just before the next', [before, ...crowd(() => ({ start: 26.9, end: 26.9 })), after(27)], 1500, 27_000],
    ['that end before they start', [before, ...crowd(() => ({ start: 10, end: 9 })), after(27)], 10_000, 27_000],
    ['that end with the silence', [before, ...crowd(() => ({ start: 10, end: 27 })), after(27)], 10_000, 27_000],
    ['some milliseconds apart', [before, ...crowd((at) => ({ start: 10 + at / 250 })), after(27)], 10_000, 27_000],
    [
      'in two places close together',
      [before, ...crowd((at) => ({ start: at < 20 ? 10 : 10.3, end: 10.3 })), after(27)],
      10_000,
      27_000,
    ],
    ['at the end of the recording', [before, ...crowd(() => ({ start: 28.4, end: 28.4 }))], 1500, 28_500],
  ])('%s are spread into the free time', (_, words, from, to) => {
    const { cues, violations } = writeCues(words, { language: 'en', durationMs: 28_500 })
    expect(cues.filter((cue) => !isReadable(cue))).toEqual([])
    expect(violations.filter(({ rule }) => rule !== 'word-times')).toEqual([])
    const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
    const own = atoms.filter(({ text }) => text !== 'Before.' && text !== 'After.')
    expect(own.map(({ text }) => text).join(' ')).toBe(TEXT)
    for (const { startMs } of own) {
      expect(startMs).toBeGreaterThanOrEqual(from)
      expect(startMs).toBeLessThan(to)
    }
    expect(atoms[0]?.startMs).toBe(1000)
    expect(cues.at(-1)?.endMs).toBeLessThanOrEqual(28_500)
  })

  it('are told of, each with its word', () => {
    const { violations } = writeCues(
      crowd(() => ({ start: 10, end: 10.4 })),
      { language: 'en' },
    )
    expect(violations.map(({ why }) => why)).toContain('word 6 (about) has no time of its own')
    expect(violations.every(({ rule }) => rule === 'word-times')).toBe(true)
  })

  it('fill what free time there is, if that is too little to read them', () => {
    const { cues, violations } = writeCues([before, ...crowd(() => ({ start: 2, end: 2 })), after(6)], {
      language: 'en',
    })
    expect(cues.length).toBeGreaterThan(2)
    expect(Math.min(...cues.map(({ startMs, endMs }) => endMs - startMs))).toBeGreaterThan(MINIMUM_MS)
    expect(violations.map(({ rule }) => rule)).toContain('reading-speed')
  })
})

it('keeps the times of words that begin together and can be read', () => {
  const words = [
    { word: 'Are', start: 1, end: 1.2, speaker: 'a' },
    { word: 'you', start: 1.2, end: 1.2, speaker: 'a' },
    { word: 'Yes!', start: 1.2, end: 1.9, speaker: 'b' },
  ]
  const { cues } = writeCues(words, { language: 'en' })
  const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
  expect(atoms.map(({ startMs }) => startMs)).toEqual([1000, 1200, 1201])
})

/** A crowd between two sentences with times of their own, and the free time around it. */
const drawnCrowd = fc.record({
  words: fc.integer({ min: 1, max: 40 }),
  from: fc.nat({ max: WORDS.length - 1 }),
  beforeMs: fc.nat({ max: 20_000 }),
  afterMs: fc.integer({ min: 1, max: 40_000 }),
  apartMs: fc.constantFrom(0, 0, 1, 4),
  end: fc.constantFrom('at the start', 'before the start', 'soon', 'with the free time', 'missing'),
  speakers: fc.constantFrom(0, 1, 2, 3),
})
type DrawnCrowd = typeof drawnCrowd extends fc.Arbitrary<infer Value> ? Value : never

interface Window {
  readonly firstWord: number
  readonly endWord: number
  readonly fromMs: number
  readonly toMs: number
  readonly neededMs: number
}

const SENTENCE = 'Nobody who lives beyond the river walks home.'.split(' ')
const MS_PER_CHARACTER = 80
const RUNS = 300

/** Returns the words of a recording that begins and ends with a sentence, and where its crowds have to be. */
function recordingOf(crowds: readonly DrawnCrowd[]): { words: TranscribedWord[]; windows: Window[] } {
  const words: TranscribedWord[] = []
  const windows: Window[] = []
  let timeMs = 0
  const say = () => {
    for (const word of SENTENCE) {
      const startMs = timeMs
      timeMs += word.length * MS_PER_CHARACTER
      words.push({ word, start: startMs / 1000, end: timeMs / 1000, speaker: 'host' })
    }
  }
  say()
  for (const { words: count, from, beforeMs, afterMs, apartMs, end, speakers } of crowds) {
    const firstWord = words.length
    const fromMs = timeMs
    const statedMs = timeMs + beforeMs
    const toMs = statedMs + (count - 1) * apartMs + afterMs
    const turns: number[] = []
    for (let index = 0; index < count; index++) {
      const word = WORDS[(from + index) % WORDS.length] as string
      const startMs = statedMs + index * apartMs
      const ends = {
        'at the start': startMs,
        'before the start': startMs - 300,
        soon: startMs + 3,
        'with the free time': toMs,
      }
      const speaker = speakers === 0 ? 'host' : `guest ${Math.floor(index / 4) % speakers}`
      if (words.at(-1)?.speaker !== speaker || index === 0) turns.push(0)
      turns.push((turns.pop() ?? 0) + word.length + 1)
      words.push({ word, start: startMs / 1000, speaker, ...(end !== 'missing' && { end: ends[end] / 1000 }) })
    }
    // A single word without an end has a usable start and is given a normal pace; one with a length of its own keeps it.
    const isLone = count === 1 && (end === 'missing' || end === 'with the free time')
    const ownMs = turns.map((columns) => Math.max(1000, columns * MS_PER_CHARACTER))
    const neededMs = isLone ? Infinity : ownMs.reduce((sum, milliseconds) => sum + milliseconds)
    windows.push({ firstWord, endWord: words.length, fromMs, toMs, neededMs })
    timeMs = toMs
    say()
  }
  return { words, windows }
}

describe('random crowds between sentences', () => {
  it('have readable cues wherever the free time around them allows it, within it, and sentences keep their times', () => {
    let roomy = 0
    const options = fc.record({
      style: fc.constantFrom('netflix', 'bbc', 'plain'),
      speakers: fc.constantFrom('dash', 'label', 'none'),
      maximumLines: fc.constantFrom(1, 2),
    })
    fc.assert(
      fc.property(fc.array(drawnCrowd, { minLength: 1, maxLength: 3 }), options, (crowds, style) => {
        const { words, windows } = recordingOf(crowds)
        const { written, problems } = judgeList({ words, options: { ...style, language: 'en' } })
        expect(problems).toEqual([])
        for (const [index, { endMs }] of written.cues.entries())
          expect(endMs).toBeLessThanOrEqual(written.cues[index + 1]?.startMs ?? Infinity)
        const windowOf = (word: number) => windows.find(({ firstWord, endWord }) => firstWord <= word && word < endWord)
        for (const { startMs, endMs, lines } of written.cues) {
          const atoms = lines.flatMap((line) => line.atoms)
          for (const { word, startMs: saidMs } of atoms) {
            const window = windowOf(word)
            const statedMs = (words[word]?.start ?? 0) * 1000
            const [fromMs, toMs] = window === undefined ? [statedMs - 1, statedMs] : [window.fromMs, window.toMs]
            expect(saidMs).toBeGreaterThanOrEqual(fromMs)
            // Starts increase: each word of a crowd without any room moves the next ones by a millisecond.
            expect(saidMs).toBeLessThanOrEqual(toMs + 41)
          }
          const crowded = atoms.flatMap(({ word }) => windowOf(word) ?? [])
          if (crowded.length === 0 || crowded.some(({ fromMs, toMs, neededMs }) => toMs - fromMs < neededMs)) continue
          roomy++
          expect(endMs - startMs).toBeGreaterThanOrEqual(style.style === 'plain' ? PLAIN_MS : MINIMUM_MS)
        }
      }),
      { numRuns: RUNS },
    )
    expect(roomy).toBeGreaterThan(RUNS)
  })
})
