import { Argument, type Command, type Option } from 'commander'
import { shellQuoted } from '../wire/plain-text.ts'
import { examples } from './examples.ts'
import type { RegisterCommand } from './run.ts'

/** What a shell completes, read from the program itself. */
interface CompletableCommand {
  readonly name: string
  readonly description: string
  readonly options: readonly CompletableOption[]
  /** The values of its first argument, if there are only a few; otherwise it takes files. */
  readonly choices: readonly string[]
}

interface CompletableOption {
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

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const

/** Adds `farebox completion`. Its scripts contain the commands and flags of the program that prints them. */
export const registerCompletion: RegisterCommand = (program: Command, run) => {
  program
    .command('completion')
    .description('Prints the script that completes commands and flags in a shell.')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText(
      'after',
      examples([
        ['eval "$(farebox completion bash)"', 'in ~/.bashrc'],
        ['eval "$(farebox completion zsh)"', 'in ~/.zshrc, after compinit'],
        ['farebox completion fish > ~/.config/fish/completions/farebox.fish', 'once'],
      ]),
    )
    .action(
      run(async ({ output }, shell: keyof typeof SCRIPTS) => {
        await output.content(SCRIPTS[shell](completable(program)))
        return undefined
      }),
    )
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

/** Renders the completion script for bash. */
export function bashCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const names = commands.map((command) => command.name)
  const all = [...globalOptions, ...commands.flatMap(({ options }) => options)]
  const byName = new Map(all.map((option) => [option.long, option]))
  return `# ${name} completion for bash. In ~/.bashrc: eval "$(${name} completion bash)"
_${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} command='' word options choices
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in ${names.join('|')}) command=$word; break ;; esac
  done
  COMPREPLY=()
  case $previous in
${[...byName.values()].flatMap(valueCase).join('\n')}
  esac
  case $command in
    '') options='${longs(globalOptions)}' choices='${names.join(' ')}' ;;
${commands.map((command) => `    ${command.name}) options='${longs(command.options)}' choices='${command.choices.join(' ')}' ;;`).join('\n')}
  esac
  [[ $current == -* ]] && choices=$options
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -o default -F _${name} ${name}
`
}

/** After an option with a value come its choices, or files. */
function valueCase({ long, short, takesValue, choices }: CompletableOption): string[] {
  if (!takesValue) return []
  const pattern = short === undefined ? long : `${short}|${long}`
  if (choices.length === 0) return [`    ${pattern}) return ;;`]
  return [`    ${pattern}) COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$current")); return ;;`]
}

function longs(options: readonly CompletableOption[]): string {
  return options.map(({ long }) => long).join(' ')
}

/** Renders the completion script for zsh. */
export function zshCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const list = commands.map((command) => shellQuoted(`${command.name}:${command.description.replaceAll(':', '\\:')}`))
  return `#compdef ${name}
# ${name} completion for zsh. In ~/.zshrc, after compinit: eval "$(${name} completion zsh)"
_${name}() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a commands=(
${list.map((item) => `    ${item}`).join('\n')}
  )
  _arguments -C \\
${specs(globalOptions)}    '1: :->command' \\
    '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
${commands.map((command) => `        ${command.name}) _arguments \\\n${specs(command.options)}    ${rest(command.choices)} ;;`).join('\n')}
      esac ;;
  esac
}
if [[ $funcstack[1] == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`
}

function specs(options: readonly CompletableOption[]): string {
  return options.map((option) => `    ${spec(option)} \\\n`).join('')
}

function spec({ long, short, description, takesValue, choices }: CompletableOption): string {
  const text = `[${description.replace(/[[\]:\\]/g, '\\$&')}]`
  const value = takesValue ? `:value:${choices.length > 0 ? `(${choices.join(' ')})` : '_files'}` : ''
  const longForm = takesValue ? `${long}=` : long
  if (short === undefined) return shellQuoted(`${longForm}${text}${value}`)
  return `${shellQuoted(`(${short} ${long})`)}{${short},${longForm}}${shellQuoted(text + value)}`
}

function rest(choices: readonly string[]): string {
  return shellQuoted(choices.length > 0 ? `1:value:(${choices.join(' ')})` : '*:file:_files')
}

/** Renders the completion script for fish. */
export function fishCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const top = `complete -c ${name} -n __fish_use_subcommand`
  return [
    `# ${name} completion for fish. Once: ${name} completion fish > ~/.config/fish/completions/${name}.fish`,
    `complete -c ${name} -f`,
    ...globalOptions.map((option) => `${top} ${flags(option)}`),
    ...commands.map((command) => `${top} -a ${command.name} -d ${quoteForFish(command.description)}`),
    ...commands.flatMap((command) => {
      const inside = `complete -c ${name} -n '__fish_seen_subcommand_from ${command.name}'`
      const rest = command.choices.length > 0 ? `-a ${quoteForFish(command.choices.join(' '))}` : '-F'
      return [...command.options.map((option) => `${inside} ${flags(option)}`), `${inside} ${rest}`]
    }),
    '',
  ].join('\n')
}

function flags({ long, short, description, takesValue, choices }: CompletableOption): string {
  return [
    `-l ${long.slice(2)}`,
    ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
    ...(takesValue ? [choices.length > 0 ? `-x -a ${quoteForFish(choices.join(' '))}` : '-r -F'] : []),
    `-d ${quoteForFish(description)}`,
  ].join(' ')
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
