import type { DeploymentEntry } from '#shared/catalog/deployments-file.ts'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'
import type { ControlledDeployment } from '#shared/operators/controlled-deployments.ts'
import { type DeploymentDependencies, tryCreateDeployment } from './create-deployments.ts'
import type { Deployment } from './deployment.ts'
import type { ReloadableRouter } from './route.ts'

/** The deployments of this process, as they were published and switched last. */
export interface LiveDeployments {
  /** Replaces the deployments. Those whose upstream is the same keep their ports, and so their health. */
  apply(published: readonly ControlledDeployment[]): void
  /**
   * Lets removed deployments take the calls of a model while no published one does, until the next `apply`. Returns whether
   * this process can use any of them.
   */
  recall(publicModel: string, removed: readonly DeploymentEntry[]): boolean
  current(): readonly Deployment[]
  /** Returns the published deployments that this process cannot use, with the reason: they are left out. */
  unusable(): Readonly<Record<string, string>>
}

/** Creates the deployments of a process, none at first, and keeps its router up to date. */
export function createLiveDeployments(
  router: Pick<ReloadableRouter, 'apply' | 'recall'>,
  dependencies: DeploymentDependencies,
): LiveDeployments {
  let known = new Map<string, { readonly upstream: string; readonly deployment: Deployment }>()
  let unusable: Readonly<Record<string, string>> = {}
  return {
    apply(published) {
      const next: typeof known = new Map()
      const problems: Record<string, string> = {}
      for (const { entry, isDrained } of published) {
        const created = tryCreateDeployment(entry, dependencies)
        if ('problem' in created) {
          problems[entry.name] = created.problem
          continue
        }
        const upstream = upstreamOf(entry)
        const previous = known.get(entry.name)
        const deployment =
          previous?.upstream === upstream ? withPortsOf(previous.deployment, created.deployment) : created.deployment
        next.set(entry.name, { upstream, deployment: { ...deployment, isDrained } })
      }
      known = next
      unusable = problems
      router.apply([...known.values()].map(({ deployment }) => deployment))
    },
    recall(publicModel, removed) {
      const usable = removed.flatMap((entry) => {
        const created = tryCreateDeployment(entry, dependencies)
        return 'deployment' in created ? [created.deployment] : []
      })
      if (usable.length > 0) router.recall(publicModel, usable)
      return usable.length > 0
    },
    current: () => [...known.values()].map(({ deployment }) => deployment),
    unusable: () => unusable,
  }
}

/** Identifies what is called, apart from which calls are sent there. */
function upstreamOf({
  adapter,
  base_url,
  api_key_env,
  upstream_model,
  options,
}: ControlledDeployment['entry']): string {
  const parts: JsonValue = [adapter, base_url, api_key_env ?? null, upstream_model, options ?? {}]
  return canonicalJson(parts)
}

const PORTS = ['text', 'image', 'speech', 'transcription'] as const

function withPortsOf(previous: Deployment, created: Deployment): Deployment {
  const kept = PORTS.filter((port) => created[port] !== undefined)
  return { ...created, ...Object.fromEntries(kept.map((port) => [port, previous[port] ?? created[port]])) }
}
