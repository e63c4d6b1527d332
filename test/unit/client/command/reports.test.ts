import { describe, expect, it } from 'vitest'
import type { BatchEvent } from '../../../../client/batch/types.ts'
import { createOutput } from '../../../../client/command/output/output.ts'
import { describeFailures, describeOutcome } from '../../../../client/command/transcribe/describe-outcome.ts'
import {
  describeFiles,
  describeTotals,
  describeWarnings,
  packHint,
} from '../../../../client/command/transcribe/describe-plan.ts'
import { eventLine, summaryLine } from '../../../../client/command/transcribe/event-line.ts'
import { createLineReporter } from '../../../../client/command/transcribe/line-reporter.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'
import { outcome, plannedFile, progress, totals } from './support/batch-facts.ts'
import { scriptedIo } from './support/scripted-io.ts'

const damaged = new FareboxError({
  code: 'damaged_audio',
  problem: 'It ends early.',
  money: 'none',
  advice: 'Copy it.',
})
const finished = {
  event: 'finished',
  charged: 5034n,
  replayed: false,
  receiptIds: ['rcpt_1'],
  transactions: ['0xab'],
  violations: [],
  elapsedMs: 400,
} as const

const plan = (...files: ReturnType<typeof plannedFile>[]) => ({
  files,
  totals: totals(),
  discard: async () => undefined,
})

describe('the plan of a batch', () => {
  it('lists what happens to each recording and what it costs', () => {
    const files = [
      plannedFile(0),
      plannedFile(1, { durationMs: 11_700_000, price: 397_800n, parts: 4, outputs: ['/texts/a.srt', '/audio/a.txt'] }),
      plannedFile(2, { pack: 1, price: 755n }),
      plannedFile(3, { price: 5034n, alreadyPaid: 5034n }),
      plannedFile(4, { state: 'finished', price: 0n }),
      plannedFile(5, { state: 'duplicate', price: 0n, duplicateOf: 'clip-0.mp3' }),
      plannedFile(6, { state: 'failed', price: 0n, durationMs: 0 }),
      plannedFile(7, { label: 'a\nb.mp3', warnings: ['has no sound at the end'] }),
    ]
    expect(describeFiles({ files, totals: totals(), discard: async () => undefined })).toBe(
      [
        '      22 s  0.005034 USDC  clip-0.mp3 → clip-0.srt',
        '3 h 15 min  0.397800 USDC  clip-1.mp3 → /texts/a.srt, a.txt (4 parts)',
        '      22 s  0.000755 USDC  clip-2.mp3 → clip-2.srt (in pack 1)',
        '      22 s  0.005034 USDC  clip-3.mp3 → clip-3.srt (0.005034 USDC of it paid before)',
        '      22 s  0.000000 USDC  clip-4.mp3: finished before',
        '      22 s  0.000000 USDC  clip-5.mp3: same content as clip-0.mp3',
        '       0 s  0.000000 USDC  clip-6.mp3: cannot be transcribed',
        String.raw`      22 s  0.005034 USDC  a\x0ab.mp3 → clip-7.srt; has no sound at the end`,
      ].join('\n'),
    )
  })

  it('has a warning for each recording that is to be paid for and incomplete, and counts those beyond twenty', () => {
    const warnings = ['the recording is incomplete']
    const files = [plannedFile(0, { label: 'a\nb.mp3', warnings }), plannedFile(1, { state: 'finished', warnings })]
    expect(describeWarnings(plan(...files, plannedFile(2)))).toEqual([
      String.raw`a\x0ab.mp3: the recording is incomplete`,
    ])
    const many = Array.from({ length: 23 }, (_, index) => plannedFile(index, { warnings }))
    expect(describeWarnings(plan(...many)).slice(19)).toEqual([
      'clip-19.mp3: the recording is incomplete',
      'and 3 more, which --dry-run lists',
    ])
  })

  it('says in one line what it is and costs, and in another what costs nothing', () => {
    expect(describeTotals(totals())).toBe('10 recordings, 3 min 40 s, 10 uploads: 0.05034 USDC')
    const others = totals({ toDo: 1, uploads: 1, packs: 1, finished: 1200, duplicates: 1, failed: 2, toCharge: 0n })
    expect(describeTotals({ ...others, alreadyPaid: 50_340n })).toBe(
      '1 recording, 3 min 40 s, 1 upload, 1 pack: 0 USDC (0.05034 USDC was paid before)\n' +
        '1,200 recordings finished before, 1 duplicate at no cost, 2 recordings cannot be transcribed',
    )
    expect(describeTotals(totals({ toDo: 0 }))).toBe('Nothing to transcribe.')
  })

  it('advises --pack only when clips of different lengths pay the same', () => {
    const short = [plannedFile(0), plannedFile(1, { durationMs: 9000 })]
    expect(packHint(plan(...short))).toBe(
      '2 clips pay the minimum charge of 0.005034 USDC; --pack joins them for less.',
    )
    expect(packHint(plan(plannedFile(0), plannedFile(1)))).toBeUndefined()
    expect(packHint(plan(...short.map((file) => ({ ...file, pack: 1 }))))).toBeUndefined()
    expect(packHint(plan(...short.map((file) => ({ ...file, alreadyPaid: file.price }))))).toBeUndefined()
    expect(packHint(plan())).toBeUndefined()
  })
})

const report = (events: readonly BatchEvent[], json = false) => {
  const io = scriptedIo()
  const reporter = createLineReporter(createOutput(io, json), totals(), 8)
  for (const event of events) reporter.onEvent(event)
  return io.written.err.split('\n').slice(0, -1)
}

describe('lines about a batch', () => {
  it('report what is finished with its place, price and outputs', () => {
    const lines = report([
      { ...finished, file: plannedFile(3) },
      { ...finished, file: plannedFile(4, { label: 'x\u001b[2J.mp3' }), replayed: true },
    ])
    expect(lines).toEqual([
      '[1/10] clip-3.mp3 → clip-3.srt (22 s, 0.005034 USDC)',
      String.raw`[2/10] x\x1b[2J.mp3 → clip-4.srt (22 s, paid before)`,
    ])
  })

  it('report failures, waits, warnings, the approval and why it stops', () => {
    const lines = report([
      { event: 'approved', transaction: '0xab', allowance: 1n },
      { event: 'failed', file: plannedFile(1), error: damaged, charged: 0n },
      { event: 'waiting', file: plannedFile(2), code: 'rate_limited', reason: 'Too many requests.', waitMs: 30_000 },
      { event: 'warning', file: plannedFile(2), code: 'ffmpeg_missing', text: 'No ffmpeg.' },
      { event: 'stopping', stoppedBy: 'budget', underWay: 2 },
      { event: 'stopping', stoppedBy: 'interrupt', underWay: 1 },
    ])
    expect(lines).toEqual([
      "approved Permit2 once for this wallet's USDC, paid for by the service (transaction 0xab)",
      'failed: clip-1.mp3: It ends early. Nothing was charged. Copy it.',
      'waiting 30 s: clip-2.mp3: Too many requests.',
      'warning: clip-2.mp3: No ffmpeg.',
      'warning: The budget is used up. 2 recordings under way will finish.',
      'warning: Interrupted. 1 recording under way will finish. Ctrl-C again leaves them to the next run.',
    ])
  })

  it('name a file once when the error begins with its path or its name', () => {
    const failures = ['clip-1.mp3', '/audio/clip-1.mp3'].map((name): BatchEvent => {
      const error = new FareboxError({ code: 'x', problem: `${name}: is empty.`, money: 'none', advice: 'Copy it.' })
      return { event: 'failed', file: plannedFile(1), error, charged: 0n }
    })
    const line = 'failed: clip-1.mp3: is empty. Nothing was charged. Copy it.'
    expect(report(failures)).toEqual([line, line])
  })

  it('do not repeat what the plan reported as unusable', () => {
    const file = plannedFile(1, { state: 'failed' })
    const lines = report([
      { event: 'failed', file, error: damaged, charged: 0n },
      { ...finished, file: plannedFile(3) },
    ])
    expect(lines).toEqual(['[1/10] clip-3.mp3 → clip-3.srt (22 s, 0.005034 USDC)'])
  })

  it('report only failures and warnings next to --json', () => {
    const lines = report(
      [
        { ...finished, file: plannedFile(3) },
        { event: 'failed', file: plannedFile(1), error: damaged, charged: 0n },
      ],
      true,
    )
    expect(lines).toHaveLength(1)
  })
})

describe('the end of a batch', () => {
  it('says what was done, at which pace, and what it cost', () => {
    const text = describeOutcome(
      outcome({
        finished: 1000,
        failed: 2,
        skipped: 3,
        durationMs: 22_000_000,
        elapsedMs: 60_000,
        charged: 5_034_000n,
      }),
      4_966_000n,
    )
    expect(text).toBe(
      '1,000 recordings transcribed, 3 finished before, 2 failed: 6.11 h in 1 min 00 s, 367× real time.\nCharged 5.034 USDC, 4.966 USDC left of the budget.',
    )
  })

  it('says how to go on after an interrupt, and why it stopped otherwise', () => {
    const interrupted = describeOutcome(outcome({ interrupted: true, notBegun: 4 }), null)
    expect(interrupted).toContain('4 not begun')
    expect(interrupted).toContain('Run the same command again')
    expect(describeOutcome(outcome({ stoppedBy: 'budget', stopError: damaged }), null)).toContain(damaged.message)
  })

  it('lists what failed, the first twenty of many', () => {
    expect(describeFailures([])).toBeUndefined()
    const failures = Array.from({ length: 25 }, (_, index) => ({ file: plannedFile(index), error: damaged }))
    const lines = describeFailures(failures)?.split('\n') ?? []
    expect(lines).toHaveLength(22)
    expect([lines[0], lines[1], lines.at(-1)]).toEqual([
      '25 recordings failed:',
      '  clip-0.mp3 (damaged_audio)',
      '  and 5 more',
    ])
  })
})

describe('events of --json', () => {
  it('have the path, the name and the length of their file on the top level', () => {
    const file = plannedFile(1, { receipt: 'clip-1.receipt.json' })
    expect(eventLine({ ...finished, file })).toEqual({
      ...finished,
      path: '/audio/clip-1.mp3',
      label: 'clip-1.mp3',
      durationMs: 22_000,
      outputs: ['/audio/clip-1.srt'],
      receipt: 'clip-1.receipt.json',
    })
    expect(eventLine({ event: 'failed', file, error: damaged, charged: 0n })).toMatchObject({
      error: damaged,
      charged: 0n,
    })
    expect(eventLine({ event: 'planned', file, done: 1, of: 2 })).toMatchObject({ state: 'to_do', price: 5034n, of: 2 })
  })

  it('leave out running figures, which follow from the others', () => {
    expect(eventLine({ event: 'progress', progress: progress() })).toBeUndefined()
  })

  it('end with a summary that has the exit code', () => {
    const line = summaryLine(outcome({ failed: 1, failures: [{ file: plannedFile(1), error: damaged }] }), 1)
    expect(line).toMatchObject({ event: 'summary', failed: 1, exitCode: 1 })
    expect(line).not.toHaveProperty('failures')
  })
})
