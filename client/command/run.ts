import { type Command } from 'commander'
import type { Farebox } from '../farebox.ts'
import { approvalText } from './commands/calls/allowance-text.ts'
import { EXIT, type ExitCode, exitCodeOf } from './exit-codes.ts'
import { type Interrupts, listenToInterrupts } from './interrupts.ts'
import type { Io } from './io.ts'
import { openFarebox } from './open-farebox.ts'
import { createOutput, type Output } from './output/output.ts'
import { type Settings, settingsOf } from './settings.ts'

/** What a command works with. */
export interface CommandContext {
  readonly io: Io
  readonly settings: Settings
  readonly output: Output
  readonly interrupts: Interrupts
  /** Aborted by the first SIGINT. */
  readonly signal: AbortSignal
  /** Opens the library once; it is closed when the command ends. Without a wallet it can do all that pays nothing. */
  farebox(options?: { readonly needsWallet?: boolean }): Promise<Farebox>
}

/** A command's work; without a result it succeeded. */
export type Handler<Arguments extends readonly unknown[]> = (
  context: CommandContext,
  ...args: Arguments
) => Promise<ExitCode | undefined>

/** Turns a handler into an action of commander: the arguments, then the options. */
export type Run = <Arguments extends readonly unknown[]>(
  handler: Handler<Arguments>,
) => (this: Command, ...args: [...Arguments]) => Promise<void>

/** Adds a command to the program. What it needs to work is loaded when it runs. */
export type RegisterCommand = (program: Command, run: Run) => void

/** Returns the wrapper of all handlers: prints errors and reports the exit code. */
export function createRun(io: Io, report: (code: ExitCode) => void): Run {
  return (handler) =>
    async function act(this: Command, ...args) {
      const settings = settingsOf(this)
      const output = createOutput(io, settings.json)
      const interrupts = listenToInterrupts(io)
      let opened: Promise<Farebox> | undefined
      const farebox = ({ needsWallet = true } = {}) =>
        (opened ??= openFarebox(settings, io.environment, needsWallet, (approval) =>
          output.note(approvalText(approval.transaction)),
        ))
      const context = { io, settings, output, interrupts, signal: interrupts.finish, farebox }
      try {
        report((await handler(context, ...args)) ?? EXIT.done)
      } catch (error) {
        report(interrupts.finish.aborted ? EXIT.interrupted : exitCodeOf(error))
        output.error(error)
      } finally {
        await (await opened?.catch(() => undefined))?.close()
        interrupts.stop()
      }
    }
}
