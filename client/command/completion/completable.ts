import type { Command, Option } from 'commander'

/** What a shell completes, read from the program itself. */
export interface CompletableCommand {
  readonly name: string
  readonly description: string
  readonly options: readonly CompletableOption[]
  /** The values of its first argument, if there are only a few; otherwise it takes files. */
  readonly choices: readonly string[]
}

export interface CompletableOption {
  readonly long: string
  readonly short: string | undefined
  readonly description: string
  readonly takesValue: boolean
  readonly choices: readonly string[]
}

export interface CompletableProgram {
  readonly name: string
  readonly globalOptions: readonly CompletableOption[]
  /** Their options include the global ones. */
  readonly commands: readonly CompletableCommand[]
}

/** Reads what is shown in the help. */
export function completable(program: Command): CompletableProgram {
  const help = program.createHelp()
  const globalOptions = help.visibleOptions(program).flatMap(optionOf)
  const shared = globalOptions.filter(({ long }) => long !== '--help' && long !== '--version')
  return {
    name: program.name(),
    globalOptions,
    commands: help.visibleCommands(program).map((command) => ({
      name: command.name(),
      description: command.summary() || command.description(),
      options: [...help.visibleOptions(command).flatMap(optionOf), ...shared],
      choices: command.registeredArguments[0]?.argChoices ?? [],
    })),
  }
}

function optionOf(option: Option): CompletableOption[] {
  const { long, short, description, required, optional, argChoices } = option
  if (!long) return []
  return [{ long, short, description, takesValue: required || optional, choices: argChoices ?? [] }]
}
