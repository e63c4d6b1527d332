import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { readConfiguration } from './configuration-reader.ts'
import { controlDeployment } from './control-deployment.ts'
import { createControlStore } from './control-store.ts'

export type BudgetStore = ReturnType<typeof createBudgetStore>

/** Creates the store of what keeps vendors within their budgets. */
export function createBudgetStore(pool: Pool) {
  const { readDeploymentControls } = createControlStore(pool)
  return { ...bindTo(pool, { readConfiguration, readSpent, controlDeployment }), readDeploymentControls }
}

/** What a deployment's vendor bills for attempts, in atomic USDC. */
export interface Spent {
  readonly vendor: string
  readonly deployment: string
  /** Whether the attempts ended before `stableBefore`. */
  readonly isStable: boolean
  readonly amount: bigint
}

/**
 * Returns what vendors bill for the attempts that ended at or after `from`. Without the upper bound, a plan for any `from`
 * expects a third of all attempts, and reads the whole table.
 */
async function readSpent(sql: Sql, from: Date, stableBefore: Date): Promise<readonly Spent[]> {
  return await readRows<Spent>(sql, {
    name: 'read_spent',
    text: `SELECT vendor, deployment, finished_at < $2 AS "isStable", sum(vendor_cost) AS amount FROM upstream_attempts
     WHERE state IN ('succeeded', 'failed_empty', 'failed_ambiguous') AND vendor_cost IS NOT NULL
       AND finished_at BETWEEN $1 AND now() GROUP BY 1, 2, 3`,
    values: [from, stableBefore],
  })
}
