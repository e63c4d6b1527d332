import type { Logger } from '#shared/runtime/logger.ts'
import type { Deployment } from './deployment.ts'
import type { ModelStatus } from './model-look-up.ts'

/** The latest answer about the model of one deployment. */
export interface WatchedModel {
  readonly deployment: string
  readonly status: ModelStatus
  readonly retiresAt?: Date
}

export interface ModelWatch {
  /** Returns every deployment whose model was looked up. */
  readonly models: () => readonly WatchedModel[]
  /** Looks up those that have not been, because their deployments have changed. */
  readonly check: () => void
  /** Ends a look-up in progress. */
  readonly stop: () => Promise<void>
}

export interface ModelWatchDependencies {
  readonly deployments: () => readonly Pick<Deployment, 'name' | 'lookUpModel' | 'voices' | 'knownRetirement'>[]
  readonly logger: Logger
  readonly now: () => Date
}

type Watched = WatchedModel & { readonly lookUpModel: Deployment['lookUpModel']; readonly dueAtMs: number }

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** How long before its retirement the model of a deployment is worth a warning. */
const NOTICE_MS = 30 * DAY_MS

/** Listings are short; a vendor that needs longer is asked again later. */
const TIMEOUT_MS = 10_000

/**
 * Looks the model of each deployment up at its vendor, immediately and then daily; hourly while the vendor does not
 * answer. Nothing waits for it: a listing that fails neither keeps a worker from starting nor takes a deployment out of
 * service.
 */
export function watchModels(dependencies: ModelWatchDependencies): ModelWatch {
  const { deployments, now } = dependencies
  const stopping = new AbortController()
  const latest = new Map<string, Watched>()

  const round = async () => {
    const current = new Map(deployments().map((deployment) => [deployment.name, deployment]))
    for (const [name, { lookUpModel }] of latest)
      if (current.get(name)?.lookUpModel !== lookUpModel) latest.delete(name)
    const due = [...current.values()].filter(({ name }) => (latest.get(name)?.dueAtMs ?? 0) <= now().getTime())
    await Promise.all(
      due.map(async (deployment) => {
        const { name, lookUpModel, voices = {}, knownRetirement } = deployment
        if (lookUpModel === undefined) return
        const options = { timeoutMs: TIMEOUT_MS, signal: stopping.signal }
        const status = await lookUpModel(Object.values(voices), options)
        if (stopping.signal.aborted) return
        const announced = status.outcome === 'listed' ? status.retiresAt : undefined
        const retiresAt = announced ?? knownRetirement
        const watched = { deployment: name, status, ...(retiresAt === undefined ? {} : { retiresAt }) }
        // A minute early, so that a timer that fires a little early does not skip a round.
        const isDaily = status.outcome !== 'unknown' || status.isUnlisted === true
        const waitMs = (isDaily ? DAY_MS : HOUR_MS) - 60_000
        latest.set(name, { ...watched, lookUpModel, dueAtMs: now().getTime() + waitMs })
        report(dependencies, watched)
      }),
    )
  }
  let running = round()
  const check = () => {
    running = running.then(round)
  }
  const timer = setInterval(check, HOUR_MS)
  timer.unref()
  return {
    models: () => [...latest.values()],
    check,
    stop: async () => {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}

function report({ logger, now }: ModelWatchDependencies, { deployment, status, retiresAt }: WatchedModel): void {
  if (status.outcome === 'missing') return logger.error('the vendor does not have the model', { deployment })
  const reason = retiresAt === undefined ? undefined : `on ${retiresAt.toISOString().slice(0, 10)}`
  if (retiresAt !== undefined && retiresAt.getTime() - now().getTime() < NOTICE_MS)
    logger.warn('the vendor retires the model', { deployment, ...(reason === undefined ? {} : { reason }) })
  if (status.outcome === 'unknown')
    return logger.info('could not look the model up', { deployment, reason: status.reason })
  const count = status.missingVoices?.length ?? 0
  if (count > 0) logger.error('the vendor’s account does not have all voices', { deployment, count })
}
