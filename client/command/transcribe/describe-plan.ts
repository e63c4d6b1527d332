import { basename } from 'node:path'
import type { BatchPlan, BatchTotals, OccupiedOutput, PlannedFile } from '../../batch/types.ts'
import { printable } from '../output/terminal.ts'
import { alignedUsdc, count, counted, duration, usdc } from './amounts.ts'
import { withOutputs } from './line-reporter.ts'

const MOST_WARNINGS = 20

/** Renders the list of `--dry-run`: what happens to each recording and what it costs. */
export function describeFiles({ files }: BatchPlan): string {
  const rows = files.map((file) => [duration(file.durationMs), alignedUsdc(file.price), describeFile(file)] as const)
  const widths = [0, 1].map((column) => Math.max(0, ...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map(([length, price, text]) => `${length.padStart(widths[0] ?? 0)}  ${price.padStart(widths[1] ?? 0)}  ${text}`)
    .join('\n')
}

function describeFile(file: PlannedFile): string {
  const label = printable(file.label)
  const warnings = [...file.warnings, ...occupiedTexts(file)].map((warning) => `; ${warning}`).join('')
  switch (file.state) {
    case 'to_do':
      return `${withOutputs(file)}${partsOf(file)}${warnings}`
    case 'finished':
      return `${label}: finished before`
    case 'duplicate':
      return `${label}: same content as ${printable(file.duplicateOf ?? 'another')}${warnings}`
    case 'failed':
      return `${label}: cannot be transcribed`
  }
}

const REASONS = {
  foreign: 'is no transcript of an earlier run',
  changed: 'was changed since an earlier run wrote it',
} as const

function occupiedTexts({ kept = [], overwritten = [] }: PlannedFile): string[] {
  return [...textsOf(kept, 'stays'), ...textsOf(overwritten, 'is overwritten')]
}

function textsOf(occupied: readonly OccupiedOutput[], what: string): string[] {
  return occupied.map(({ path, reason }) => `${printable(basename(path))} ${REASONS[reason]} and ${what}`)
}

function partsOf({ parts, pack, alreadyPaid }: PlannedFile): string {
  const details = [
    ...(parts > 1 ? [`${parts} parts`] : []),
    ...(pack === undefined ? [] : [`in pack ${pack}`]),
    ...(alreadyPaid > 0n ? [`${usdc(alreadyPaid)} of it paid before`] : []),
  ]
  return details.length === 0 ? '' : ` (${details.join(', ')})`
}

/** Renders what should be known of recordings before they are paid for, such as that they are incomplete. */
export function describeWarnings({ files }: BatchPlan): string[] {
  const all = files.flatMap((file) => {
    const { state, label, warnings } = file
    const texts = [...warnings.map(printable), ...occupiedTexts(file)]
    return state === 'to_do' || state === 'duplicate' ? texts.map((text) => `${printable(label)}: ${text}`) : []
  })
  const more = all.length - MOST_WARNINGS
  return more > 0 ? [...all.slice(0, MOST_WARNINGS), `and ${count(more)} more, which --dry-run lists`] : all
}

/** Renders what a batch is and costs, in one line or two. */
export function describeTotals(totals: BatchTotals): string {
  const others = [
    ...(totals.finished > 0 ? [`${counted(totals.finished, 'recording')} finished before`] : []),
    ...(totals.kept > 0 ? [`${counted(totals.kept, 'file')} of the same name kept (--force overwrites)`] : []),
    ...(totals.overwritten > 0 ? [`${counted(totals.overwritten, 'file')} of the same name overwritten`] : []),
    ...(totals.duplicates > 0 ? [`${counted(totals.duplicates, 'duplicate')} at no cost`] : []),
    ...(totals.failed > 0 ? [`${counted(totals.failed, 'recording')} cannot be transcribed`] : []),
  ]
  const ways = [counted(totals.uploads, 'upload'), ...(totals.packs > 0 ? [counted(totals.packs, 'pack')] : [])]
  const paid = totals.alreadyPaid > 0n ? ` (${usdc(totals.alreadyPaid)} was paid before)` : ''
  const first =
    totals.toDo === 0
      ? 'Nothing to transcribe.'
      : `${counted(totals.toDo, 'recording')}, ${duration(totals.durationMs)}, ${ways.join(', ')}: ${totals.estimated > 0 ? 'at most ' : ''}${usdc(totals.toCharge)}${paid}`
  return [first, ...estimatesOf(totals), ...(others.length === 0 ? [] : [others.join(', ')])].join('\n')
}

function estimatesOf({ estimated }: BatchTotals): string[] {
  if (estimated === 0) return []
  const are =
    estimated === 1
      ? 'is priced by the length that its file states'
      : 'are priced by the lengths that their files state'
  return [`${counted(estimated, 'recording')} ${are}; none that costs more is sent`]
}

/** Returns a hint if clips of different lengths have the same price, which only the minimum charge explains. */
export function packHint({ files }: BatchPlan): string | undefined {
  const alone = files.filter(
    ({ state, parts, pack, alreadyPaid }) =>
      state === 'to_do' && parts === 1 && pack === undefined && alreadyPaid === 0n,
  )
  const lowest = alone.reduce<bigint | undefined>(
    (price, file) => (price === undefined || file.price < price ? file.price : price),
    undefined,
  )
  const clips = alone.filter(({ price }) => price === lowest)
  if (new Set(clips.map(({ durationMs }) => durationMs)).size < 2) return undefined
  return `${counted(clips.length, 'clip')} pay the minimum charge of ${usdc(lowest ?? 0n)}; --pack joins them for less.`
}
