import { checkCues, checkText, rulesOf, type WrittenCues, writeCues } from '../../../../client/subtitles/subtitles.ts'
import type { WordList } from './word-lists.ts'

const key = ({ rule, cue }: { rule: string; cue: number }) => `${cue} ${rule}`

export interface Judgement {
  readonly written: WrittenCues
  /** What is wrong; empty for cues that keep every rule that their words let them keep. */
  readonly problems: string[]
  readonly forced: number
}

/** Writes a list's cues and lets the independent checker judge them. */
export function judgeList({ words, options }: WordList): Judgement {
  const written = writeCues(words, options)
  const rules = rulesOf(words, options)
  const findings = checkCues(written.cues, rules)
  const repaired = new Set(
    written.violations.flatMap(({ rule, why }) => (rule === 'word-times' ? Number(/\d+/.exec(why)?.[0]) : [])),
  )
  const found = findings.map(key).toSorted()
  const reported = written.violations
    .filter(({ rule }) => rule !== 'word-times')
    .map(key)
    .toSorted()
  const problems = [
    ...findings.filter(({ forced }) => !forced).map(({ rule, cue, why }) => `cue ${cue} breaks ${rule}: ${why}`),
    ...checkText(written.cues, words, rules, repaired),
  ]
  if (found.join() !== reported.join()) problems.push(`reported ${reported.join()}, found ${found.join()}`)
  return { written, problems, forced: findings.length }
}
