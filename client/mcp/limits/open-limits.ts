import type { BudgetAmounts, BudgetLimits } from '../../budget/limits.ts'
import { parseUsdc } from '../../budget/usdc.ts'
import type { FareboxError } from '../../wire/farebox-error.ts'
import type { LimitStore, SpendingLimits } from '../tool.ts'
import { limitAdvice } from './limit-advice.ts'
import { readLimitsFile, unusable } from './limits-file.ts'
import { limitsCommand, limitsPath } from './limits-path.ts'
import { DEFAULT_LIMITS } from './limits-schema.ts'

/**
 * Opens the limits that belong to a journal. The file is read at each use, so that a change holds at once. Budgets that a
 * person sets where the server is started can only be lower.
 */
export function openLimits(home: string, budgets: BudgetAmounts = {}): LimitStore {
  const path = limitsPath(home)
  let wasThere = false
  const current = () => {
    const file = readLimitsFile(path)
    // The defaults may be higher than what was set.
    if (file === null && wasThere) throw vanished(path)
    wasThere ||= file !== null
    return atMost(file?.limits ?? DEFAULT_LIMITS, budgets)
  }
  return {
    path,
    current,
    budget: () => ({ ...budgetOf(current()), advice: (refused) => limitAdvice(refused, path, budgets) }),
    requireRoom: (farebox, { tool: group, key: requestId, maximum }) =>
      farebox.requireBudget({ requestId, maximum, group }),
  }
}

function budgetOf({ call, session, day, tools: groups }: SpendingLimits): BudgetLimits {
  return { call, session, day, groups }
}

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

function vanished(path: string): FareboxError {
  return unusable(`The limits file ${path} is gone.`, `The person runs in a terminal: ${limitsCommand(path, 'reset')}`)
}
