import { type Author, BUDGET_AUTHOR } from '#shared/operators/author.ts'
import type { Configuration, DeploymentControl } from '#shared/operators/configuration.ts'
import { drainedModels } from '#shared/operators/controlled-deployments.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { readConfiguration } from './configuration-reader.ts'
import { lockConfiguration, raiseRevision } from './revision.ts'

/** What is to change about one deployment; the rest stays. */
export type DeploymentChange = Partial<DeploymentControl> & {
  readonly deployment: string
  readonly reason: string
}

export type DeploymentChangeOutcome =
  | {
      readonly outcome: 'changed' | 'unchanged'
      readonly revision: bigint
      /** Models that are not offered, because only drained deployments serve them. */
      readonly drainedModels: readonly string[]
    }
  | { readonly outcome: 'unknown_deployment'; readonly known: readonly string[] }

const UNCONTROLLED: DeploymentControl = { isDrained: false, weight: null }

/**
 * Drains, enables or weights a deployment. One that was removed by a publication can still be changed: it may have
 * accepted jobs, and its control is in force again once it is published again. An operator who drains what a
 * vendor's budget drained takes the drain over; one who only weights it does not.
 */
export async function controlDeployment(
  pool: Pool,
  author: Author,
  change: DeploymentChange,
): Promise<DeploymentChangeOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const configuration = await readConfiguration(sql)
    const known = configuration?.deployments.file.deployments.map(({ name }) => name) ?? []
    const current = configuration?.controls.get(change.deployment)
    if (configuration === null || (current === undefined && !(await wasPublished(sql, change.deployment))))
      return { outcome: 'unknown_deployment', known }
    const { isDrained, weight } = { ...UNCONTROLLED, ...current }
    const next = {
      isDrained: change.isDrained ?? isDrained,
      weight: change.weight === undefined ? weight : change.weight,
    }
    const isOfBudget = isDrained && (await readOperator(sql, change.deployment)) === BUDGET_AUTHOR.operator
    // An operator may have drained it, or taken the drain over, since the budget's sums were read.
    const isNotOurs = author.operator === BUDGET_AUTHOR.operator && isDrained && !isOfBudget
    const isTakenOver = isOfBudget && change.isDrained === true && author.operator !== BUDGET_AUTHOR.operator
    if (isNotOurs || (next.isDrained === isDrained && next.weight === weight && !isTakenOver))
      return { outcome: 'unchanged', revision: configuration.revision, drainedModels: drainedModels(configuration) }
    const revision = await raiseRevision(sql)
    await write(sql, author, { ...change, keepsOperator: isOfBudget && next.isDrained && !isTakenOver }, next)
    await recordAction(sql, author, {
      action: isTakenOver ? 'deployment.drain' : actionOf({ isDrained, weight }, next),
      subject: change.deployment,
      reason: change.reason,
      details: { is_drained: next.isDrained, weight: next.weight },
    })
    return { outcome: 'changed', revision, drainedModels: drainedModels(changed(configuration, change, next)) }
  })
}

async function wasPublished(sql: Sql, deployment: string): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'was_deployment_published',
    text: `SELECT FROM publications WHERE kind = 'deployments' AND content -> 'deployments' @> $1 LIMIT 1`,
    values: [JSON.stringify([{ name: deployment }])],
  })
  return rowCount === 1
}

async function readOperator(sql: Sql, deployment: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ operator: string }>({
    name: 'read_operator_of_deployment',
    text: "SELECT operator FROM controls WHERE kind = 'deployment' AND subject = $1",
    values: [deployment],
  })
  return rows[0]?.operator
}

function actionOf(current: DeploymentControl, next: DeploymentControl): string {
  if (current.isDrained === next.isDrained) return 'deployment.weight'
  return next.isDrained ? 'deployment.drain' : 'deployment.enable'
}

function changed(
  { deployments, controls }: Configuration,
  { deployment }: DeploymentChange,
  next: DeploymentControl,
): Pick<Configuration, 'deployments' | 'controls'> {
  return { deployments, controls: new Map([...controls, [deployment, next]]) }
}

async function write(
  sql: Sql,
  { operator }: Author,
  { deployment, reason, keepsOperator }: DeploymentChange & { readonly keepsOperator: boolean },
  { isDrained, weight }: DeploymentControl,
): Promise<void> {
  await sql.query({
    name: 'control_deployment',
    text: `INSERT INTO controls (kind, subject, is_stopped, weight, operator, reason)
      VALUES ('deployment', $1, $2, $3, $4, $5)
      ON CONFLICT (kind, subject) DO UPDATE SET is_stopped = EXCLUDED.is_stopped, weight = EXCLUDED.weight,
        operator = CASE WHEN $6 THEN controls.operator ELSE EXCLUDED.operator END,
        reason = CASE WHEN $6 THEN controls.reason ELSE EXCLUDED.reason END, changed_at = now()`,
    values: [deployment, isDrained, weight, operator, reason, keepsOperator],
  })
}
