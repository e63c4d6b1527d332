import { bindTo } from '../bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readConfiguration } from './configuration-reader.ts'
import { controlDeployment } from './control-deployment.ts'
import { createControlStore } from './control-store.ts'

export type BudgetStore = ReturnType<typeof createBudgetStore>

/** Creates the store of what keeps vendors within their budgets. */
export function createBudgetStore(pool: Pool) {
  const { readDeploymentControls } = createControlStore(pool)
  return { ...bindTo(pool, { readConfiguration, readSpentToday, controlDeployment }), readDeploymentControls }
}

/** Returns what vendors bill for the attempts that ended since midnight (UTC), in atomic USDC, by deployment. */
async function readSpentToday(sql: Sql): Promise<ReadonlyMap<string, bigint>> {
  const { rows } = await sql.query<{ deployment: string; spent: string }>({
    name: 'read_spent_today',
    text: `SELECT deployment, sum(vendor_cost) AS spent FROM upstream_attempts
     WHERE state IN ('succeeded', 'failed_empty', 'failed_ambiguous') AND vendor_cost IS NOT NULL
       AND finished_at >= date_trunc('day', now(), 'UTC') GROUP BY 1`,
    values: [],
  })
  return new Map(rows.map(({ deployment, spent }) => [deployment, BigInt(spent)]))
}
