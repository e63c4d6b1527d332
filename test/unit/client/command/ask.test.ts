import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { ask, requireTerminal } from '../../../../client/command/transcribe/ask.ts'
import { scriptedIo } from './support/scripted-io.ts'

const never = new AbortController()

describe('the question before the first payment', () => {
  it.each([
    ['y\n', true],
    ['YES\n', true],
    [' y \n', true],
    ['n\n', false],
    ['\n', false],
    ['yellow\n', false],
    ['', false],
  ])('%j means %j', async (input, agreed) => {
    const io = scriptedIo({ input, isTerminal: true })
    expect(await ask(io, 'Pay up to 5 USDC? [y/N] ', never.signal)).toBe(agreed)
    expect(io.written.err).toContain('Pay up to 5 USDC?')
    expect(io.written.out).toBe('')
  })

  it('is declined by an interrupt', async () => {
    const interrupt = new AbortController()
    const silent = new Readable({ read: () => undefined })
    const io = { ...scriptedIo({ isTerminal: true }), stdin: silent }
    const answer = ask(io, 'Pay? ', interrupt.signal)
    interrupt.abort()
    expect(await answer).toBe(false)
  })

  it('needs a terminal to read from and to show it on', () => {
    const terminal = scriptedIo({ isTerminal: true })
    expect(() => requireTerminal(terminal, false)).not.toThrow()
    const usageError = expect.objectContaining({ name: 'UsageError', message: expect.stringContaining('--yes') })
    expect(() => requireTerminal(terminal, true)).toThrow(usageError)
    expect(() => requireTerminal(scriptedIo(), false)).toThrow(usageError)
    expect(() => requireTerminal({ ...terminal, stderr: scriptedIo().stderr }, false)).toThrow(usageError)
  })
})
