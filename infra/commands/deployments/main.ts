import { z } from 'zod'
import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import type { DeploymentChange } from '#shared/ledger/configuration/control-deployment.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { controlledDeployments, drainedModels } from '#shared/operators/controlled-deployments.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { checkedArgument, checkedFlags, createMain, REASON, Refusal, readCommon, reason } from '../command-line.ts'
import { addConfigurationCommands } from '../configuration/configuration-commands.ts'
import { addTexts } from '../configuration/options.ts'

const MAXIMUM_WEIGHT = 1_000_000
const WEIGHTS = { error: `must be a number from 1 to ${MAXIMUM_WEIGHT}, or "published"` }

const optionsSchema = z.object({ reason })

const weightArgument = z.union(
  [
    z.literal('published').transform(() => null),
    z.string().regex(/^\d+$/).transform(Number).pipe(z.int(WEIGHTS).min(1, WEIGHTS).max(MAXIMUM_WEIGHT, WEIGHTS)),
  ],
  WEIGHTS,
)

/** Runs the command and returns its exit code. */
export const main = createMain('deployments', (command, run) => {
  const changes = (changeOf: (given: string | undefined) => Switch) =>
    run(async (flags, settings, deployment = '', given) => {
      const change = { deployment, ...changeOf(given), ...checkedFlags(optionsSchema, flags) }
      const options = readCommon(flags, settings)
      await withConnection(connectionOf(options), (pool) => control(pool, change, options))
    })
  addConfigurationCommands(
    addTexts(
      command,
      'Shows and publishes the deployments, that is upstreams and models, and switches single ones at once.',
    ),
    run,
    'deployments',
  )
  command
    .command('list')
    .description('print the deployments, what was switched, and what each worker says about them')
    .action(
      run(async (flags, settings) => {
        const options = readCommon(flags, settings)
        await withConnection(connectionOf(options), (pool) => list(pool, options))
      }),
    )
  command
    .command('drain <name>')
    .description('send no new call to a deployment; calls in flight end as usual')
    .requiredOption(...REASON)
    .action(changes(() => ({ isDrained: true })))
  command
    .command('enable <name>')
    .description('send calls to a drained deployment again')
    .requiredOption(...REASON)
    .action(changes(() => ({ isDrained: false })))
  command
    .command('weight <name> <weight>')
    .description('set its share among the deployments of its priority: a number, or "published"')
    .requiredOption(...REASON)
    .action(changes((given) => ({ weight: checkedArgument(weightArgument, 'WEIGHT', given) })))
  return command
})

type Options = ReturnType<typeof readCommon>

type Switch = { readonly isDrained: boolean } | { readonly weight: number | null }

function connectionOf({ databaseUrl: connectionString }: Options) {
  return { connectionString, applicationName: 'farebox deployments', maximumConnections: 2 }
}

async function control(pool: Pool, change: DeploymentChange, { author, asJson }: Options): Promise<void> {
  const outcome = await createControlStore(pool).controlDeployment(author, change)
  if (outcome.outcome === 'unknown_deployment')
    throw new Refusal(
      `No deployment "${change.deployment}" is published; the deployments are ${outcome.known.join(', ') || 'none'}.`,
    )
  const { outcome: result, revision, drainedModels: models } = outcome
  const json = { outcome: result, revision: revision.toString(), drained_models: models }
  const what = result === 'unchanged' ? 'Nothing to do: it is like this already.' : `Done, as revision ${revision}.`
  const withheld = models.length === 0 ? '' : `\nNot offered until a deployment is enabled: ${models.join(', ')}.`
  console.log(asJson ? JSON.stringify(json, null, 2) : `${what}${withheld}`)
}

async function list(pool: Pool, { asJson }: Options): Promise<void> {
  const listed = await listDeployments(pool)
  if (!listed) throw new Refusal('No deployment is published.')
  console.log(asJson ? JSON.stringify(listed, null, 2) : textOf(listed))
}

type ListedWorker =
  | { readonly instance: string; readonly problem: string }
  | { readonly instance: string; readonly circuit: string; readonly active_calls: number; readonly is_drained: boolean }

/**
 * Reads the published deployments, what was switched, and what each running worker says about them, with the names of
 * JSON; `null` when nothing is published.
 */
async function listDeployments(pool: Pool) {
  const configuration = await createConfigurationReader(pool).readConfiguration()
  if (!configuration) return null
  const controls = await createControlStore(pool).readDeploymentControls()
  const running = (await createProcessReportStore(pool).readProcesses()).filter(({ isRunning }) => isRunning)
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
function textOf({
  deployments,
  drained_models: withheld,
}: NonNullable<Awaited<ReturnType<typeof listDeployments>>>): string {
  const lines = deployments.flatMap(({ name, is_drained: isDrained, priority, weight, serves, switched, workers }) => [
    `${name.padEnd(28)} ${isDrained ? 'drained' : 'enabled'}  priority ${priority}  weight ${weight}  ${serves.join(', ')}`,
    ...(switched === null ? [] : [`  switched ${switched.at} by ${switched.operator}: ${switched.reason}`]),
    ...workers.map((worker) => `  ${worker.instance}: ${stateOf(worker)}`),
  ])
  if (withheld.length > 0) lines.push(`Not offered until a deployment is enabled: ${withheld.join(', ')}.`)
  return lines.join('\n')
}

function stateOf(worker: ListedWorker): string {
  if ('problem' in worker) return worker.problem
  return `${worker.is_drained ? 'drained, ' : ''}circuit ${worker.circuit}, ${worker.active_calls} calls in flight`
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
