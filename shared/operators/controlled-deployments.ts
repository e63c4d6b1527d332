import { type DeploymentEntry, servedModels } from '#shared/catalog/deployments-file.ts'
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
