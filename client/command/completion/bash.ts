import type { CompletableOption, CompletableProgram } from './completable.ts'

/** Renders the completion script for bash. */
export function bashCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const names = commands.map((command) => command.name)
  const values = uniqueByLong([...globalOptions, ...commands.flatMap(({ options }) => options)])
  return `# ${name} completion for bash. In ~/.bashrc: eval "$(${name} completion bash)"
_${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} command='' word options choices
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in ${names.join('|')}) command=$word; break ;; esac
  done
  COMPREPLY=()
  case $previous in
${values.flatMap(valueCase).join('\n')}
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

function uniqueByLong(options: readonly CompletableOption[]): CompletableOption[] {
  return [...new Map(options.map((option) => [option.long, option])).values()]
}
