import type { Readable, Writable } from 'node:stream'
import { homeDirectory } from '../../journal/home-directory.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import { examples } from '../examples.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { readVersion } from '../version.ts'

export const registerMcp: RegisterCommand = (program, run) => {
  program
    .command('mcp')
    .summary('serve the tools of an agent, on standard input and output')
    .description(
      'Runs a server of the Model Context Protocol on standard input and output: tools that an agent calls and that pay from the wallet, within the limits of `farebox limits`. A client starts it; it ends with its standard input.',
    )
    .argument('[folder...]', 'folders that tools may read recordings from and write transcripts to; none by default')
    .option('--allow-private-addresses', 'let tools fetch recordings from this machine and its network')
    .addHelpText(
      'after',
      examples([
        ['farebox mcp', 'chat, images, speech, and recordings at URLs'],
        ['farebox mcp ~/recordings', 'recordings of a folder as well'],
        ['farebox limits', 'what the tools may spend'],
      ]),
    )
    .action(run(mcp))
}

async function mcp(
  context: CommandContext,
  folders: readonly string[],
  options: { readonly allowPrivateAddresses?: boolean },
): Promise<undefined> {
  const { io, settings, output, signal } = context
  const { url, keyFile, rpcUrl, home = homeDirectory(io.environment) } = settings
  const { runServer } = await import('../../mcp/run-server.ts')
  await runServer({
    url,
    keyFile,
    rpcUrl,
    home,
    environment: io.environment,
    budgets: settings.budget,
    version: readVersion(),
    folders,
    allowsPrivateAddresses: options.allowPrivateAddresses ?? false,
    stdin: io.stdin as Readable,
    stdout: io.stdout as Writable,
    signal,
    // The client has been answered; a refusal needs no line here.
    onError: (error) => {
      if (!(error instanceof FareboxError)) output.failure(describe(error, io.environment))
    },
  })
  return undefined
}

function describe(error: unknown, environment: Readonly<NodeJS.ProcessEnv>): string {
  if (!(error instanceof Error)) return String(error)
  return (environment['FAREBOX_DEBUG'] ? error.stack : undefined) ?? error.message
}
