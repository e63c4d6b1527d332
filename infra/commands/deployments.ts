import { COMMANDS, CONTROL_HELP, runControlCommand } from '../configuration/control-command.ts'
import { helpOf } from '../configuration/read-options.ts'
import { runConfigurationCommand } from '../configuration/run-command.ts'

/** Runs `npm run deployments` and returns its exit code. */
async function run(commandLine: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const command = commandLine.find((argument) => !argument.startsWith('-'))
  if (COMMANDS.some((known) => known === command)) return await runControlCommand(commandLine, environment)
  if (command !== undefined || !commandLine.includes('--help'))
    return await runConfigurationCommand('deployments', commandLine, environment)
  console.log(`${helpOf('deployments')}\n\n${CONTROL_HELP}`)
  return 0
}

if (import.meta.main) process.exitCode = await run(process.argv.slice(2), process.env)
