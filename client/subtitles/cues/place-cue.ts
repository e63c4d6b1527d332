import type { SubtitleRules } from '../rules.ts'
import type { Rule } from '../words.ts'

/** A cue between its own start and the start of the next one. */
export interface PlacedCue {
  readonly startMs: number
  readonly endMs: number
  /** `Infinity` for the last cue. */
  readonly nextMs: number
  /** When its last word has been said. */
  readonly speechEnd: number
  /** Columns to read, with marks of speakers. A line break counts like the space that it replaces. */
  readonly columns: number
}

/**
 * Returns the latest end that a cue may have: with a gap before the next one, and not longer than the maximum. Only
 * where the next cue begins within the gap, the cue lasts until then.
 */
export function latestEnd(startMs: number, nextMs: number, { gapMs, maximumMs }: SubtitleRules): number {
  const beforeGap = nextMs - gapMs
  return beforeGap > startMs ? Math.min(beforeGap, startMs + maximumMs) : nextMs
}

/**
 * Returns the end of a cue: with the last word or sound, later if the rules need it, and close to a next cue that
 * follows soon. A sound may outlast its cue.
 */
export function endOf(cue: Omit<PlacedCue, 'endMs'>, soundEnd: number, rules: SubtitleRules): number {
  const latest = latestEnd(cue.startMs, cue.nextMs, rules)
  const readingMs = Math.ceil((cue.columns * 1000) / rules.columnsPerSecond)
  const needed = Math.max(soundEnd, cue.startMs + Math.max(rules.minimumMs, readingMs))
  const end = cue.nextMs - needed <= rules.closedGapMs ? latest : Math.min(latest, needed)
  return Math.max(Math.min(cue.startMs + 1, latest), end)
}

/** Returns the rules that a placed cue breaks. */
export function brokenRules(cue: PlacedCue, rules: SubtitleRules): Rule[] {
  const broken: Rule[] = []
  const durationMs = cue.endMs - cue.startMs
  if (durationMs < rules.minimumMs) broken.push('minimum-duration')
  if (cue.columns * 1000 > rules.columnsPerSecond * durationMs) broken.push('reading-speed')
  if (cue.speechEnd - rules.toleranceMs > cue.endMs) broken.push('cut-short')
  if (cue.nextMs - cue.endMs < rules.gapMs) broken.push('gap')
  return broken
}

/** Counts the rules that a placed cue breaks; millions of cues are weighed, so it allocates nothing. */
export function countBroken(cue: PlacedCue, rules: SubtitleRules): number {
  const durationMs = cue.endMs - cue.startMs
  return (
    Number(durationMs < rules.minimumMs) +
    Number(cue.columns * 1000 > rules.columnsPerSecond * durationMs) +
    Number(cue.speechEnd - rules.toleranceMs > cue.endMs) +
    Number(cue.nextMs - cue.endMs < rules.gapMs)
  )
}
