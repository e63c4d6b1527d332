import type { SubtitleRules } from '../rules.ts'
import type { Cue, CueLine, Rule } from '../words.ts'
import { countColumns } from './columns.ts'
import { leastViolations } from './least-violations.ts'

/** A rule that a cue breaks. */
export interface Finding {
  readonly rule: Exclude<Rule, 'word-times'>
  /** Index of the cue. */
  readonly cue: number
  readonly why: string
  /** Whether every way to cut the same words into cues breaks as many rules. */
  readonly forced: boolean
}

/** Any text fits lines, and any cue can end in time. */
const NEVER_FORCED = new Set<Rule>(['line-length', 'line-count', 'line-speakers', 'maximum-duration'])

type Broken = Omit<Finding, 'forced' | 'cue'>

/**
 * Checks cues against the rules, and proves for each broken one whether the words force it. Independent of the writer.
 */
export function checkCues(cues: readonly Cue[], rules: SubtitleRules): Finding[] {
  const found = cues.map((cue, index) => [
    ...brokenByLines(cue, rules),
    ...brokenByMarks(cue, cues[index - 1], rules),
    ...brokenByTimes(cue, cues[index + 1], rules),
  ])
  if (found.every((broken) => broken.length === 0)) return []
  const least = leastViolations(cues, rules)
  let atom = 0
  return cues.flatMap((cue, index) => {
    const from = atom
    atom += cue.lines.reduce((sum, line) => sum + line.atoms.length, 0)
    const broken = found[index] ?? []
    const whole = (least.before[from] ?? Infinity) + broken.length + (least.after[atom] ?? Infinity)
    return broken.map((one) => ({ ...one, cue: index, forced: whole === least.total && !NEVER_FORCED.has(one.rule) }))
  })
}

function brokenByLines({ lines }: Cue, rules: SubtitleRules): Broken[] {
  const broken: Broken[] = []
  if (lines.length === 0 || lines.length > rules.maximumLines) {
    broken.push({ rule: 'line-count', why: `${lines.length} lines` })
  }
  for (const { prefix, text } of lines) {
    const columns = countColumns(prefix + text)
    if (columns > rules.lineColumns || columns === 0) {
      broken.push({ rule: 'line-length', why: `${columns} columns instead of ${rules.lineColumns}` })
    }
    if (text.trim() !== text || /[\r\n\v\f\u0085\u2028\u2029]/u.test(prefix + text)) {
      broken.push({ rule: 'line-length', why: 'white space at an end or a line break inside the line' })
    }
  }
  return broken
}

/** A line holds one speaker, and a reader can see where another one begins. */
function brokenByMarks({ lines }: Cue, before: Cue | undefined, rules: SubtitleRules): Broken[] {
  const several = new Set(lines.flatMap((line) => line.atoms.map(({ speaker }) => speaker))).size > 1
  const broken: Broken[] = []
  let previous = before?.lines.at(-1)
  for (const [index, line] of lines.entries()) {
    const speakers = new Set(line.atoms.map(({ speaker }) => speaker))
    if (speakers.size > 1) broken.push({ rule: 'line-speakers', why: `${speakers.size} speakers on a line` })
    const turns = previous === undefined || speakerOf(previous) !== speakerOf(line)
    const needsDash = rules.speakers === 'dash' && several && (turns || index === 0)
    const needsLabel = rules.speakers === 'label' && turns && speakerOf(line) !== undefined
    if (line.prefix.startsWith(rules.dash) !== needsDash || /^\[.*\] $/su.test(line.prefix) !== needsLabel) {
      broken.push({ rule: 'line-speakers', why: `"${line.prefix}" before a line` })
    }
    previous = line
  }
  return broken
}

function speakerOf(line: CueLine): string | undefined {
  return line.atoms[0]?.speaker
}

function brokenByTimes({ startMs, endMs, lines }: Cue, next: Cue | undefined, rules: SubtitleRules): Broken[] {
  const broken: Broken[] = []
  const duration = endMs - startMs
  const atoms = lines.flatMap((line) => line.atoms)
  const needs = (kept: boolean, rule: Broken['rule'], why: string) => {
    if (!kept) broken.push({ rule, why })
  }
  needs(duration >= rules.minimumMs, 'minimum-duration', `${duration} ms`)
  needs(duration > 0 && duration <= rules.maximumMs, 'maximum-duration', `${duration} ms`)
  const read = lines.reduce((sum, { prefix, text, atoms: own }, index) => {
    const replacesSpace = index > 0 && own[0]?.glued !== true
    return sum + countColumns(prefix) + countColumns(text) + (replacesSpace ? 1 : 0)
  }, 0)
  const speed = (read * 1000) / duration
  needs(speed <= rules.columnsPerSecond, 'reading-speed', `${speed.toFixed(1)} columns a second`)
  const spoken = atoms.filter(({ event }) => !event).map((atom) => atom.endMs)
  const late = spoken.reduce((latest, end) => Math.max(latest, end), 0) - rules.toleranceMs - endMs
  needs(late <= 0, 'cut-short', `${late} ms too early`)
  const first = atoms[0]?.startMs ?? startMs
  needs(
    Math.abs(first - startMs) <= rules.toleranceMs,
    'cut-short',
    `starts ${startMs - first} ms after its first word`,
  )
  if (next) needs(next.startMs - endMs >= rules.gapMs, 'gap', `${next.startMs - endMs} ms`)
  return broken
}
