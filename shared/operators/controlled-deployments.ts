import { type DeploymentEntry, type DeploymentsFile, servedModels } from '#shared/catalog/deployments-file.ts'
import type { Configuration } from './configuration.ts'

/** A published deployment as operators have switched it: its entry has the weight that is in force. */
export interface ControlledDeployment {
  readonly entry: DeploymentEntry
  readonly isDrained: boolean
}

/** Returns the published deployments with what operators switched. */
export function controlledDeployments({
  deployments,
  controls,
}: Pick<Configuration, 'deployments' | 'controls'>): readonly ControlledDeployment[] {
  return deployments.file.deployments.map((entry) => {
    const control = controls.get(entry.name)
    return { entry: { ...entry, weight: control?.weight ?? entry.weight }, isDrained: control?.isDrained ?? false }
  })
}

/** Returns the published models that only drained deployments serve: they are not offered. */
export function drainedModels(configuration: Pick<Configuration, 'deployments' | 'controls'>): readonly string[] {
  const working = controlledDeployments(configuration).filter(({ isDrained }) => !isDrained)
  const served = servedModels({ deployments: working.map(({ entry }) => entry) })
  return [...servedModels(configuration.deployments.file).keys()].filter((model) => !served.has(model)).sort()
}

/**
 * Returns the deployments of earlier publications, newest first, that served a model and do not any more. Draining one
 * keeps calls from it for good.
 */
export function removedDeployments(
  { deployments, controls }: Pick<Configuration, 'deployments' | 'controls'>,
  earlier: readonly DeploymentsFile[],
  publicModel: string,
): readonly DeploymentEntry[] {
  const servingIn = (file: DeploymentsFile) => file.deployments.filter(({ serves }) => serves.includes(publicModel))
  const published = servingIn(deployments.file).map(({ name }) => name)
  // Of each name the latest, which is the first.
  const removed = new Map(
    earlier
      .flatMap(servingIn)
      .toReversed()
      .map((entry) => [entry.name, entry]),
  )
  return [...removed.values()].filter(({ name }) => !published.includes(name) && !controls.get(name)?.isDrained)
}
