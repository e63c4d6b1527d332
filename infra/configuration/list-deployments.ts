import { createConfigurationReader } from '#shared/adapters/postgres/configuration/configuration-reader.ts'
import { createControlStore } from '#shared/adapters/postgres/configuration/control-store.ts'
import { createProcessReportStore } from '#shared/adapters/postgres/configuration/process-report-store.ts'
import type { Pool } from '#shared/adapters/postgres/pool.ts'
import { controlledDeployments, drainedModels } from '#shared/operators/controlled-deployments.ts'
import { isRunning, type SeenProcess } from '#shared/operators/process-report.ts'

/** The deployments as they are printed, with the names of JSON. */
export interface ListedDeployments {
  readonly revision: string
  readonly drained_models: readonly string[]
  readonly deployments: readonly ListedDeployment[]
}

interface ListedDeployment {
  readonly name: string
  readonly adapter: string
  readonly is_drained: boolean
  readonly priority: number
  readonly weight: number
  readonly serves: readonly string[]
  readonly switched: { readonly operator: string; readonly at: string; readonly reason: string | null } | null
  readonly workers: readonly ListedWorker[]
}

type ListedWorker =
  | { readonly instance: string; readonly problem: string }
  | { readonly instance: string; readonly circuit: string; readonly active_calls: number; readonly is_drained: boolean }

/** Reads the published deployments, what was switched, and what each running worker says about them. */
export async function listDeployments(pool: Pool): Promise<ListedDeployments | null> {
  const configuration = await createConfigurationReader(pool).readConfiguration()
  if (!configuration) return null
  const controls = await createControlStore(pool).readDeploymentControls()
  const running = (await createProcessReportStore(pool).readProcesses()).filter((seen) => isRunning(seen, new Date()))
  return {
    revision: configuration.revision.toString(),
    drained_models: drainedModels(configuration),
    deployments: controlledDeployments(configuration).map(({ entry, isDrained }) => {
      const control = controls.get(entry.name)
      return {
        name: entry.name,
        adapter: entry.adapter,
        is_drained: isDrained,
        priority: entry.priority,
        weight: entry.weight,
        serves: entry.serves,
        switched: control
          ? { operator: control.operator, at: control.changedAt.toISOString(), reason: control.reason }
          : null,
        workers: running.flatMap((process) => workerOf(process, entry.name)),
      }
    }),
  }
}

function workerOf({ instance, report }: SeenProcess, name: string): readonly ListedWorker[] {
  const problem = report.unusable?.[name]
  if (problem !== undefined) return [{ instance, problem }]
  const seen = report.deployments?.[name]
  if (seen === undefined) return []
  return [{ instance, circuit: seen.circuit, active_calls: seen.activeCalls, is_drained: seen.isDrained }]
}

/** Renders the deployments for a terminal. */
export function textOf({ deployments, drained_models: withheld }: ListedDeployments): string {
  const lines = deployments.flatMap(({ name, is_drained: isDrained, priority, weight, serves, switched, workers }) => [
    `${name.padEnd(28)} ${isDrained ? 'drained' : 'enabled'}  priority ${priority}  weight ${weight}  ${serves.join(', ')}`,
    ...(switched === null ? [] : [`  switched ${switched.at} by ${switched.operator}: ${switched.reason ?? ''}`]),
    ...workers.map((worker) => `  ${worker.instance}: ${stateOf(worker)}`),
  ])
  if (withheld.length > 0) lines.push(`Not offered until a deployment is enabled: ${withheld.join(', ')}.`)
  return lines.join('\n')
}

function stateOf(worker: ListedWorker): string {
  if ('problem' in worker) return worker.problem
  return `${worker.is_drained ? 'drained, ' : ''}circuit ${worker.circuit}, ${worker.active_calls} calls in flight`
}
