import type { Command } from 'commander'
import type { Farebox, FareboxOptions } from '../farebox.ts'
import { APPROVAL_TEXT } from './commands/calls/notes.ts'
import { EXIT, type ExitCode, exitCodeOf } from './exit-codes.ts'
import type { Io } from './io.ts'
import { createOutput, type Output } from './output/output.ts'
import { requireUrl, type Settings, settingsOf } from './settings.ts'

/** The two steps in which a command is asked to end. */
interface Interrupts {
  /** Aborted at the first request: begin nothing more. */
  readonly finish: AbortSignal
  /** Aborted at the second SIGINT, and at once by SIGTERM and SIGHUP: leave what is under way. */
  readonly abort: AbortSignal
  readonly stop: () => void
}

interface OpenOptions {
  readonly needsWallet?: boolean
  /** The service where the settings name none. */
  readonly url?: string | undefined
}

/** What a command works with. */
export interface CommandContext {
  readonly io: Io
  readonly settings: Settings
  readonly output: Output
  readonly interrupts: Interrupts
  /** Aborted by the first SIGINT. */
  readonly signal: AbortSignal
  /** Opens the library once; it is closed when the command ends. Without a wallet it can do all that pays nothing. */
  farebox(options?: OpenOptions): Promise<Farebox>
}

/** A command's work; without a result it succeeded. */
type Handler<Arguments extends readonly unknown[]> = (
  context: CommandContext,
  ...args: Arguments
) => Promise<ExitCode | undefined>

/** Turns a handler into an action of commander: the arguments, then the options. */
type Run = <Arguments extends readonly unknown[]>(
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
      const farebox = ({ needsWallet = true, url }: OpenOptions = {}) =>
        (opened ??= openFarebox({ ...settings, url: settings.url ?? url }, io.environment, needsWallet, () =>
          output.note(APPROVAL_TEXT),
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

/** Listens to the signals of the process. A third SIGINT ends it without waiting for anything. */
export function listenToInterrupts(io: Io): Interrupts {
  const finish = new AbortController()
  const abort = new AbortController()
  const stop = io.onEndRequest((signal) => {
    if (abort.signal.aborted) return io.exit(EXIT.interrupted)
    if (finish.signal.aborted || signal !== 'SIGINT') abort.abort()
    finish.abort()
  })
  return { finish: finish.signal, abort: abort.signal, stop }
}

/** Opens the library with the settings. It is loaded only here, so that help begins at once. */
async function openFarebox(
  settings: Settings,
  environment: Io['environment'],
  needsWallet: boolean,
  onApproved: FareboxOptions['onApproved'],
): Promise<Farebox> {
  const baseUrl = requireUrl(settings)
  const { createFarebox } = await import('../farebox.ts')
  const { openWallet } = await import('../wallet/open-wallet.ts')
  const { throwawayWallet } = await import('../wallet/wallet-from-private-key.ts')
  const { keyFile, rpcUrl, home, budget } = settings
  const isNamed = needsWallet || namesWallet(settings, environment)
  const wallet = isNamed ? await openWallet({ keyFile, environment }) : throwawayWallet()
  const journal = home === undefined ? {} : { journal: home }
  return await createFarebox({ wallet, baseUrl, rpcUrl, budget, onApproved, ...journal })
}

const WALLET_VARIABLES = ['FAREBOX_WALLET_MODULE', 'FAREBOX_PRIVATE_KEY', 'FAREBOX_KEY_FILE']

export function namesWallet({ keyFile }: Settings, environment: Io['environment']): boolean {
  return [keyFile, ...WALLET_VARIABLES.map((name) => environment[name])].some(Boolean)
}
