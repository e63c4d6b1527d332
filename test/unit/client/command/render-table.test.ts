import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BatchEvent } from '../../../../client/batch/types.ts'
import { type BatchView, firstView, nextView } from '../../../../client/command/transcribe/batch-view.ts'
import { renderTable } from '../../../../client/command/transcribe/render-table.ts'
import { columnsOf } from '../../../../client/subtitles/width.ts'
import { plannedFile, progress, totals } from './support/batch-facts.ts'

const screen = { unicode: true, paint: (_color: unknown, text: string) => text, columns: () => 100, rows: () => 30 }

const green = (_color: unknown, text: string) => `\u001b[32m${text}\u001b[39m`

const after = (events: readonly BatchEvent[], from = firstView(totals(), 8, 0)): BatchView =>
  events.reduce((view, event) => nextView(view, event, 1000), from)

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

const FINISHED = {
  charged: 5034n,
  replayed: false,
  receiptIds: [],
  transactions: [],
  violations: [],
  elapsedMs: 400,
} as const
