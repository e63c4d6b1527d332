import { openVendorHttp, readDeployments } from '../../../workers/composition/generation.ts'
import type { WorkerConfig } from '../../../workers/config.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import type { ModelStatus } from '../../../workers/providers/model-look-up.ts'
import { type Check, failed, judged, passed, skipped } from './check.ts'

const TIMEOUT_MS = 10_000

/** Checks the deployments file and its keys, and asks each vendor for the model and voices of each deployment. */
export async function checkProviders(config: WorkerConfig): Promise<readonly Check[]> {
  let deployments: readonly Deployment[]
  try {
    deployments = await readDeployments(config, openVendorHttp())
  } catch (error) {
    return [failed('deployments', error instanceof Error ? error.message : String(error))]
  }
  const models = await Promise.all(deployments.map(checkModel))
  const origins = config.PROVIDER_KEYS ? 'PROVIDER_KEYS' : 'this file alone, since PROVIDER_KEYS is not set'
  return [passed('deployments', `${deployments.length} deployments, with keys to the hosts of ${origins}`), ...models]
}

async function checkModel({ name, lookUpModel, voices = {}, knownRetirement }: Deployment): Promise<Check> {
  const check = 'model'
  if (!lookUpModel) return skipped(check, `${name}: its server lists no models`)
  const status = await lookUpModel(Object.values(voices), { timeoutMs: TIMEOUT_MS })
  switch (status.outcome) {
    case 'missing':
      return failed(check, `${name}: the vendor does not have the model, or not for this key`)
    case 'unknown':
      return status.refusesKey
        ? failed(check, `${name}: the vendor refuses the key, perhaps only for listing models (${status.reason})`)
        : skipped(check, `${name}: ${status.reason}`)
    case 'listed':
      return judged(
        check,
        problemsOf(status, knownRetirement).map((problem) => `${name}: ${problem}`),
        `${name}: the vendor has the model`,
      )
  }
}

function problemsOf(
  { retiresAt, missingVoices = [] }: Extract<ModelStatus, { outcome: 'listed' }>,
  knownRetirement: Date | undefined,
): readonly string[] {
  const retired = retiresAt ?? knownRetirement
  return [
    ...(retired && retired.getTime() < Date.now()
      ? [`the model was retired on ${retired.toISOString().slice(0, 10)}; publish its replacement as upstream_model`]
      : []),
    ...(missingVoices.length > 0 ? [`the account does not have the voices ${missingVoices.join(', ')}`] : []),
  ]
}
