import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { maxUint256 } from 'viem'
import { describe, expect, it } from 'vitest'
import type { BatchEvent } from '../../../../client/batch/types.ts'
import { allowanceText } from '../../../../client/command/commands/calls/notes.ts'
import { csvLine } from '../../../../client/command/commands/spend.ts'
import { renderFacts, renderTable as renderTextTable } from '../../../../client/command/commands/text-table.ts'
import { createOutput, jsonLine } from '../../../../client/command/output/output.ts'
import { printable, terminalOf } from '../../../../client/command/output/terminal.ts'
import { type BatchView, firstView, nextView } from '../../../../client/command/transcribe/batch-view.ts'
import {
  describeFailures,
  describeOutcome,
  eventLine,
  summaryLine,
} from '../../../../client/command/transcribe/describe-outcome.ts'
import {
  describeFiles,
  describeTotals,
  describeWarnings,
  packHint,
} from '../../../../client/command/transcribe/describe-plan.ts'
import { createLineReporter } from '../../../../client/command/transcribe/line-reporter.ts'
import { renderTable } from '../../../../client/command/transcribe/render-table.ts'
import { columnsOf } from '../../../../client/subtitles/width.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'
import { outcome, plannedFile, progress, totals } from '../../../support/client/batch-facts.ts'
import { scriptedIo } from '../../../support/client/scripted-io.ts'

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
const report = (events: readonly BatchEvent[], json = false) => {
  const io = scriptedIo()
  const reporter = createLineReporter(createOutput(io, json), totals(), 8)
  for (const event of events) reporter.onEvent(event)
  return io.written.err.split('\n').slice(0, -1)
}
const screen = { unicode: true, paint: (_color: unknown, text: string) => text, columns: () => 100, rows: () => 30 }
const green = (_color: unknown, text: string) => `\u001b[32m${text}\u001b[39m`
const after = (events: readonly BatchEvent[], from = firstView(totals(), 8, 0)): BatchView =>
  events.reduce((view, event) => nextView(view, event, 1000), from)
const FINISHED = {
  charged: 5034n,
  replayed: false,
  receiptIds: [],
  transactions: [],
  violations: [],
  elapsedMs: 400,
} as const
const HOSTILE = 'a\u001b]0;title\u0007\u001b[2Jb\r\nc\u202etxt.mp3\u009b31m\u2028.mp3\ud800'
const shownIn = (environment: Record<string, string>) => {
  const io = scriptedIo({ isTerminal: true, environment })
  createOutput(io, false).note('“20×” → ä…')
  return io.written.err
}
const stream = (facts: object) => ({ write: () => true, isTTY: true, ...facts })

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
      plannedFile(8, { kept: [{ path: '/audio/clip-8.srt', reason: 'foreign' }], outputs: ['/audio/clip-8.mp3.srt'] }),
      plannedFile(9, { overwritten: [{ path: '/audio/clip-9.srt', reason: 'changed' }] }),
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
        '      22 s  0.005034 USDC  clip-8.mp3 → clip-8.mp3.srt; clip-8.srt is no transcript of an earlier run and stays',
        '      22 s  0.005034 USDC  clip-9.mp3 → clip-9.srt; clip-9.srt was changed since an earlier run wrote it and is overwritten',
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
    expect(describeTotals(totals({ estimated: 2 }))).toBe(
      '10 recordings, 3 min 40 s, 10 uploads: at most 0.05034 USDC\n2 recordings are priced by the lengths that their files state; none that costs more is sent',
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
      { event: 'approved', allowance: 1n },
      { event: 'failed', file: plannedFile(1), error: damaged, charged: 0n },
      { event: 'waiting', file: plannedFile(2), code: 'rate_limited', reason: 'Too many requests.', waitMs: 30_000 },
      { event: 'warning', file: plannedFile(2), code: 'ffmpeg_missing', text: 'No ffmpeg.' },
      { event: 'stopping', stoppedBy: 'budget', underWay: 2 },
      { event: 'stopping', stoppedBy: 'interrupt', underWay: 1 },
    ])
    expect(lines).toEqual([
      "signed once that Permit2 may take this wallet's USDC, at no cost",
      'failed: clip-1.mp3: It ends early. Nothing was charged. Copy it.',
      'waiting 30 s: clip-2.mp3: Too many requests.',
      'warning: clip-2.mp3: No ffmpeg.',
      'warning: What is left does not fit into the budget. 2 recordings under way will finish.',
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

describe('the live table', () => {
  it('shows files, failures, hours, speed, charge, rest of the budget, time to go, and the files under way', () => {
    const view = after([
      { event: 'started', file: plannedFile(1) },
      { event: 'started', file: plannedFile(2, { parts: 4, durationMs: 11_700_000, label: 'lectures/day 1.mp4' }) },
      { event: 'started', file: plannedFile(3) },
      { event: 'finished', ...FINISHED, file: plannedFile(3) },
      { event: 'part', file: plannedFile(2), part: 2, parts: 4, charged: 1n, replayed: false },
      { event: 'progress', progress: progress({ finished: 4, failed: 1, durationMs: 110_000, charged: 20_136n }) },
    ])
    expect(renderTable(view, { now: 11_000, left: 4_979_864n }, screen)).toBe(
      [
        '4/10 files   1 failed   0.03 h of 0.06 h   10× real time   charged 0.020136 USDC',
        'left 4.979864 USDC   ETA 11 s',
        '━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━──────────────────────────────',
        `  ⠋ ${'clip-1.mp3'.padEnd(81)}   22 s · 10 s`,
        `  ⠋ ${'lectures/day 1.mp4'.padEnd(64)}   part 1/4 · 3 h 15 min · 10 s`,
      ].join('\n'),
    )
  })

  it('shows for how long there is no answer', () => {
    const waiting = { code: 'no_answer', reason: 'No answer.', waitMs: 1, silentMs: 45_000 } as const
    const view = after([
      { event: 'started', file: plannedFile(1) },
      { event: 'waiting', file: plannedFile(1), ...waiting },
    ])
    expect(renderTable(view, { now: 1000, left: null }, screen)).toContain('no answer for 45 s')
    expect(renderTable(view, { now: 13_000, left: null }, screen)).toContain('no answer for 57 s')
  })

  it('shows why a file waits and when it is sent again, until it goes on', () => {
    const waiting = after([
      { event: 'started', file: plannedFile(1) },
      { event: 'waiting', file: plannedFile(1), code: 'rate_limited', reason: 'Too many requests.', waitMs: 30_000 },
    ])
    expect(renderTable(waiting, { now: 1000, left: null }, screen)).toContain('rate_limited, again in 30 s')
    const on = after(
      [{ event: 'part', file: plannedFile(1), part: 1, parts: 1, charged: 1n, replayed: false }],
      waiting,
    )
    expect(renderTable(on, { now: 1000, left: null }, screen)).not.toContain('rate_limited')
  })

  it('shows no estimate before anything is done, and what stops it instead of one', () => {
    const begun = after([{ event: 'started', file: plannedFile(1) }])
    expect(renderTable(begun, { now: 1000, left: null }, screen)).toContain('ETA –')
    for (const stoppedBy of ['budget', 'funds', 'interrupt', 'service', 'local'] as const) {
      const stopping = after([{ event: 'stopping', stoppedBy, underWay: 1 }], begun)
      expect(renderTable(stopping, { now: 1000, left: null }, screen)).toContain('finishing')
    }
  })

  it('leaves out files for which the terminal has no lines, and says how many', () => {
    const view = after(Array.from({ length: 64 }, (_, index) => ({ event: 'started', file: plannedFile(index) })))
    const lines = renderTable(view, { now: 1000, left: 1n }, { ...screen, rows: () => 12 }).split('\n')
    expect(lines.length).toBeLessThan(12)
    expect(lines.at(-1)).toBe('  and 58 more')
  })

  it('keeps the end of a name that is too long', () => {
    const file = plannedFile(1, { label: `${'a/'.repeat(100)}end.mp3` })
    const table = renderTable(after([{ event: 'started', file }]), { now: 1000, left: null }, screen)
    expect(table).toMatch(/~[a/]+\/end\.mp3 {3}22 s · 0 s$/)
  })

  it('uses ASCII only on a terminal without UTF-8', () => {
    const view = after([{ event: 'started', file: plannedFile(1, { label: 'Gespräch → 日本.mp3' }) }])
    const table = renderTable(view, { now: 1000, left: null }, { ...screen, unicode: false })
    expect(table).toMatch(/^[\n\x20-\x7e]*$/)
    expect(table).toContain('Gespr?ch -> ??.mp3')
  })

  it('never has a line wider than the terminal, a control character, or more lines than rows', () => {
    const label = fc.string({ unit: 'grapheme', maxLength: 200 }).map((text) => `\u001b[2J${text}\n\u202e\u0000.mp3`)
    const facts = fc.record({
      labels: fc.array(label, { maxLength: 40 }),
      columns: fc.integer({ min: 20, max: 300 }),
      rows: fc.integer({ min: 10, max: 60 }),
      charged: fc.bigInt({ min: 0n, max: 10n ** 12n }),
      waitMs: fc.integer({ min: 0, max: 10 ** 8 }),
      unicode: fc.boolean(),
    })
    fc.assert(
      fc.property(facts, ({ labels, columns, rows, charged, waitMs, unicode }) => {
        const files = labels.map((label, index) => plannedFile(index, { label, parts: (index % 3) + 1 }))
        const view = after([
          ...files.map((file): BatchEvent => ({ event: 'started', file })),
          ...files
            .slice(1)
            .map((file): BatchEvent => ({ event: 'waiting', file, code: 'x'.repeat(30), reason: '', waitMs })),
          { event: 'progress', progress: progress({ finished: 3, failed: 2, durationMs: 1, charged }) },
        ])
        const size = { unicode, paint: screen.paint, columns: () => columns, rows: () => rows }
        const lines = renderTable(view, { now: 5000, left: charged }, size).split('\n')
        expect(lines.join('')).not.toMatch(/[\p{Cc}\u202e]/u)
        for (const line of lines) expect(columnsOf(line)).toBeLessThan(Math.max(columns, 21))
      }),
      { numRuns: 300 },
    )
  })

  it('colors nothing but what color codes can be removed from', () => {
    const view = after([{ event: 'started', file: plannedFile(1) }])
    const colored = renderTable(view, { now: 1000, left: 1n }, { ...screen, paint: green })
    expect(stripVTControlCharacters(colored)).toBe(renderTable(view, { now: 1000, left: 1n }, screen))
  })
})

describe('text for a terminal', () => {
  it('shows control characters, and those that reorder text, as escapes', () => {
    const shown = String.raw`a\x1b]0;title\x07\x1b[2Jb\x0d\x0ac\u202etxt.mp3\x9b31m\u2028.mp3\ud800`
    expect(printable(HOSTILE)).toBe(shown)
  })

  it('leaves names in other scripts as they are', () => {
    const names = ['日本語.mp3', 'שלום.mp3', 'Ünïcödé 🎧.mp3', 'e\u0301.mp3', 'a b.mp3']
    expect(names.map(printable)).toEqual(names)
  })

  it('passes no control character of any text to stderr or stdout but the end of a line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 50 }), (text) => {
        const io = scriptedIo({ isTerminal: true })
        const output = createOutput(io, false)
        output.note(text)
        output.warn(text)
        output.failure(text)
        output.error(new Error(text))
        output.result({}, text)
        expect(io.written.err + io.written.out).not.toMatch(/(?!\n)\p{Cc}/u)
      }),
      { numRuns: 200 },
    )
  })

  it('is ASCII where the locale is not UTF-8, and UTF-8 where it is or is not named', () => {
    expect(shownIn({ LANG: 'C' })).toBe('"20x" -> ?...\n')
    expect(shownIn({ LANG: 'de_DE.ISO-8859-1' })).toBe('"20x" -> ?...\n')
    expect(shownIn({ LC_ALL: 'C', LANG: 'en_US.UTF-8' })).toBe('"20x" -> ?...\n')
    expect(shownIn({ LANG: 'en_US.utf8' })).toBe('“20×” → ä…\n')
    expect(shownIn({})).toBe('“20×” → ä…\n')
  })

  it('is UTF-8 in a file, whatever the locale', () => {
    const io = scriptedIo({ environment: { LANG: 'C' } })
    createOutput(io, false).note('ä')
    expect(io.written.err).toBe('ä\n')
  })
})

describe('terminals', () => {
  it('colors only what can show colors, nothing with NO_COLOR, and as FORCE_COLOR says', () => {
    const withColors = stream({ hasColors: () => true })
    expect(terminalOf(withColors, {}).paint('red', 'a')).toBe('\u001b[31ma\u001b[39m')
    expect(terminalOf(withColors, { NO_COLOR: '1' }).paint('red', 'a')).toBe('a')
    expect(terminalOf(stream({ hasColors: () => false }), {}).paint('red', 'a')).toBe('a')
    expect(terminalOf(stream({ isTTY: false }), { FORCE_COLOR: '1' }).paint('red', 'a')).toBe('\u001b[31ma\u001b[39m')
    expect(terminalOf(withColors, { FORCE_COLOR: '0' }).paint('red', 'a')).toBe('a')
    expect(terminalOf({ ...withColors, isTTY: false }, {}).paint('red', 'a')).toBe('a')
  })

  it('are as wide as they say, then as COLUMNS says, then 80 columns', () => {
    expect(terminalOf(stream({ columns: 133 }), { COLUMNS: '60' }).columns()).toBe(133)
    expect(terminalOf(stream({}), { COLUMNS: '60' }).columns()).toBe(60)
    expect(terminalOf(stream({}), { COLUMNS: 'wide' }).columns()).toBe(80)
  })
})

describe('lines of JSON', () => {
  it('have names in snake_case and amounts as decimal USDC', () => {
    const value = {
      event: 'finished',
      durationMs: 22_000,
      charged: 5034n,
      parts: [{ alreadyPaid: 0n }],
      none: undefined,
    }
    expect(jsonLine(value)).toBe(
      '{"event":"finished","duration_ms":22000,"charged":"0.005034","parts":[{"already_paid":"0"}]}\n',
    )
  })

  it('keep every name exactly, on one line that no terminal acts on', () => {
    const text = fc.string({ unit: 'binary', maxLength: 50 })
    fc.assert(
      fc.property(text, (name) => {
        const line = jsonLine({ path: name })
        expect(JSON.parse(line)).toEqual({ path: name })
        expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u2028\u2029\u202e]/u)
      }),
      { numRuns: 500 },
    )
    expect(JSON.parse(jsonLine({ path: HOSTILE }))).toEqual({ path: HOSTILE })
  })

  it('say of an error its code, what happened to the money and what to do', () => {
    const error = new FareboxError({ code: 'disk_full', problem: 'Full.', money: 'settled', advice: 'Free space.' })
    expect(JSON.parse(jsonLine({ error }))).toEqual({
      error: {
        code: 'disk_full',
        message: 'Full. The call is paid for. Free space.',
        money: 'settled',
        advice: 'Free space.',
      },
    })
  })

  it('are written to stdout only with --json', () => {
    const [text, json] = [scriptedIo(), scriptedIo()]
    createOutput(text, false).event({ event: 'started' })
    createOutput(json, true).event({ event: 'started' })
    expect([text.written.out, json.written.out]).toEqual(['', '{"event":"started"}\n'])
  })
})

describe('tables on a terminal', () => {
  it('align columns by what a terminal shows, numbers to the right', () => {
    const table = renderTextTable(
      ['name', 'USDC'],
      [
        ['日本.mp3', '0.005034'],
        ['a.mp3', '1'],
      ],
      { right: [1] },
    )
    expect(table).toBe(['name          USDC', '日本.mp3  0.005034', 'a.mp3            1'].join('\n'))
  })

  it('need no heading, and have no spaces at the ends of lines', () => {
    expect(
      renderTextTable(null, [
        ['ok', 'clock', ''],
        ['FAILED', 'rpc', 'down'],
      ]),
    ).toBe('ok      clock\nFAILED  rpc    down')
  })

  it('show control characters of names as escapes', () => {
    expect(renderTextTable(null, [['a\u001b[2J\nb', '1']])).toBe('a\\x1b[2J\\x0ab  1')
    expect(
      renderFacts([
        ['wallet', '0x1\u001b[2J'],
        ['gas', '0'],
      ]),
    ).toBe('wallet  0x1\\x1b[2J\ngas     0')
  })
})

describe('CSV', () => {
  it('quotes what needs it, and disarms formulas of spreadsheets', () => {
    expect(csvLine(['a', 'b,c', 'say "hi"', 'two\nlines', ''])).toBe('a,"b,c","say ""hi""","two\nlines",\r\n')
    expect(csvLine(['=1+1', '@x', '-2', '+3'])).toBe("'=1+1,'@x,'-2,'+3\r\n")
  })
})

describe('the allowance', () => {
  it.each([
    ['without a limit: calls run in parallel', maxUint256, 5n],
    // Approvals without a limit shrink with use.
    ['without a limit: calls run in parallel', maxUint256 - 10n ** 12n, 5n],
    ['0.000005 USDC: calls run in parallel', 5n, 5n],
    ['0.000004 USDC: calls sign a permit, or run farebox approve', 4n, 5n],
    ['none: calls sign a permit, or run farebox approve', 0n, 0n],
  ])('reads %j', (text, allowance, balance) => {
    expect(allowanceText(allowance, balance)).toBe(text)
  })
})
