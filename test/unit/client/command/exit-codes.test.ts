import { describe, expect, it, vi } from 'vitest'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import { exitCodeFor } from '../../../../client/command/commands/doctor.ts'
import { exitCodeOf, UsageError } from '../../../../client/command/exit-codes.ts'
import { processIo } from '../../../../client/command/io.ts'
import { createProgram } from '../../../../client/command/program.ts'
import { createRun, listenToInterrupts } from '../../../../client/command/run.ts'
import { exitCodeOfOutcome } from '../../../../client/command/transcribe/describe-outcome.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'
import { outcome } from '../../../support/client/batch-facts.ts'
import { scriptedIo } from '../../../support/client/scripted-io.ts'

const withCode = (code: string) => new FareboxError({ code, problem: 'No.', money: 'none', advice: 'Stop.' })

describe('exit code of an error', () => {
  it.each<[number, string, unknown]>([
    [2, 'a usage error', new UsageError('no')],
    [2, 'no wallet', withCode('no_wallet')],
    [2, 'a malformed key', withCode('invalid_private_key')],
    [2, 'an unsafe URL', withCode('invalid_url')],
    [2, 'options that contradict', withCode('invalid_options')],
    [2, 'an unknown model', withCode('unknown_model')],
    [3, 'a budget that is used up', new BudgetExceeded('day', 1n, 0n, 1n)],
    [4, 'missing funds', withCode('insufficient_funds')],
    [4, 'reserved funds', withCode('funds_reserved')],
    [4, 'a missing allowance', withCode('permit2_allowance_required')],
    [4, 'debts', withCode('unpaid_debt')],
    [130, 'an aborted call', withCode('aborted')],
    [4, 'a refused approval', withCode('not_approved')],
    [130, 'an abort', new DOMException('aborted', 'AbortError')],
    [1, 'any other error of the service', withCode('provider_unavailable')],
    [1, 'an unexpected error', new TypeError('x')],
    [1, 'a thrown string', 'x'],
  ])('is %i for %s', (code, _what, error) => {
    expect(exitCodeOf(error)).toBe(code)
  })
})

describe('exit code of a batch', () => {
  it.each([
    [0, {}],
    [1, { failed: 1 }],
    [3, { failed: 1, stoppedBy: 'budget' }],
    [4, { failed: 1, stoppedBy: 'funds' }],
    [1, { stoppedBy: 'service' }],
    [1, { stoppedBy: 'local' }],
    [130, { stoppedBy: 'interrupt' }],
    [130, { stoppedBy: 'budget', interrupted: true }],
  ] as const)('is %i for %j', (code, facts) => {
    expect(exitCodeOfOutcome(outcome(facts))).toBe(code)
  })
})

describe('signals', () => {
  it('the first SIGINT asks to finish, the second to abort, the third ends the process', () => {
    const io = scriptedIo()
    const { finish, abort } = listenToInterrupts(io)
    const states = ['SIGINT', 'SIGINT', 'SIGINT'].map((name) => {
      io.signal(name as 'SIGINT')
      return [finish.aborted, abort.aborted, io.exits.length]
    })
    expect(states).toEqual([
      [true, false, 0],
      [true, true, 0],
      [true, true, 1],
    ])
    expect(io.exits).toEqual([130])
  })

  it.each(['SIGTERM', 'SIGHUP'] as const)('%s asks to abort at once', (name) => {
    const io = scriptedIo()
    const { finish, abort } = listenToInterrupts(io)
    io.signal(name)
    expect([finish.aborted, abort.aborted]).toEqual([true, true])
  })

  it('a SIGINT that npx sends on counts once, and a later one again', () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const heard: string[] = []
    const stop = processIo().onEndRequest((signal) => heard.push(signal))
    try {
      process.emit('SIGINT', 'SIGINT')
      vi.advanceTimersByTime(20)
      process.emit('SIGINT', 'SIGINT')
      expect(heard).toEqual(['SIGINT'])
      process.emit('SIGTERM', 'SIGTERM')
      vi.advanceTimersByTime(1000)
      process.emit('SIGINT', 'SIGINT')
      expect(heard).toEqual(['SIGINT', 'SIGTERM', 'SIGINT'])
    } finally {
      stop()
      vi.useRealTimers()
    }
  })

  it('nothing listens after the command', () => {
    const io = scriptedIo()
    const { finish, stop } = listenToInterrupts(io)
    stop()
    io.signal('SIGINT')
    expect(finish.aborted).toBe(false)
  })

  it('a command that fails because it was interrupted ends with 130', async () => {
    const io = scriptedIo()
    const codes: number[] = []
    const run = createRun(io, (code) => codes.push(code))
    const program = createProgram(io, () => undefined)
    program.command('wait').action(
      run(async () => {
        io.signal('SIGINT')
        throw withCode('provider_unavailable')
      }),
    )
    await program.parseAsync(['wait'], { from: 'user' })
    expect(codes).toEqual([130])
  })
})

describe('the exit code of doctor', () => {
  it.each([
    [0, []],
    [1, ['clock']],
    [3, ['budget']],
    [4, ['balance']],
    [4, ['allowance', 'budget']],
    [4, ['wallet']],
    [1, ['service', 'balance', 'allowance']],
    [1, ['open calls', 'balance']],
  ])('is %d for %j', (code, wrong) => {
    expect(exitCodeFor(wrong)).toBe(code)
  })
})
