import type { CompletableOption, CompletableProgram } from './completable.ts'

/** Renders the completion script for fish. */
export function fishCompletion({ name, globalOptions, commands }: CompletableProgram): string {
  const top = `complete -c ${name} -n __fish_use_subcommand`
  return [
    `# ${name} completion for fish. Once: ${name} completion fish > ~/.config/fish/completions/${name}.fish`,
    `complete -c ${name} -f`,
    ...globalOptions.map((option) => `${top} ${flags(option)}`),
    ...commands.map((command) => `${top} -a ${command.name} -d ${quote(command.description)}`),
    ...commands.flatMap((command) => {
      const inside = `complete -c ${name} -n '__fish_seen_subcommand_from ${command.name}'`
      const rest = command.choices.length > 0 ? `-a ${quote(command.choices.join(' '))}` : '-F'
      return [...command.options.map((option) => `${inside} ${flags(option)}`), `${inside} ${rest}`]
    }),
    '',
  ].join('\n')
}

function flags({ long, short, description, takesValue, choices }: CompletableOption): string {
  return [
    `-l ${long.slice(2)}`,
    ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
    ...(takesValue ? [choices.length > 0 ? `-x -a ${quote(choices.join(' '))}` : '-r -F'] : []),
    `-d ${quote(description)}`,
  ].join(' ')
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
