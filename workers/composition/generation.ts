import type { Registry } from 'prom-client'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { type ProviderKeys, providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { WorkerConfig } from '../config.ts'
import { createMp3Converter } from '../executions/convert-to-mp3.ts'
import { createImageFetcher } from '../executions/fetch-remote-image.ts'
import { createExecutions } from '../executions/registry.ts'
import { createRemoteImages, imageSlots, REMOTE_IMAGE_LIMITS } from '../executions/remote-images.ts'
import type { JobDependencies } from '../job/dependencies.ts'
import { createDeployments } from '../providers/create-deployments.ts'
import type { Deployment } from '../providers/deployment.ts'
import { createHttp, type SendHttp } from '../providers/http.ts'
import { createLiveDeployments, type LiveDeployments } from '../providers/live-deployments.ts'
import { createProviderFetch } from '../providers/provider-fetch.ts'
import { createRouter } from '../providers/route.ts'
import { createModerationScreener, noScreening, type Screener } from '../screening/screener.ts'
import { measuredRouter } from '../telemetry/deployment-metrics.ts'
import { readDeploymentsFile } from './configuration.ts'

export interface GenerationOptions {
  /** Text jobs that this process runs concurrently. */
  readonly textJobs: number
  /** Converts speech that arrives in another format than MP3; without it such speech fails. */
  readonly ffmpegPath: string | undefined
  /** The file of this process. */
  readonly file: DeploymentsFile
  readonly metrics: Registry
}

interface GenerationParts extends Pick<
  JobDependencies,
  'router' | 'screener' | 'executionOf' | 'providerTimeoutMs' | 'outputTokensPerSecond'
> {
  /** None until the configuration is applied. */
  readonly deployments: LiveDeployments
  readonly providerKeys: ProviderKeys
  readonly requireUsable: (file: DeploymentsFile) => void
}

/** Rates and pauses of deployments are spans of time, which a machine's clock that is set back would prolong. */
const monotonicNow = () => new Date(performance.timeOrigin + performance.now())

/** Composes what screens requests and calls providers. */
export function composeGeneration(
  config: WorkerConfig,
  { textJobs, ffmpegPath, file, metrics }: GenerationOptions,
): GenerationParts {
  const http = openVendorHttp()
  const providerTimeoutMs = config.PROVIDER_TIMEOUT_SECONDS * 1000
  const router = createRouter([], { now: monotonicNow, random: Math.random, maximumTimeoutMs: providerTimeoutMs })
  const providerKeys = allowedKeys(config, file)
  const creation = {
    environment: config.environment,
    providerKeys,
    http,
    longestTimeoutSeconds: config.PROVIDER_TIMEOUT_SECONDS,
  }
  return {
    deployments: createLiveDeployments(router, creation),
    providerKeys,
    requireUsable: (own) => void createDeployments(own, creation),
    router: measuredRouter(metrics, router),
    screener: composeScreener(config, http),
    executionOf: createExecutions(
      createRemoteImages(createImageFetcher(), { ...REMOTE_IMAGE_LIMITS, slots: imageSlots(textJobs) }),
      createMp3Converter(ffmpegPath),
    ),
    providerTimeoutMs,
    outputTokensPerSecond: config.OUTPUT_TOKENS_PER_SECOND,
  }
}

/** Returns where keys may be sent: by PROVIDER_KEYS, else where this process's own file sends them. */
function allowedKeys({ PROVIDER_KEYS: given }: Pick<WorkerConfig, 'PROVIDER_KEYS'>, file: DeploymentsFile) {
  return given ?? providerKeysOf(file)
}

export function openVendorHttp(): SendHttp {
  return createHttp({ fetch: createProviderFetch() })
}

/** Reads the deployments file and the keys that it names. Throws a `StartFailure`. */
export async function readDeployments(config: WorkerConfig, http: SendHttp): Promise<readonly Deployment[]> {
  const { file } = await readDeploymentsFile(config)
  const { environment, PROVIDER_TIMEOUT_SECONDS: longestTimeoutSeconds } = config
  const dependencies = { environment, providerKeys: allowedKeys(config, file), http, longestTimeoutSeconds }
  return namingSetting('DEPLOYMENTS_FILE', () => createDeployments(file, dependencies))
}

function composeScreener(config: WorkerConfig, http: SendHttp): Screener {
  const { SCREENING_BASE_URL: baseUrl, SCREENING_API_KEY: apiKey, SCREENING_MODEL: model } = config
  return baseUrl === undefined ? noScreening : createModerationScreener({ baseUrl, apiKey, model, http })
}
