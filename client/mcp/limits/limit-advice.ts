import type { LimitName } from '../../budget/budget-exceeded.ts'
import type { BudgetAmounts, RefusedLimit } from '../../budget/limits.ts'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import { limitsCommand } from './limits-path.ts'

const VARIABLES: Readonly<Record<LimitName, string>> = {
  call: 'FAREBOX_CALL_BUDGET',
  session: 'FAREBOX_BUDGET',
  day: 'FAREBOX_DAY_BUDGET',
}

/** Returns the sentence that says what a person does to allow a call that was refused. */
export function limitAdvice(
  { name, group, limitAtomic, neededAtomic }: RefusedLimit,
  path: string,
  budgets: BudgetAmounts,
): string {
  const needed = formatUsdc(neededAtomic)
  const budget = budgets[name]
  if (group === null && budget !== undefined && parseUsdc(budget) === limitAtomic)
    return `Only the person can allow it: they set ${VARIABLES[name]} to at least ${needed} where the server is started.`
  const tool = group === null ? '' : `--tool ${group} `
  return `Only the person can allow it: they run in a terminal: ${limitsCommand(path, `set ${tool}--${name} ${needed}`)}`
}
