import type { CompletableOption, CompletableProgram } from './completable.ts'

/** Renders the completion script for zsh. */
export function zshCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const list = commands.map((command) => quote(`${command.name}:${command.description.replaceAll(':', '\\:')}`))
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
  if (short === undefined) return quote(`${longForm}${text}${value}`)
  return `${quote(`(${short} ${long})`)}{${short},${longForm}}${quote(text + value)}`
}

function rest(choices: readonly string[]): string {
  return quote(choices.length > 0 ? `1:value:(${choices.join(' ')})` : '*:file:_files')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
