import type { LimitName } from '../../budget/budget-exceeded.ts'
import type { BudgetAmounts, BudgetLimits, RefusedLimit } from '../../budget/limits.ts'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import {
  DEFAULT_LIMITS,
  limitsCommand,
  limitsPath,
  readLimitsFile,
  type SpendingLimits,
  unusable,
} from './limits-file.ts'

const VARIABLES: Readonly<Record<LimitName, string>> = {
  call: 'FAREBOX_CALL_BUDGET',
  session: 'FAREBOX_BUDGET',
  day: 'FAREBOX_DAY_BUDGET',
}

/**
 * Opens the limits that belong to a journal. The file is read at each use, so that a change holds at once. Budgets that a
 * person sets where the server is started can only be lower.
 */
export function openLimits(home: string, budgets: BudgetAmounts = {}) {
  const path = limitsPath(home)
  let wasThere = false
  const current = (): SpendingLimits => {
    const file = readLimitsFile(path)
    // The defaults may be higher than what was set.
    if (file === null && wasThere)
      throw unusable(
        `The limits file ${path} is gone.`,
        `The person runs in a terminal: ${limitsCommand(path, 'reset')}`,
      )
    wasThere ||= file !== null
    return atMost(file?.limits ?? DEFAULT_LIMITS, budgets)
  }
  return {
    path,
    /** Returns the limits in force. Throws a `FareboxError` for an unusable file. */
    current,
    /** Returns the limits as those of a budget, in which each tool is a group. */
    budget: (): BudgetLimits => {
      const { call, session, day, tools: groups } = current()
      return { call, session, day, groups, advice: (refused) => limitAdvice(refused, path, budgets) }
    },
  }
}

export type LimitStore = ReturnType<typeof openLimits>

function atMost(limits: SpendingLimits, { call, session, day }: BudgetAmounts): SpendingLimits {
  return {
    ...limits,
    call: lower(limits.call, call),
    session: lower(limits.session, session),
    day: lower(limits.day, day),
  }
}

function lower(limit: string, budget: string | undefined): string {
  return budget !== undefined && parseUsdc(budget) < parseUsdc(limit) ? budget : limit
}

/** Returns the sentence that says what a person does to allow a call that was refused. */
function limitAdvice(
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
