import { AppError } from '#shared/errors/app-error.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, Failure } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { Execution, ExecutionInput, PreparedExecution, Product } from '../executions/execution.ts'
import type { ProviderFailure } from '../providers/provider.ts'
import type { Router } from '../providers/route.ts'
import type { Screener } from '../screening/screener.ts'
import { describedStage } from '../telemetry/traced-ports.ts'
import { checkPaymentAgain, type PaymentCheckDependencies } from './check-payment-again.ts'
import { failWith } from './fail-with.ts'
import { readStagedAudio } from './read-staged-audio.ts'
import { retryUntil } from './retry-until.ts'
import { screenRequest } from './screen-request.ts'
import { type SealingDependencies, sealProduct } from './seal-result.ts'
import { moved, type StepOutcome } from './step-outcome.ts'

export interface GenerationDependencies extends PaymentCheckDependencies, SealingDependencies {
  readonly store: Pick<
    ExecutionStore,
    'readExposureAhead' | 'openStagedUpload' | 'startAttempt' | 'sealResult' | 'failJob'
  >
  readonly uploads: Pick<ObjectStore, 'get'>
  readonly screener: Screener
  readonly executionOf: (operationId: string) => Execution
  readonly router: Router
  readonly logger: Logger
  readonly tracer: Tracer
}

/** A signature may be valid for years; an outage this long is not ridden out in memory. */
const LONGEST_OUTAGE_MS = 300_000
/** Between attempts to read from a store that cannot be reached. */
const STORAGE_RETRY_MS = 2000
/** Between attempts to ask a chain that cannot be reached. */
const CHAIN_RETRY_MS = 2000

/** accepted → generating → generated, or failed uncharged. Nothing is sent upstream that could not be paid for any more. */
export async function callProvider(
  dependencies: GenerationDependencies,
  job: ClaimedJob,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const { store } = dependencies
  const staged = await readStagedAudio(dependencies, job)
  if (staged.outcome === 'unreachable')
    return { next: 'later', delayMs: STORAGE_RETRY_MS, reason: 'the upload storage cannot be reached' }
  if (staged.outcome === 'gone')
    return failWith(store, job, { code: 'upload_expired', reason: staged.reason, attempt: 'none' })
  const ready = await prepareExecution(dependencies, { job, audio: staged.audio })
  if (ready.outcome === 'refused') return failWith(store, job, { ...ready.failure, attempt: 'none' })
  return tryDeployments(dependencies, job, ready.prepared, signal)
}

type Readiness =
  | { readonly outcome: 'ready'; readonly prepared: PreparedExecution }
  | { readonly outcome: 'refused'; readonly failure: Failure }

/**
 * Screens the request and readies what every deployment needs. Whatever is thrown here ends the job: left to the lease, a
 * request that cannot be prepared would be tried again for as long as it is signed for.
 */
async function prepareExecution(
  { executionOf, screener, logger }: GenerationDependencies,
  input: ExecutionInput,
): Promise<Readiness> {
  try {
    const execution = executionOf(input.job.operation)
    const rejection = await screenRequest(screener, execution.screenedTexts(input))
    if (rejection) return { outcome: 'refused', failure: rejection }
    return { outcome: 'ready', prepared: await execution.prepare(input) }
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'provider_outcome_unknown'
    logger.error('the request could not be prepared', { jobId: input.job.id, code, error })
    return { outcome: 'refused', failure: { code, reason: 'the request could not be prepared' } }
  }
}

/**
 * Calls the deployments of the model in their order until one produces. Only a failure after which the vendor certainly did
 * no billable work leads to the next one, and only while the authorization has the time.
 */
async function tryDeployments(
  dependencies: GenerationDependencies,
  job: ClaimedJob,
  prepared: PreparedExecution,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const { store, router, logger, tracer } = dependencies
  let failed: { attemptId: string; failure: ProviderFailure } | null = null
  for (const slot of router.candidates(job.publicModel)) {
    // Directly before each call: nothing that a payer could wait for lies between this look and the spending.
    const check = await tracer.stage('check', () => checkPaymentAgain(dependencies, job))
    if (check.outcome === 'unreachable' && !failed)
      return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
    if (check.outcome === 'no_gas' && !failed)
      return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the settlement key has no gas left' }
    if (check.outcome === 'refused' && !failed) return failWith(store, job, { ...check, attempt: 'none' })
    if (check.outcome !== 'payable') break
    const { written, attemptId } = await store.startAttempt(
      job,
      slot.deployment.name,
      failed && { attemptId: failed.attemptId, reason: failed.failure.reason },
    )
    if (written === 'stale') return { next: 'stale' }
    const call = () => slot.run((timeoutMs) => prepared.call(slot.deployment, { signal, timeoutMs }))
    const outcome = await describedStage(tracer, 'provider', call, { deployment: slot.deployment.name })
    if (outcome.outcome === 'produced')
      return tracer.stage('seal', () => sealOutput(dependencies, job, attemptId, outcome.product))
    const { code, reason } = outcome
    logger.warn('provider call failed', { jobId: job.id, deployment: slot.deployment.name, code, reason })
    failed = { attemptId, failure: outcome }
    if (code !== 'provider_unavailable' || outcome.certainty !== 'definite') break
  }
  return failed
    ? failWith(store, job, {
        code: failed.failure.code,
        reason: failed.failure.reason,
        attempt: failed.failure.certainty === 'definite' ? 'failed_definite' : 'failed_ambiguous',
      })
    : failWith(store, job, { ...router.unavailability(job.publicModel), attempt: 'none' })
}

/**
 * Stores what a provider produced, through outages of either store, while it could still be settled. An outage of the ledger
 * that outlasts the lease may hand the job to another worker, which fails it uncharged. So does what cannot be stored or makes
 * no valid result; the provider may have billed it, so it is not asked again.
 */
async function sealOutput(
  dependencies: GenerationDependencies,
  job: ClaimedJob,
  attemptId: string,
  product: Product,
): Promise<StepOutcome> {
  const { store, settlementMarginMs, logger } = dependencies
  const lastMoment = Number(job.authorization.deadline) * 1000 - settlementMarginMs
  const giveUpAt = new Date(Math.min(lastMoment, dependencies.now().getTime() + LONGEST_OUTAGE_MS))
  let result: Awaited<ReturnType<typeof sealProduct>>
  try {
    result = await sealProduct(dependencies, job, attemptId, product, giveUpAt)
  } catch (error) {
    logger.error('the output could not be sealed', { jobId: job.id, error })
    const reason = 'the output could not be stored, or is not a valid result'
    return failWith(store, job, { code: 'provider_outcome_unknown', reason, attempt: 'failed_ambiguous' })
  }
  const { sealed, media } = result
  const written = await retryUntil(dependencies, 'sealing the result', giveUpAt, () =>
    store.sealResult(job, attemptId, sealed, media),
  )
  return moved(written, { ...job, state: 'generated', sealed, effectiveRequest: null })
}

/** A job found `generating` at claim time belonged to a worker that died during or after its call: the outcome is lost. */
export async function failLostAttempt(
  { store }: Pick<GenerationDependencies, 'store'>,
  job: ClaimedJob,
): Promise<StepOutcome> {
  return failWith(store, job, {
    code: 'provider_outcome_unknown',
    reason: 'the worker was lost during the provider call',
    attempt: 'failed_ambiguous',
  })
}
