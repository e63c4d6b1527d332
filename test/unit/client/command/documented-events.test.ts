import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { BatchEvent, BatchOutcome, PlannedFile } from '../../../../client/batch/types.ts'
import { createOutput, jsonLine } from '../../../../client/command/output/output.ts'
import { eventLine, summaryLine } from '../../../../client/command/transcribe/describe-outcome.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'
import { outcome, plannedFile, totals } from '../../../support/client/batch-facts.ts'
import { scriptedIo } from '../../../support/client/scripted-io.ts'

const error = new FareboxError({ code: 'damaged_audio', problem: 'a', money: 'none', advice: 'b', key: 'c' })
/** `Required`, so that the compiler names the fields that are new. */
const file: Required<PlannedFile> = {
  ...plannedFile(1),
  isEstimate: true,
  sha256: 'a',
  receiptIds: [],
  treatment: 'cut',
  pack: 1,
  duplicateOf: 'a',
  receipt: 'a',
  kept: [],
  overwritten: [],
  preferred: { outputs: [] },
  error,
}
const paid = { charged: 1n, replayed: true }
const EVENTS: { readonly [Name in BatchEvent['event']]: Required<Extract<BatchEvent, { event: Name }>> | null } = {
  planned: { event: 'planned', file, done: 1, of: 1 },
  totals: { event: 'totals', totals: totals() },
  approved: { event: 'approved', allowance: 1n },
  started: { event: 'started', file },
  part: { event: 'part', file, part: 1, parts: 1, ...paid },
  waiting: { event: 'waiting', file, code: 'a', reason: 'b', waitMs: 1, silentMs: 1 },
  concurrency: { event: 'concurrency', concurrency: 1, reason: 'a' },
  finished: { event: 'finished', file, ...paid, receiptIds: [], transactions: [], violations: [], elapsedMs: 1 },
  failed: { event: 'failed', file, error, charged: 0n },
  skipped: { event: 'skipped', file },
  warning: { event: 'warning', file, code: 'a', text: 'b' },
  stopping: { event: 'stopping', stoppedBy: 'local', underWay: 1, error },
  // Its figures follow from the others, and it has no line.
  progress: null,
}
const ended: Required<BatchOutcome> = { ...outcome(), stoppedBy: 'local', stopError: error }

const lineOf = (event: BatchEvent) => jsonLine(eventLine(event) ?? {})
function errorLine(): string {
  const io = scriptedIo()
  createOutput(io, true).error(Object.assign(error, { requestId: 'a' }))
  return io.written.out
}
const LINES = [
  ...Object.values(EVENTS).flatMap((event) => (event === null ? [] : [lineOf(event)])),
  jsonLine(summaryLine(ended, 1)),
  errorLine(),
].map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)

/** Returns the fields of each event, without what is said in parentheses about their values. */
function documentedFields(): ReadonlyMap<string, string> {
  const page = readFileSync(new URL('../../../../client/README.md', import.meta.url), 'utf8')
  const table = page.slice(page.indexOf('\n## Events of `--json`\n'), page.indexOf('\n## Errors\n'))
  const rows = table.matchAll(/^\| `(\w+)` +\|[^|]*\|([^|]*)\|$/gm)
  const [, ...fields] = [...rows].map(([, name = '', text = '']) => [name, text.replaceAll(/\([^)]*\)/g, '')] as const)
  return new Map(fields)
}

test('the table of client/README.md has every field of every event, and no other', () => {
  const documented = documentedFields()
  const expand = (text: string) => text.replace('the same', documented.get('started') ?? '')
  const namesIn = (text: string) =>
    [...expand(text).matchAll(/`([^`]+)`/g)].flatMap(([, names = '']) => names.split(' '))
  const written = LINES.map(({ event, ...fields }) => [event, Object.keys(fields).toSorted()])
  expect([...documented].map(([name, text]) => [name, namesIn(text).toSorted()])).toEqual(written)
})
