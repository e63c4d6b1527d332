import { readFile } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { WorkerConfig } from '../config.ts'
import { createImageFetcher } from '../executions/fetch-remote-image.ts'
import { createExecutions } from '../executions/registry.ts'
import { createRemoteImages, imagePlaces, REMOTE_IMAGE_LIMITS } from '../executions/remote-images.ts'
import type { RunJobDependencies } from '../job/run-job.ts'
import { createDeployments } from '../providers/create-deployments.ts'
import type { Deployment } from '../providers/deployment.ts'
import { createHttp, type SendHttp } from '../providers/http.ts'
import { createProviderFetch } from '../providers/provider-fetch.ts'
import { createRouter } from '../providers/route.ts'
import { createModerationScreener } from '../screening/moderation-endpoint.ts'
import { noScreening, type Screener } from '../screening/screener.ts'
import { measuredRouter } from '../telemetry/deployment-metrics.ts'

export interface GenerationOptions {
  /** Whether this process serves a queue other than settlement. */
  readonly callsProviders: boolean
  /** Text jobs that this process runs concurrently. */
  readonly textJobs: number
  readonly metrics: Registry
  readonly now: () => Date
}

type GenerationParts = { readonly deployments: readonly Deployment[] } & Pick<
  RunJobDependencies,
  'router' | 'screener' | 'executionOf' | 'providerTimeoutMs' | 'outputTokensPerSecond'
>

/** Composes what screens requests and calls providers. */
export async function composeGeneration(
  config: WorkerConfig,
  { callsProviders, textJobs, metrics, now }: GenerationOptions,
): Promise<GenerationParts> {
  const http = openVendorHttp(config)
  const providerTimeoutMs = config.PROVIDER_TIMEOUT_SECONDS * 1000
  const deployments = await readDeployments(config, http, callsProviders)
  const router = createRouter(deployments, { now, random: Math.random, maximumTimeoutMs: providerTimeoutMs })
  return {
    deployments,
    router: measuredRouter(metrics, router),
    screener: composeScreener(config, http),
    executionOf: createExecutions(
      createRemoteImages(createImageFetcher(), { ...REMOTE_IMAGE_LIMITS, places: imagePlaces(textJobs) }),
    ),
    providerTimeoutMs,
    outputTokensPerSecond: config.OUTPUT_TOKENS_PER_SECOND,
  }
}

export function openVendorHttp(config: Pick<WorkerConfig, 'PROVIDER_STALL_SECONDS'>): SendHttp {
  return createHttp({ fetch: createProviderFetch(), stallMs: config.PROVIDER_STALL_SECONDS * 1000 })
}

/** Reads the deployments file and the keys that it names. Throws a `StartFailure`. */
export function readDeployments(
  { DEPLOYMENTS_FILE: path, environment, PROVIDER_TIMEOUT_SECONDS: longestTimeoutSeconds }: WorkerConfig,
  http: SendHttp,
  callsProviders = true,
): Promise<readonly Deployment[]> {
  return namingSetting('DEPLOYMENTS_FILE', async () => {
    const file = parseDeploymentsFile(await readFile(path, 'utf8'))
    // A process that only settles calls no provider, so it needs none of their keys.
    return createDeployments(callsProviders ? file : { deployments: [] }, { environment, http, longestTimeoutSeconds })
  })
}

function composeScreener(config: WorkerConfig, http: SendHttp): Screener {
  const { SCREENING_BASE_URL: baseUrl, SCREENING_API_KEY: apiKey, SCREENING_MODEL: model } = config
  return baseUrl === undefined ? noScreening : createModerationScreener({ baseUrl, apiKey, model, http })
}
