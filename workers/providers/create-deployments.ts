import { z } from 'zod'
import { type DeploymentEntry, type DeploymentsFile, vendorOf } from '#shared/catalog/deployments-file.ts'
import { type ProviderKeys, whyNotAllowed } from '#shared/catalog/provider-keys.ts'
import { isPublishedSample } from '#shared/runtime/parse-settings.ts'
import type { Deployment, ProviderPorts } from './deployment.ts'
import type { SendHttp } from './http.ts'
import { knownRetirement } from './known-retirements.ts'
import { adapters } from './registry.ts'

export interface DeploymentDependencies {
  /** The process environment, which contains the keys that the file names. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Where each key may be sent, which no publication decides. */
  readonly providerKeys: ProviderKeys
  readonly http: SendHttp
  /** PROVIDER_TIMEOUT_SECONDS, which no deployment may exceed. */
  readonly longestTimeoutSeconds?: number
}

/**
 * Creates the deployments of the file. Throws one error that names every unusable deployment: its key may not be sent to
 * its origin, its key variable is missing or empty, its adapter needs a key and none is named, its adapter does not
 * support its options, or its time limit exceeds that of all calls. Never quotes a key.
 */
export function createDeployments(file: DeploymentsFile, dependencies: DeploymentDependencies): readonly Deployment[] {
  const problems: string[] = []
  const deployments = file.deployments.flatMap((entry) => {
    const created = tryCreateDeployment(entry, dependencies)
    if ('deployment' in created) return [created.deployment]
    problems.push(`deployment ${entry.name}: ${created.problem}`)
    return []
  })
  if (problems.length > 0) throw new Error(`The deployments cannot be used:\n${problems.join('\n')}`)
  return deployments
}

/** Creates one deployment, or says why it cannot be used. Never quotes a key. */
export function tryCreateDeployment(
  entry: DeploymentEntry,
  dependencies: DeploymentDependencies,
): { readonly deployment: Deployment } | { readonly problem: string } {
  try {
    return { deployment: createDeployment(entry, dependencies) }
  } catch (error) {
    return { problem: describe(error) }
  }
}

function describe(error: unknown): string {
  if (error instanceof z.ZodError) return `options: ${z.prettifyError(error)}`
  return error instanceof Error ? error.message : 'unusable'
}

function createDeployment(entry: DeploymentEntry, dependencies: DeploymentDependencies): Deployment {
  const { max_concurrency, requests_per_minute, timeout_seconds, voices, prices } = entry
  const { longestTimeoutSeconds = Number.POSITIVE_INFINITY } = dependencies
  if (timeout_seconds !== undefined && timeout_seconds > longestTimeoutSeconds) {
    throw new Error(
      `timeout_seconds is ${timeout_seconds}, but PROVIDER_TIMEOUT_SECONDS ends every call after ${longestTimeoutSeconds}; lower one or raise the other`,
    )
  }
  const retirement = knownRetirement(entry.base_url, entry.upstream_model)
  const { lookUpModel, ...ports } = createPorts(entry, dependencies)
  return {
    name: entry.name,
    vendor: vendorOf(entry),
    upstreamModel: entry.upstream_model,
    serves: entry.serves,
    priority: entry.priority,
    weight: entry.weight,
    ...(max_concurrency === undefined ? {} : { maximumConcurrency: max_concurrency }),
    ...(requests_per_minute === undefined ? {} : { requestsPerMinute: requests_per_minute }),
    ...(timeout_seconds === undefined ? {} : { timeoutMs: Math.ceil(timeout_seconds * 1000) }),
    ...(voices === undefined ? {} : { voices }),
    ...(prices === undefined ? {} : { prices }),
    ...(retirement === undefined ? {} : { knownRetirement: retirement }),
    ...ports,
    ...(entry.look_up_model === false || lookUpModel === undefined ? {} : { lookUpModel }),
  }
}

function createPorts(
  entry: DeploymentEntry,
  { environment, providerKeys, http }: DeploymentDependencies,
): ProviderPorts {
  const problem = whyNotAllowed(entry, providerKeys)
  if (problem !== null) throw new Error(problem)
  const apiKey = entry.api_key_env === undefined ? undefined : environment[entry.api_key_env]
  if (entry.api_key_env !== undefined && !apiKey) {
    throw new Error(`the environment variable ${entry.api_key_env} is not set`)
  }
  if (apiKey !== undefined && isPublishedSample(apiKey)) {
    throw new Error(`the environment variable ${entry.api_key_env} still has the sample of the example file`)
  }
  const connection = { baseUrl: entry.base_url, upstreamModel: entry.upstream_model, http }
  const adapter = adapters[entry.adapter]
  const options = entry.options ?? {}
  if (!adapter.needsKey) return adapter.ports(apiKey === undefined ? connection : { ...connection, apiKey }, options)
  if (apiKey === undefined) throw new Error(`the adapter ${entry.adapter} needs api_key_env`)
  return adapter.ports({ ...connection, apiKey }, options)
}
