/** Who makes a change: the account of the console, or the name that a command was given. */
export interface Author {
  readonly operator: string
  readonly source: 'console' | 'command'
}

/** In whose name vendors' budgets drain deployments and enable them again. */
export const BUDGET_AUTHOR: Author = { operator: 'vendor budget', source: 'command' }
