/** Who makes a change: the account of the console, or the name that a command was given. */
export interface Author {
  readonly operator: string
  readonly source: 'console' | 'command'
}
