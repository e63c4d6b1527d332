import type { DeploymentEntry } from '#shared/catalog/deployments-file.ts'
import type { ConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import type { ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { DeploymentHealth } from '#shared/ledger/console/deployment-health.ts'
import type { MachineryStore } from '#shared/ledger/console/machinery-store.ts'
import type { Configuration } from '#shared/operators/configuration.ts'
import { controlledDeployments, drainedModels } from '#shared/operators/controlled-deployments.ts'
import type { HealthWindow } from '#shared/operators/health-window.ts'
import type { DeploymentReport, SeenProcess } from '#shared/operators/process-report.ts'

export interface ProvidersDependencies {
  readonly machinery: MachineryStore
  readonly configurationReader: ConfigurationReader
  readonly processes: Pick<ProcessReportStore, 'readProcesses'>
}

/** What one worker says about a deployment. */
export interface WorkerView extends DeploymentReport {
  readonly instance: string
  readonly seenAt: Date
}

export interface Provider {
  readonly name: string
  /** `null` when it is not published any more. */
  readonly entry: DeploymentEntry | null
  readonly publishedWeight: number | null
  readonly isDrained: boolean
  readonly health: DeploymentHealth | null
  readonly workers: readonly WorkerView[]
  /** Workers that cannot use it, with the reason. */
  readonly unusable: readonly { readonly instance: string; readonly reason: string }[]
  readonly badges: readonly Badge[]
}

interface Badge {
  readonly label: string
  readonly tone: 'good' | 'warning' | 'bad' | 'neutral'
}

/** Reads the published deployments in the order of the file, and `named` where it is not one of them but was called. */
export async function readProviders(
  { machinery, configurationReader, processes }: ProvidersDependencies,
  window: HealthWindow,
  named?: string,
): Promise<{ readonly providers: readonly Provider[]; readonly drainedModels: readonly string[] }> {
  const [configuration, seen] = await Promise.all([configurationReader.readConfiguration(), processes.readProcesses()])
  const published = configuration?.deployments.file.deployments.map(({ name }) => name) ?? []
  const isForgotten = named !== undefined && !published.includes(named)
  const known = isForgotten && ((configuration?.controls.has(named) ?? false) || (await machinery.wasCalled(named)))
  const names = [...published.filter((name) => named === undefined || name === named), ...(known ? [named] : [])]
  const health = await machinery.readDeploymentHealth(names, window)
  const running = seen.filter(({ isRunning }) => isRunning)
  return {
    providers: names.map((name) => providerOf(name, configuration, health.get(name) ?? null, running)),
    drainedModels: configuration ? drainedModels(configuration) : [],
  }
}

function providerOf(
  name: string,
  configuration: Configuration | null,
  health: DeploymentHealth | null,
  running: readonly SeenProcess[],
): Provider {
  const controlled = configuration && controlledDeployments(configuration).find(({ entry }) => entry.name === name)
  const entry = configuration?.deployments.file.deployments.find((candidate) => candidate.name === name)
  const workers = running.flatMap(({ instance, seenAt, report }) => {
    const view = report.deployments?.[name]
    return view === undefined ? [] : [{ instance, seenAt, ...view }]
  })
  const unusable = running.flatMap(({ instance, report }) => {
    const reason = report.unusable?.[name]
    return reason === undefined ? [] : [{ instance, reason }]
  })
  const isDrained = controlled?.isDrained ?? configuration?.controls.get(name)?.isDrained ?? false
  const provider = { name, isDrained, health, workers, unusable }
  return {
    ...provider,
    entry: controlled?.entry ?? null,
    publishedWeight: entry?.weight ?? null,
    badges: badgesOf(provider, entry !== undefined),
  }
}

function badgesOf(
  { isDrained, workers, unusable }: Pick<Provider, 'isDrained' | 'workers' | 'unusable'>,
  isPublished: boolean,
): readonly Badge[] {
  const badges: Badge[] = []
  if (!isPublished) badges.push({ label: 'not published', tone: 'neutral' })
  if (isDrained) badges.push({ label: 'drained', tone: 'warning' })
  const behind = workers.filter((worker) => worker.isDrained !== isDrained).length
  if (isPublished && behind > 0)
    badges.push({ label: `not applied on ${behind} of ${workers.length}`, tone: 'warning' })
  const count = (circuit: DeploymentReport['circuit']) => workers.filter((worker) => worker.circuit === circuit).length
  const [open, probing] = [count('open'), count('half_open')]
  if (open > 0) badges.push({ label: `failing on ${open} of ${workers.length}`, tone: 'bad' })
  if (probing > 0) badges.push({ label: `tried again on ${probing} of ${workers.length}`, tone: 'warning' })
  if (unusable.length > 0) badges.push({ label: `unusable on ${unusable.length}`, tone: 'bad' })
  if (isPublished && workers.length === 0) badges.push({ label: 'no worker', tone: 'bad' })
  if (badges.length === 0) badges.push({ label: 'healthy', tone: 'good' })
  return badges
}
