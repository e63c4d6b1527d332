import { type VendorPrices, vendorCost } from '#shared/catalog/vendor-cost.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { Failure, LeasedJob, MeasuredWork } from '#shared/jobs/job.ts'
import { operationById } from '#shared/operations/registry.ts'
import { extraOutputSeconds } from '#shared/operations/text/output-time.ts'
import { describedStage } from '#shared/runtime/tracing.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import {
  type ExecutionInput,
  type ExecutionOutcome,
  MemoryShort,
  type PreparedExecution,
  type Product,
  type WhenReady,
  WorkDeferred,
} from '../executions/execution.ts'
import type { Caller } from '../providers/circuit.ts'
import type { ProviderFailure } from '../providers/provider.ts'
import type { Slot } from '../providers/route.ts'
import { screenRequest } from '../screening/screener.ts'
import { checkPaymentAgain } from './check-payment-again.ts'
import type { JobDependencies } from './dependencies.ts'
import { createFailover } from './failover.ts'
import { readStagedAudio } from './read-staged-audio.ts'
import { measure, retryUntil, sealProduct } from './seal-result.ts'
import { failWith, moved, type SettlementSteps, type StepOutcome } from './step-outcome.ts'
import { type ReservedMemory, type Short, withMemory } from './with-memory.ts'

interface GenerationDependencies extends JobDependencies {
  /** Absent where other processes settle. */
  readonly prepareSettlement?: SettlementSteps['prepare'] | undefined
}

/** Bounds the wait for a store: an authorization may be valid for years. */
const LONGEST_OUTAGE_MS = 300_000
/** Delay before the next attempt while the object store cannot be reached. */
const STORAGE_RETRY_MS = 2000
/** How long a job waits for the answer whether its media could be stored. */
const STORAGE_PATIENCE_MS = 3000
/** Delay before the next attempt while the chain cannot be reached. */
const CHAIN_RETRY_MS = 2000
/** Of a call whose payment must follow another one, which is charged within seconds. */
const OTHERS_RETRY_MS = 500
/** Delay before the next attempt of a job that has waited for a deployment under its lease in vain. */
const BUSY_RETRY_MS = 1000
/** Delay before the next attempt after operators have drained or removed the deployments that could be called. */
const WITHDRAWN_RETRY_MS = 2000

/**
 * Moves accepted → generating → generated, or failed uncharged: calls a provider, but only while the payer can still
 * pay. Nothing of any size is read before there is memory for all that the job will hold.
 */
export function callProvider(
  dependencies: GenerationDependencies,
  job: LeasedJob,
  signal: AbortSignal,
): Promise<StepOutcome> {
  return withMemory(dependencies, job, signal, (memory) => callWithin(dependencies, job, memory, signal))
}

async function callWithin(
  dependencies: GenerationDependencies,
  leased: LeasedJob,
  memory: ReservedMemory,
  signal: AbortSignal,
): Promise<StepOutcome | Short> {
  const { executionStore } = dependencies
  const effectiveRequest = leased.effectiveRequest ?? (await executionStore.readEffectiveRequest(leased.id))
  const job = { ...leased, effectiveRequest }
  const staged = await readStagedAudio(dependencies, job, memory.bytes)
  if (staged.outcome === 'unreachable') return later(STORAGE_RETRY_MS, 'the upload storage cannot be reached')
  if (staged.outcome === 'gone')
    return failWith(executionStore, job, { code: 'upload_expired', reason: staged.reason, attempt: 'none' })
  if (operationById(job.operation).hostsMedia && !(await canStoreMedia(dependencies)))
    return later(STORAGE_RETRY_MS, 'the storage of media cannot be used')
  const ready = await prepareExecution(dependencies, { job, audio: staged.audio }, memory)
  if (ready.outcome === 'short') return { next: 'short', neededBytes: ready.neededBytes }
  if (ready.outcome === 'deferred') return { ...later(ready.delayMs, ready.reason), whenReady: ready.whenReady }
  if (ready.outcome === 'refused') return failWith(executionStore, job, { ...ready.failure, attempt: 'none' })
  return tryDeployments(dependencies, job, ready.prepared, signal)
}

async function canStoreMedia({ checkObjects }: JobDependencies): Promise<boolean> {
  return await withDeadline(
    STORAGE_PATIENCE_MS,
    checkObjects().then(
      () => true,
      () => false,
    ),
    () => false,
  )
}

/** Defers a job before its first provider call. */
function later(delayMs: number, reason: string): Extract<StepOutcome, { next: 'later' }> {
  return { next: 'later', delayMs, reason, ending: 'fail' }
}

type Readiness =
  | { readonly outcome: 'ready'; readonly prepared: PreparedExecution }
  | { readonly outcome: 'refused'; readonly failure: Failure }
  | { readonly outcome: 'deferred'; readonly delayMs: number; readonly reason: string; readonly whenReady: WhenReady }
  | { readonly outcome: 'short'; readonly neededBytes: number }

/**
 * Screens the request and prepares what every deployment needs. Any error but `WorkDeferred` and `MemoryShort` fails the
 * job: otherwise a request that cannot be prepared would be retried over and over.
 */
async function prepareExecution(
  { executionOf, screener, logger }: JobDependencies,
  input: ExecutionInput,
  memory: ReservedMemory,
): Promise<Readiness> {
  try {
    const execution = executionOf(input.job.operation)
    const rejection = await screenRequest(screener, execution.screenedTexts(input))
    if (rejection) return { outcome: 'refused', failure: rejection }
    return { outcome: 'ready', prepared: await execution.prepare(input, memory) }
  } catch (error) {
    if (error instanceof WorkDeferred) {
      const { delayMs, message: reason, whenReady } = error
      return { outcome: 'deferred', delayMs, reason, whenReady }
    }
    if (error instanceof MemoryShort) return { outcome: 'short', neededBytes: error.neededBytes }
    const code = error instanceof AppError ? error.code : 'provider_outcome_unknown'
    logger.error('the request could not be prepared', { jobId: input.job.id, code, error })
    return { outcome: 'refused', failure: { code, reason: 'the request could not be prepared' } }
  }
}

/**
 * Calls the deployments of the model in order until one succeeds. Continues to the next one only after a definite
 * failure (see `createFailover`), and only while the authorization leaves enough time.
 */
async function tryDeployments(
  dependencies: GenerationDependencies,
  job: LeasedJob,
  prepared: PreparedExecution,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const { executionStore, router, logger, tracer } = dependencies
  let failed: { attemptId: string; failure: ProviderFailure; prices: VendorPrices | undefined } | null = null
  let wasWithdrawn = false
  const failover = createFailover(router.countDeployments(job.publicModel))
  const routed = { acceptedAt: job.acceptedAt, signal, prefix: prepared.prefix }
  for await (const slot of router.candidates(job.publicModel, routed)) {
    // Directly before each call, to leave the payer no time to move funds between the check and the spending.
    const check = await tracer.stage('check', () => checkPaymentAgain(dependencies, job))
    if (check.outcome === 'unreachable' && !failed)
      return later(CHAIN_RETRY_MS, 'the payment network cannot be reached')
    if (check.outcome === 'no_gas' && !failed) return later(CHAIN_RETRY_MS, 'no settlement key with gas can settle it')
    if (check.outcome === 'follows_others' && !failed)
      return later(OTHERS_RETRY_MS, 'earlier payments rely on the allowance of the payer')
    if (check.outcome === 'refused' && !failed) return failWith(executionStore, job, { ...check, attempt: 'none' })
    if (check.outcome !== 'payable') break
    const caller = { payer: job.authorization.payer, hasPaid: check.hasPaid }
    // Operators may have drained or removed it during the check.
    if (slot.isWithdrawn()) {
      wasWithdrawn = true
      continue
    }
    const { written, attemptId } = await executionStore.startAttempt(
      job,
      slot.deployment,
      failed && { attemptId: failed.attemptId, reason: failed.failure.reason },
    )
    if (written === 'stale') return { next: 'stale' }
    const call = () => callInTime(dependencies, job, prepared, slot, caller, signal)
    const outcome = await describedStage(tracer, 'provider', call, { deployment: slot.deployment.name })
    if (outcome.outcome === 'produced')
      return tracer.stage('seal', () =>
        sealOutput(dependencies, job, attemptId, outcome.product, slot.deployment.prices),
      )
    const { code, reason } = outcome
    logger.warn('provider call failed', { jobId: job.id, deployment: slot.deployment.name, code, reason })
    failed = { attemptId, failure: outcome, prices: slot.deployment.prices }
    if (!failover.mayContinueAfter(outcome)) break
  }
  if (!failed) return withoutCall(dependencies, job, wasWithdrawn)
  const { failure, prices } = failed
  return failWith(executionStore, job, {
    code: failover.codeAfter(failure),
    reason: failure.reason,
    attempt: `failed_${failure.certainty}`,
    ...measuredFailure(job, failure, prices),
  })
}

/** A vendor with which the outcome is open may bill more than it has reported. */
function measuredFailure(
  job: LeasedJob,
  { certainty, usage }: ProviderFailure,
  prices: VendorPrices | undefined,
): { measured?: MeasuredWork } {
  const { measured } = measuredWork(job, usage, prices)
  if (measured === undefined) return {}
  return {
    measured: certainty === 'ambiguous' ? { ...measured, charge: job.authorization.authorizedMaximum } : measured,
  }
}

/** Returns what a call without a result cost, where its usage is known. */
function measuredWork(
  job: LeasedJob,
  usage: ProviderFailure['usage'],
  prices: VendorPrices | undefined,
): { measured?: MeasuredWork } {
  if (usage === undefined) return {}
  const measured = measure(job, usage)
  return { measured: { ...measured, vendorCost: vendorCost(prices, measured.usage) } }
}

/** Decides about a job for which no deployment was called: only an outage of all of them ends it. */
async function withoutCall(dependencies: JobDependencies, job: LeasedJob, wasWithdrawn: boolean): Promise<StepOutcome> {
  const { executionStore, router, recallRemoved } = dependencies
  if (router.isStopping()) return { next: 'elsewhere' }
  if (router.countDeployments(job.publicModel) === 0 && (await recallRemoved(job)))
    return later(WITHDRAWN_RETRY_MS, 'the deployments of the model were removed after it was accepted')
  if (router.isDrained(job.publicModel)) return later(WITHDRAWN_RETRY_MS, 'every deployment of the model is drained')
  // The others may only be busy: the next attempt waits for them.
  if (wasWithdrawn) return later(WITHDRAWN_RETRY_MS, 'the deployment was withdrawn before it was called')
  const outage = router.unavailability(job.publicModel)
  if (outage) return failWith(executionStore, job, { ...outage, attempt: 'none' })
  // The authorization may have become too short for another wait.
  const check = await checkPaymentAgain(dependencies, job)
  if (check.outcome === 'refused') return failWith(executionStore, job, { ...check, attempt: 'none' })
  return later(BUSY_RETRY_MS, 'every deployment of the model is at its limits')
}

/**
 * Calls one deployment, with more time than its own limit where the request may have a long answer. A call that needed
 * even more than that says nothing about the deployment's health.
 */
function callInTime(
  { outputTokensPerSecond }: JobDependencies,
  { terms }: LeasedJob,
  prepared: PreparedExecution,
  slot: Slot,
  caller: Caller,
  signal: AbortSignal,
): Promise<ExecutionOutcome> {
  const extraMs = Math.ceil(extraOutputSeconds(terms, outputTokensPerSecond) * 1000)
  const call = async (timeoutMs: number): Promise<ExecutionOutcome> => {
    const outcome = await prepared.call(slot.deployment, { signal, timeoutMs: timeoutMs + extraMs })
    if (outcome.outcome === 'produced' || outcome.timedOut !== true || extraMs === 0) return outcome
    return { ...outcome, concerns: 'request' }
  }
  return slot.run(call, caller)
}

/**
 * Seals the output of a provider, retrying through outages of either store while it could still be settled. A ledger
 * outage that outlasts the lease may pass the job to another worker, which fails it without a charge. Output that
 * cannot be stored or is not a valid result fails too: the provider may have billed it, so it is not called again.
 */
async function sealOutput(
  dependencies: GenerationDependencies,
  job: LeasedJob,
  attemptId: string,
  product: Product,
  prices: VendorPrices | undefined,
): Promise<StepOutcome> {
  const { executionStore, settlementMarginMs, logger } = dependencies
  const latestSettlementAt = Number(job.authorization.deadline) * 1000 - settlementMarginMs
  const giveUpAt = new Date(Math.min(latestSettlementAt, dependencies.now().getTime() + LONGEST_OUTAGE_MS))
  let result: Awaited<ReturnType<typeof sealProduct>>
  try {
    result = await sealProduct(dependencies, job, attemptId, product, giveUpAt)
  } catch (error) {
    logger.error('the output could not be sealed', { jobId: job.id, error })
    const reason = 'the output could not be stored, or is not a valid result'
    return failWith(executionStore, job, {
      code: 'provider_outcome_unknown',
      reason,
      attempt: 'failed_ambiguous',
      ...measuredWork(job, product.usage, prices),
    })
  }
  const { sealed, media } = result
  const preparing = dependencies.prepareSettlement?.(job, sealed.chargeAmount)
  const written = await retryUntil(dependencies, 'sealing the result', giveUpAt, () =>
    executionStore.sealResult(job, attemptId, sealed, media, vendorCost(prices, sealed.usage)),
  )
  const { resultBody: _, ...withoutBody } = sealed
  const generated: LeasedJob = {
    ...job,
    state: 'generated',
    sealed: withoutBody,
    mediaExpireAt: media?.expiresAt ?? null,
    effectiveRequest: null,
    requestBytes: 0,
  }
  return moved(written, generated, preparing)
}

/**
 * Fails a job that was leased as `generating`: its worker died during or after the call, so the outcome is unknown.
 */
export async function failLostAttempt({ executionStore }: JobDependencies, job: LeasedJob): Promise<StepOutcome> {
  return failWith(executionStore, job, {
    code: 'provider_outcome_unknown',
    reason: 'the worker was lost during the provider call',
    attempt: 'failed_ambiguous',
    isLost: true,
  })
}
