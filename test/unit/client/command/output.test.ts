import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonLine } from '../../../../client/command/output/json-line.ts'
import { createOutput } from '../../../../client/command/output/output.ts'
import { printable } from '../../../../client/command/output/printable.ts'
import { terminalOf } from '../../../../client/command/output/terminal.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'
import { scriptedIo } from './support/scripted-io.ts'

const HOSTILE = 'a\u001b]0;title\u0007\u001b[2Jb\r\nc\u202etxt.mp3\u009b31m\u2028.mp3\ud800'

const shownIn = (environment: Record<string, string>) => {
  const io = scriptedIo({ isTerminal: true, environment })
  createOutput(io, false).note('“20×” → ä…')
  return io.written.err
}

const stream = (facts: object) => ({ write: () => true, isTTY: true, ...facts })

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
  it('colors only what can show colors, and nothing with NO_COLOR', () => {
    const withColors = stream({ hasColors: () => true })
    expect(terminalOf(withColors, {}).paint('red', 'a')).toBe('\u001b[31ma\u001b[39m')
    expect(terminalOf(withColors, { NO_COLOR: '1' }).paint('red', 'a')).toBe('a')
    expect(terminalOf(stream({ hasColors: () => false }), {}).paint('red', 'a')).toBe('a')
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
