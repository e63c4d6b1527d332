import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import type { DeploymentChange } from '#shared/ledger/configuration/control-deployment.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { controlledDeployments, drainedModels } from '#shared/operators/controlled-deployments.ts'
import { isRunning, type SeenProcess } from '#shared/operators/process-report.ts'
import { COMMON, createCommand, Refusal, readArguments, readCommon, TEXT, UsageError } from '../command-line.ts'
import { helpOf } from '../configuration/read-options.ts'
import { runConfigurationCommand } from '../configuration/run-command.ts'

const COMMANDS = ['list', 'drain', 'enable', 'weight'] as const

const CONTROL_HELP = `Acts on single deployments at once, without a publication. All processes apply it within two seconds.

  list                          print the deployments, what was switched, and what each worker says about them
  drain NAME                    send no new call to a deployment; calls in flight end as usual
  enable NAME                   send calls to a drained deployment again
  weight NAME NUMBER|published  set its share among the deployments of its priority

  --reason <text>               why; required, except by list`

const MAXIMUM_WEIGHT = 1_000_000

/** Its `change` is `null` to list. */
type Options = NonNullable<ReturnType<typeof readOptions>>

/** Runs `npm run deployments` and returns its exit code. */
async function run(commandLine: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const command = commandLine.find((argument) => !argument.startsWith('-'))
  if (COMMANDS.some((known) => known === command)) return await runControlCommand(commandLine, environment)
  if (command !== undefined || !commandLine.includes('--help'))
    return await runConfigurationCommand('deployments', commandLine, environment)
  console.log(`${helpOf('deployments')}\n\n${CONTROL_HELP}`)
  return 0
}

/** Runs `list`, `drain`, `enable` or `weight` and returns the exit code. */
const runControlCommand = createCommand(CONTROL_HELP, readOptions, async (options) => {
  const { change, databaseUrl: connectionString } = options
  const connection = { connectionString, applicationName: 'farebox deployments', maximumConnections: 2 }
  await withConnection(connection, (pool) => (change ? control(pool, change, options) : list(pool, options)))
})

function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine, { ...COMMON, reason: TEXT })
  if (values.help) return null
  const change = readChange(positionals, values.reason?.trim() ?? '')
  return { ...readCommon(values, environment), change }
}

function readChange([command, deployment, ...others]: readonly string[], reason: string): DeploymentChange | null {
  if (others.length > (command === 'weight' ? 1 : 0) || (command === 'list' && deployment !== undefined))
    throw new UsageError(`"${others.at(-1) ?? deployment}" is one argument too many`)
  if (command === 'list') return null
  if (deployment === undefined) throw new UsageError(`${command} needs the NAME of a deployment`)
  if (reason === '') throw new UsageError(`${command} needs --reason, which is kept with the change`)
  if (reason.length > 1000) throw new UsageError('--reason may have 1000 characters')
  if (command === 'weight') return { deployment, weight: readWeight(others[0]), reason }
  return { deployment, isDrained: command === 'drain', reason }
}

function readWeight(text: string | undefined): number | null {
  if (text === 'published') return null
  const weight = /^\d{1,7}$/.test(text ?? '') ? Number(text) : 0
  if (weight >= 1 && weight <= MAXIMUM_WEIGHT) return weight
  throw new UsageError(`weight needs a NUMBER from 1 to ${MAXIMUM_WEIGHT}, or "published"`)
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
function textOf({
  deployments,
  drained_models: withheld,
}: NonNullable<Awaited<ReturnType<typeof listDeployments>>>): string {
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

if (import.meta.main) process.exitCode = await run(process.argv.slice(2), process.env)
