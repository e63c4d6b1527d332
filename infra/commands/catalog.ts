import { runConfigurationCommand } from '../configuration/run-command.ts'

if (import.meta.main) process.exitCode = await runConfigurationCommand('catalog', process.argv.slice(2), process.env)
