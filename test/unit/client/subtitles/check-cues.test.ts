import { describe, expect, it } from 'vitest'
import { leastViolations } from '../../../../client/subtitles/check/least-violations.ts'
import {
  type Atom,
  type Cue,
  type CueLine,
  checkCues,
  checkText,
  rulesOf,
  type SubtitleRules,
  writeCues,
} from '../../../../client/subtitles/subtitles.ts'
import { speak } from './support/speech.ts'
import { drawWordList } from './support/word-lists.ts'

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
const set = (target: Cue | CueLine | undefined, values: object) => Object.assign(target as object, values)

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
