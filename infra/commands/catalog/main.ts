import { createMain } from '../command-line.ts'
import { addConfigurationCommands } from '../configuration/configuration-commands.ts'
import { addTexts } from '../configuration/options.ts'

/** Runs the command and returns its exit code. */
export const main = createMain('catalog', (command, run) =>
  addConfigurationCommands(
    addTexts(command, 'Shows and publishes the catalog: prices, limits, the default voice.'),
    run,
    'catalog',
  ),
)

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
