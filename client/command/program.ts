import { Command, CommanderError } from 'commander'
import { registerApprove } from './commands/approve.ts'
import { registerBalance } from './commands/balance.ts'
import { registerChat } from './commands/chat.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerImage } from './commands/image.ts'
import { registerLimits } from './commands/limits.ts'
import { registerMcp } from './commands/mcp.ts'
import { registerQuote } from './commands/quote.ts'
import { registerSay } from './commands/say.ts'
import { registerSpend } from './commands/spend.ts'
import { registerVerify } from './commands/verify.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { printableLines } from './output/terminal.ts'
import { createRun } from './run.ts'
import { addGlobalOptions } from './settings.ts'
import { registerTranscribe } from './transcribe/transcribe-command.ts'
import { readVersion } from './version.ts'

/** All commands, in the order of the help. */
const COMMANDS = [
  registerTranscribe,
  registerQuote,
  registerChat,
  registerImage,
  registerSay,
  registerBalance,
  registerApprove,
  registerSpend,
  registerVerify,
  registerDoctor,
  registerMcp,
  registerLimits,
] as const

/** Runs the program with the arguments behind its name and returns the exit code. */
export async function runProgram(args: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = EXIT.done
  const program = createProgram(io, (reported) => {
    code = reported
  })
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? EXIT.done : EXIT.usage
  }
  return code
}

/** Returns the program with all its commands. */
export function createProgram(io: Io, report: (code: ExitCode) => void): Command {
  const program = new Command('farebox')
    .description('Transcribes folders and calls AI models, paid per request in USDC.')
    .version(readVersion())
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(withoutKeys(printableLines(text))),
    })
    .showHelpAfterError('(add --help for the options and examples)')
    .exitOverride()
  addGlobalOptions(program)
  const run = createRun(io, report)
  for (const register of COMMANDS) register(program, run)
  return program
}

/** A private key that was typed as an argument must not reach a log. */
function withoutKeys(text: string): string {
  const redacted = text.replace(/(?:0x)?[0-9a-f]{64}/gi, '[key]')
  if (redacted === text) return text
  return `${redacted}A private key is never taken from the command line: set FAREBOX_PRIVATE_KEY or FAREBOX_KEY_FILE, and replace this key.\n`
}
