/** Renders examples for the end of a command's help. */
export function examples(list: readonly (readonly [command: string, meaning: string])[]): string {
  const width = Math.max(...list.map(([command]) => command.length))
  return ['', 'Examples:', ...list.map(([command, meaning]) => `  ${command.padEnd(width)}  # ${meaning}`)].join('\n')
}
