import { describe, expect, it } from 'vitest'
import { leastViolations } from '../../../../client/subtitles/check/least-violations.ts'
import { breakCosts } from '../../../../client/subtitles/cues/break-costs.ts'
import {
  type Atom,
  type Cue,
  type CueLine,
  checkCues,
  checkText,
  renderVtt,
  rulesOf,
  type SubtitleRules,
  type TranscribedWord,
  writeCues,
} from '../../../../client/subtitles/subtitles.ts'
import { judgeList } from '../../../support/client/subtitles/judge-list.ts'
import { linesOf, speak } from '../../../support/client/subtitles/speech.ts'
import { drawWordList } from '../../../support/client/subtitles/word-lists.ts'

const TALK =
  'Today we are going to talk about the history of the railway in the north of England, which is one of the most interesting stories that nobody ever tells.'
const WORDS = speak(
  'The last tram leaves at midnight, and nobody who lives beyond the river wants to walk home. Yes, really.',
)
const RULES = rulesOf(WORDS, { language: 'en' })
const { cues: GOOD } = writeCues(WORDS, { language: 'en' })
const changed = (change: (cues: Cue[]) => unknown): Cue[] => {
  const cues = structuredClone(GOOD) as Cue[]
  change(cues)
  return cues
}
const said = (text: string, word: number, speaker: string): Atom => ({
  text,
  startMs: word * 300,
  endMs: word * 300 + 250,
  word,
  glued: false,
  event: false,
  speaker,
})
const set = (target: Cue | CueLine | undefined, values: object) => Object.assign(target as object, values)
/** Tries all ways to end cues and lines after each atom, and counts what the checker finds. */
function leastOfAll(atoms: readonly Atom[], cues: readonly Cue[], rules: SubtitleRules): number {
  const prefixes = new Map(
    cues.flatMap(({ lines }) =>
      lines.flatMap(({ prefix, speaker }) => (prefix === '' ? [] : [[speaker, prefix] as const])),
    ),
  )
  const least: number[] = [0]
  for (let to = 1; to <= atoms.length; to++) {
    least[to] = Infinity
    for (let from = 0; from < to; from++) {
      const own = atoms.slice(from, to)
      for (let breaks = 0; breaks < 2 ** (own.length - 1); breaks++) {
        const cue = cueOf(own, atoms[to], rules, breaks, atoms[from - 1], prefixes)
        const following = atoms.slice(to, to + 1)
        const next = following.length === 0 ? [] : [cueOf(following, undefined)]
        const broken = brokenBy([cue, ...next], rules)
        least[to] = Math.min(least[to] ?? Infinity, (least[from] ?? Infinity) + broken)
      }
    }
  }
  return least[atoms.length] ?? Infinity
}
/** Counts what the first cue breaks by its times; a way that breaks a rule of lines is no way. */
function brokenBy(cues: Cue[], rules: SubtitleRules): number {
  const own = checkCues(cues, rules).filter(({ cue, why }) => cue === 0 && !why.endsWith('before a line'))
  return own.some(({ rule }) => rule.startsWith('line-') || rule === 'maximum-duration') ? Infinity : own.length
}
function cueOf(
  own: readonly Atom[],
  next: Atom | undefined,
  rules: SubtitleRules = RULES,
  breaks = 0,
  before?: Atom,
  prefixes: ReadonlyMap<string | undefined, string> = new Map(),
): Cue {
  const several = own.some(({ speaker }) => speaker !== own[0]?.speaker)
  const lines: { prefix: string; text: string; atoms: Atom[] }[] = []
  for (const [index, atom] of own.entries()) {
    const last = lines.at(-1)
    if (index > 0 && last && (breaks & (1 << (index - 1))) === 0) {
      last.text += (atom.glued ? '' : ' ') + atom.text
      last.atoms.push(atom)
      continue
    }
    const previous = own[index - 1] ?? before
    const turns = previous === undefined || previous.speaker !== atom.speaker
    const dash = rules.speakers === 'dash' && several && (turns || index === 0) ? rules.dash : ''
    const label = rules.speakers === 'label' && turns ? (prefixes.get(atom.speaker) ?? '') : ''
    lines.push({ prefix: dash + label, text: atom.text, atoms: [atom] })
  }
  const startMs = own[0]?.startMs ?? 0
  const nextMs = next?.startMs ?? Infinity
  const roomy = nextMs - rules.gapMs > startMs
  const endMs = roomy ? Math.min(nextMs - rules.gapMs, startMs + rules.maximumMs) : nextMs
  return { startMs, endMs, lines }
}
const LISTS = 150

describe('lines', () => {
  it('are broken after punctuation and before conjunctions and prepositions, not after articles', () => {
    const { cues, violations } = writeCues(speak(TALK), { language: 'eng' })
    expect(violations).toEqual([])
    expect(linesOf(cues)).toEqual([
      ['Today we are going to talk', 'about the history of the railway'],
      ['in the north of England,'],
      ['which is one of the most interesting', 'stories that nobody ever tells.'],
    ])
  })

  it.each([
    ['en', ['My sister bought the bread', 'after the long meeting downtown was over.']],
    ['fr', ['Le dernier train est parti', 'avec toute la famille de ma grande soeur.']],
  ])('begin with a preposition of their language rather than being equal: %s', (language, lines) => {
    expect(linesOf(writeCues(speak(lines.join(' ')), { language }).cues)).toEqual([lines])
  })

  it.each([
    ['netflix', undefined, 42],
    ['bbc', undefined, 37],
    ['netflix', 30, 30],
  ] as const)('have at most the characters of the style %s with maximumLine %s', (style, maximumLine, most) => {
    const { cues } = writeCues(speak(`${TALK} ${TALK} ${TALK}`), {
      style,
      language: 'en',
      ...(maximumLine === undefined ? {} : { maximumLine }),
    })
    const longest = Math.max(...linesOf(cues).flatMap((lines) => lines.map((line) => line.length)))
    expect(longest).toBeLessThanOrEqual(most)
    expect(longest).toBeGreaterThan(most - 8)
  })

  it('stay one line as long as the text fits', () => {
    expect(linesOf(writeCues(speak('The last tram leaves, but not today.')).cues)).toEqual([
      ['The last tram leaves, but not today.'],
    ])
  })

  it.each([
    ['ja', 13, '最終の電車は真夜中に出発しますが雨の中を歩いて帰りたい人は誰もいません'],
    ['zh', 16, '最后一班电车在午夜出发住在河对岸的人都不想在雨中走回家真的吗是的今天'],
    ['ko', 16, '마지막전차는자정에출발하는데비를맞으며집에걸어가고싶은사람은없습니다정말'],
  ])('of %s have at most %i full-width characters and are broken between words', (language, most, text) => {
    const words = Array.from(text, (word, index) => ({ word, start: index / 4, end: (index + 1) / 4 }))
    const spaces = [...words, { word: ' ', type: 'spacing' as const }]
    const { cues } = writeCues(spaces)
    const lines = linesOf(cues).flat()
    expect(lines.join('')).toBe(text)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(most)
    if (language === 'ko') return
    const starts = Array.from(new Intl.Segmenter(language, { granularity: 'word' }).segment(text), ({ index }) => index)
    let offset = 0
    for (const line of lines) {
      expect(starts).toContain(offset)
      offset += line.length
    }
  })

  it('count half-width characters as half of a full-width one', () => {
    const words = [{ word: '我们今天ABCDEFGHIJKLMNOPQRSTUVWX', start: 0, end: 4 }]
    expect(linesOf(writeCues(words, { language: 'zh' }).cues)).toEqual([['我们今天ABCDEFGHIJKLMNOPQRSTUVWX']])
  })

  it('of Thai are broken between words, which have no spaces', () => {
    const text = 'รถรางเที่ยวสุดท้ายออกตอนเที่ยงคืนและไม่มีใครอยากเดินกลับบ้านท่ามกลางสายฝน'
    const { cues } = writeCues([{ word: text, start: 0, end: 6 }])
    const lines = linesOf(cues).flat()
    expect(lines.length).toBeGreaterThan(1)
    expect(lines.join('')).toBe(text)
    const starts = Array.from(new Intl.Segmenter('th', { granularity: 'word' }).segment(text), ({ index }) => index)
    expect(starts).toContain(lines[0]?.length)
  })

  it('never begin with closing punctuation or end with an opening bracket', () => {
    const text = '我们今天要讨论的是铁路的历史，它非常有意思。「真的吗？」他问，「是的。」'
    const words = Array.from(text.repeat(5), (word, index) => ({ word, start: index / 3, end: (index + 1) / 3 }))
    for (const line of linesOf(writeCues(words).cues).flat()) expect(line).not.toMatch(/^[，。？」]|「$/u)
  })

  it('keep the logical order of right-to-left text', () => {
    const text = 'יוצאת החשמלית האחרונה בחצות, ואף אחד לא רוצה ללכת הביתה בגשם.'
    expect(
      linesOf(writeCues(speak(text), { language: 'he' }).cues)
        .flat()
        .join(' '),
    ).toBe(text)
  })

  it('cut words that are longer than a line, addresses after punctuation', () => {
    const url = 'https://example.org/archives/railways/north-of-england/1984?page=12'
    const { cues } = writeCues([{ word: url, start: 0, end: 5 }])
    expect(linesOf(cues)).toEqual([['https://example.org/archives/railways/', 'north-of-england/1984?page=12']])
  })
})

describe('times', () => {
  it('begin with the first word and stay up to 7 seconds, 5/6 of a second at least', () => {
    const { cues } = writeCues([
      { word: 'Yes.', start: 1, end: 1.2 },
      { word: 'No.', start: 10, end: 10.1 },
    ])
    expect(cues.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([
      [1000, 1834],
      [10_000, 10_834],
    ])
  })

  it('leave a gap of two frames, by the frame rate', () => {
    const words = speak(`${TALK} ${TALK}`)
    for (const [framesPerSecond, gapMs] of [
      [24, 84],
      [25, 80],
      [60, 34],
    ] as const) {
      const { cues } = writeCues(words, { language: 'en', framesPerSecond })
      const gaps = cues.slice(1).map(({ startMs }, index) => startMs - (cues[index]?.endMs ?? 0))
      expect(Math.min(...gaps)).toBe(gapMs)
    }
  })

  it('extend a cue into the silence after it until it can be read at 20 characters a second', () => {
    const { cues, violations } = writeCues(speak('Nobody ever tells this one.', { secondsPerCharacter: 0.02 }))
    expect(violations).toEqual([])
    expect(cues[0]?.endMs).toBe(27 * 50)
  })

  it('let sound events end before the sound does', () => {
    const { cues, violations } = writeCues([{ word: '(music)', start: 0, end: 60, type: 'audio_event' }])
    expect(cues.map(({ startMs, endMs }) => endMs - startMs)).toEqual([7000])
    expect(violations).toEqual([])
  })

  it('are taken from the start of a text inside a word in proportion to its width', () => {
    const { cues } = writeCues([{ word: 'a'.repeat(126), start: 0, end: 9 }])
    expect(cues.map(({ startMs, lines }) => [startMs, lines.length])).toEqual([
      [0, 1],
      [3000, 2],
    ])
  })
})

describe('violations', () => {
  it('report speech that is faster than can be read', () => {
    const words = speak(`${TALK} ${TALK}`, { secondsPerCharacter: 0.03 })
    const { violations } = writeCues(words, { language: 'en' })
    expect(violations).toContainEqual({
      rule: 'reading-speed',
      cue: 0,
      why: expect.stringMatching(
        /^\d+\.\d columns a second instead of 20; the next words begin \d\.\d{3} s after its own$/,
      ),
    })
  })

  it('report a word that has too little time before the next speaker', () => {
    const words = [
      ...speak(TALK, { speaker: 'a' }),
      ...speak('Sure.', { speaker: 'b', start: 20, secondsPerCharacter: 0.04 }),
      ...speak(TALK, { speaker: 'a', start: 20.3 }),
    ]
    const { violations } = writeCues(words, { language: 'en', maximumLines: 1 })
    expect(violations.map(({ rule }) => rule)).toContain('minimum-duration')
  })

  it('report a word that is longer than any cue may be', () => {
    expect(writeCues([{ word: 'Goooal!', start: 0, end: 12 }]).violations).toEqual([
      { rule: 'cut-short', cue: 0, why: 'it ends 5.000 s before its last word does' },
    ])
  })

  it.each<[string, Partial<TranscribedWord>]>([
    ['has no usable start', { start: null, end: 2 }],
    ['has no usable start', { start: Number.NaN, end: 2 }],
    ['has no usable start', { start: -3, end: 2 }],
    ['has no usable end', { start: 1.5, end: Infinity }],
    ['ends before it starts', { start: 1.5, end: 1.2 }],
    ['has no duration', { start: 1.5, end: 1.5 }],
    ['starts out of order', { start: 900, end: 901 }],
    ['starts out of order', { start: 0.2, end: 0.4 }],
  ])('report a word that %s, and place it between its neighbors: %o', (why, times) => {
    const words = [
      { word: 'So', start: 0.5, end: 0.9 },
      { word: 'one', start: 1, end: 1.4 },
      { word: 'two', ...times },
      { word: 'three.', start: 2, end: 2.5 },
      { word: 'Four.', start: 3, end: 3.5 },
    ]
    const { cues, violations } = writeCues(words)
    expect(violations).toEqual([{ rule: 'word-times', cue: 0, why: `word 2 (two) ${why}` }])
    const [, first, second, third] = cues.flatMap(({ lines }) => lines.flatMap(({ atoms }) => atoms))
    expect(second?.startMs).toBeGreaterThan(first?.startMs ?? Infinity)
    expect(third?.startMs).toBe(2000)
  })

  it('give words without any times a normal pace', () => {
    const { cues, violations } = writeCues(TALK.split(' ').map((word) => ({ word })))
    expect(violations.every(({ rule }) => rule === 'word-times')).toBe(true)
    expect(violations).toHaveLength(TALK.split(' ').length)
    expect(cues.at(-1)?.endMs).toBeGreaterThan(5000)
  })
})

describe('speakers', () => {
  const dialog = [
    ...speak('Are you coming?', { speaker: 'speaker_0' }),
    ...speak('In a minute.', { speaker: 'speaker_1', start: 1.2 }),
  ]

  it.each([
    ['dash', 'en', ['-Are you coming?', '-In a minute.']],
    ['dash', 'de', ['- Are you coming?', '- In a minute.']],
    ['label', 'en', ['[Speaker 1] Are you coming?', '[Speaker 2] In a minute.']],
    ['none', 'en', ['Are you coming?', 'In a minute.']],
  ] as const)('never share a line: %s, %s', (speakers, language, lines) => {
    expect(linesOf(writeCues(dialog, { speakers, language }).cues)).toEqual([lines])
  })

  it('have no dash in a cue of their own, and a label only where their turn begins', () => {
    const words = [...speak(TALK, { speaker: 'Ann' }), ...speak(TALK, { speaker: 'Bob', start: 20 })]
    const dashed = linesOf(writeCues(words, { language: 'en' }).cues).flat()
    expect(dashed.filter((line) => line.startsWith('-'))).toEqual([])
    const labeled = linesOf(writeCues(words, { language: 'en', speakers: 'label' }).cues).flat()
    expect(labeled.filter((line) => line.startsWith('['))).toEqual([
      expect.stringMatching(/^\[Ann\] Today/),
      expect.stringMatching(/^\[Bob\] Today/),
    ])
  })

  it('are taken from the word before where the transcription names none', () => {
    const words = speak('Are you coming now?', { speaker: 'a' }).map(({ speaker, ...word }, index) =>
      index < 2 ? { ...word, ...(speaker === undefined ? {} : { speaker }) } : { ...word, speaker: null },
    )
    expect(linesOf(writeCues(words).cues)).toEqual([['Are you coming now?']])
  })

  it.each(['', '  ', '\u200b', '\u202e\u2066', '\u3164', '\u0000', '\u2060\ufeff'])(
    'without a visible name have neither label nor dash: %j',
    (speaker) => {
      const words = [...speak('Are you there?', { speaker }), ...speak('Yes.', { speaker: 'Ann', start: 2 })]
      for (const [speakers, prefixes] of [
        ['label', ['', '[Ann] ']],
        ['dash', ['', '']],
        ['none', ['', '']],
      ] as const) {
        const { cues } = writeCues(words, { language: 'en', speakers })
        expect(cues.flatMap(({ lines }) => lines.map(({ prefix }) => prefix))).toEqual(prefixes)
      }
      const file = renderVtt(writeCues(words).cues, { voices: true })
      expect(file).toMatch(/\nAre you there\?\n[^]*\n<v Ann>Yes\.<\/v>\n/)
    },
  )

  it('have labels of at most half a line', () => {
    const { cues } = writeCues(speak('Yes.', { speaker: 'A name that is much longer than any line' }), {
      speakers: 'label',
    })
    expect(linesOf(cues)).toEqual([['[A name that is mu…] Yes.']])
  })
})

describe('costs of a break', () => {
  it('a break where the speaker changes costs nothing, not even within a sentence or before a comma', () => {
    const talk = [said('wait', 0, 'A'), said('for', 1, 'A'), said('me', 2, 'B'), said(', please', 3, 'A')]
    const { before } = breakCosts(talk, 'en')
    expect(Array.from(before.subarray(2, 4))).toEqual([0, 0])
    const monologue = breakCosts(
      talk.map((atom) => ({ ...atom, speaker: 'A' })),
      'en',
    )
    for (const cost of monologue.before.slice(1, 4)) expect(cost).toBeGreaterThan(0)
  })
})

describe('texts', () => {
  it.each(['(laughter)', '[laughter]', '*laughter*', 'laughter', '（laughter）'])(
    'of sound events are in square brackets: %s',
    (word) => {
      expect(linesOf(writeCues([{ word, start: 0, end: 1, type: 'audio_event' }]).cues)).toEqual([['[laughter]']])
    },
  )

  it('lose control characters, overrides of direction and lone surrogates, and nothing else', () => {
    const words = ['a\u0000b\n\nc\td', '\u202eevil\u2066', '\ud800x', '', ' ', '\u200b', '👩‍👩‍👧‍👦'].map((word, index) => ({
      word,
      start: index,
      end: index + 0.9,
    }))
    expect(linesOf(writeCues(words).cues).flat().join(' ')).toBe('a b c d evil \ufffdx 👩‍👩‍👧‍👦')
  })

  it('follow the spaces that the transcription states, and common sense where it states none', () => {
    const stated = [
      { word: 'well', start: 0, end: 0.4 },
      { word: '-', start: 0.4, end: 0.5 },
      { word: 'known', start: 0.5, end: 0.9 },
      { word: ' ', start: 0.9, end: 1, type: 'spacing' as const },
      { word: 'fact', start: 1, end: 1.4 },
    ]
    expect(linesOf(writeCues(stated).cues)).toEqual([['well-known fact']])
    const whisper = [' The', ' end', '.'].map((word, index) => ({ word, start: index / 2, end: index / 2 + 0.4 }))
    expect(linesOf(writeCues(whisper).cues)).toEqual([['The end.']])
    const bare = ['The', 'end', '!', '我', '们'].map((word, index) => ({
      word,
      start: index / 2,
      end: index / 2 + 0.4,
    }))
    expect(linesOf(writeCues(bare, { language: 'en' }).cues)).toEqual([['The end!'], ['我们']])
  })

  it('of 100 kB in one word are cut to lines', () => {
    const { cues } = writeCues([{ word: 'x'.repeat(100_000), start: 0, end: 2 }])
    const lines = linesOf(cues).flat()
    expect(lines.every((line) => line.length <= 42)).toBe(true)
    expect(lines.join('')).toHaveLength(100_000)
  })

  it('are accepted with the times of characters', () => {
    const characters = [
      { text: 'H', start: 0, end: 0.1 },
      { text: 'i', start: 0.1, end: 0.4 },
    ]
    expect(linesOf(writeCues([{ word: 'Hi', start: 0, end: 0.4, type: 'word', characters }]).cues)).toEqual([['Hi']])
  })
})

describe('the plain style', () => {
  it('has one cue for each sentence', () => {
    const { cues, violations } = writeCues(speak(`Yes. No, not today. ${TALK}`), { style: 'plain', language: 'en' })
    expect(violations).toEqual([])
    expect(linesOf(cues).slice(0, 2)).toEqual([['Yes.'], ['No, not today.']])
    expect(linesOf(cues).slice(2).flat().join(' ')).toBe(TALK)
  })
})

describe('options', () => {
  it.each([
    { maximumLine: 5 },
    { maximumLine: Number.NaN },
    { maximumLine: 42.5 },
    { maximumLines: 0 },
    { maximumLines: 9 },
    { framesPerSecond: 0 },
    { framesPerSecond: Number.NaN },
  ])('that no text could follow are refused: %o', (options) => {
    expect(() => writeCues([], options)).toThrow(RangeError)
  })

  it.each(['no language', '', 'x', 'und', '12345'])('take a language that is none as unknown: "%s"', (language) => {
    expect(linesOf(writeCues(speak('All is well.'), { language }).cues)).toEqual([['All is well.']])
  })
})

describe('checkCues', () => {
  it('finds nothing in cues that keep the rules', () => {
    expect(checkCues(GOOD, RULES)).toEqual([])
    expect(checkText(GOOD, WORDS, RULES)).toEqual([])
  })

  it.each<[string, (cues: Cue[]) => unknown]>([
    ['line-length', ([cue]) => set(cue?.lines[0], { text: 'x'.repeat(43) })],
    ['line-length', ([cue]) => set(cue?.lines[0], { text: '' })],
    ['line-length', ([cue]) => set(cue?.lines[0], { text: 'a\nb' })],
    ['line-count', ([cue]) => set(cue, { lines: [1, 2, 3].flatMap(() => cue?.lines ?? []) })],
    ['line-count', ([cue]) => set(cue, { lines: [] })],
    ['line-speakers', ([cue]) => Object.assign(cue?.lines[0]?.atoms[0] as object, { speaker: 'other' })],
    ['line-speakers', ([cue]) => set(cue?.lines[0], { prefix: '-' })],
    ['minimum-duration', (cues) => set(cues.at(-1), { endMs: (cues.at(-1)?.startMs ?? 0) + 800 })],
    ['maximum-duration', (cues) => set(cues.at(-1), { endMs: (cues.at(-1)?.startMs ?? 0) + 7001 })],
    ['gap', (cues) => set(cues[0], { endMs: (cues[1]?.startMs ?? 0) - 83 })],
    ['gap', (cues) => set(cues[0], { endMs: (cues[1]?.startMs ?? 0) + 10 })],
    ['reading-speed', ([cue]) => set(cue, { endMs: (cue?.startMs ?? 0) + 1000 })],
    ['cut-short', ([cue]) => set(cue, { endMs: (cue?.endMs ?? 0) - 200 })],
    ['cut-short', ([cue]) => set(cue, { startMs: (cue?.startMs ?? 0) + 130 })],
  ])('finds a broken rule that the words do not force: %s', (rule, change) => {
    expect(checkCues(changed(change), RULES)).toContainEqual({
      rule,
      cue: expect.any(Number),
      why: expect.any(String),
      forced: false,
    })
  })

  it('tells a bad way to cut the text from speech that is too fast', () => {
    const fast = speak('Nobody ever tells this one because it is so very long and nobody listens', {
      secondsPerCharacter: 0.02,
    })
    const words = [
      ...fast,
      ...fast.map((word) => ({ ...word, start: (word.start ?? 0) + 1.3, end: (word.end ?? 0) + 1.3 })),
      ...speak('Next.', { start: 2.8 }),
    ]
    const { cues } = writeCues(words, { language: 'en' })
    const findings = checkCues(cues, RULES)
    expect(findings.length).toBeGreaterThan(0)
    expect(findings.every(({ forced }) => forced)).toBe(true)
    const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
    const wordByWord = atoms.map((atom, index) => cueOf([atom], atoms[index + 1]))
    expect(checkCues(wordByWord, RULES).some(({ forced }) => !forced)).toBe(true)
  })
})

describe('checkText', () => {
  it.each<[RegExp, (cues: Cue[]) => unknown]>([
    [/instead of "The"/, ([cue]) => Object.assign(cue?.lines[0]?.atoms[0] as object, { text: 'A' })],
    [/instead of/, ([cue]) => set(cue?.lines[0], { atoms: cue?.lines[0]?.atoms.slice(1) })],
    [/out of order/, (cues) => cues.splice(0, 2, ...cues.slice(0, 2).toReversed())],
    [/ is at /, ([cue]) => Object.assign(cue?.lines[0]?.atoms[1] as object, { endMs: 5000 })],
    [/a line is/, ([cue]) => set(cue?.lines[0], { text: 'other' })],
  ])('finds %s', (problem, change) => {
    expect(checkText(changed(change), WORDS, RULES).join('\n')).toMatch(problem)
  })
})

describe('leastViolations', () => {
  it('agrees with every way to cut short texts into cues and lines, tried one by one', () => {
    let forced = 0
    for (let seed = 0; seed < 120; seed++) {
      const { words, options } = drawWordList(seed)
      const few = words.slice(0, 10)
      const narrow = { ...options, language: 'en', maximumLine: 16, maximumLines: 2, style: 'netflix' } as const
      const { cues } = writeCues(few, narrow)
      const rules = rulesOf(few, narrow)
      const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
      if (atoms.length === 0 || atoms.length > 6) continue
      const { total } = leastViolations(cues, rules)
      expect(total, `seed ${seed}`).toBe(leastOfAll(atoms, cues, rules))
      forced += total
    }
    expect(forced).toBeGreaterThan(5)
  })
})

describe('generated word lists', () => {
  it('break no rule but those that their words force, and keep every word, by the independent checker', () => {
    let forced = 0
    let clean = 0
    for (let seed = 0; seed < LISTS; seed++) {
      const judgement = judgeList(drawWordList(seed))
      expect(judgement.problems, `seed ${seed}`).toEqual([])
      forced += judgement.forced
      if (judgement.forced === 0) clean++
    }
    // Both kinds of lists are drawn.
    expect(forced).toBeGreaterThan(LISTS)
    expect(clean).toBeGreaterThan(LISTS / 3)
  })
})
