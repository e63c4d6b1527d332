import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { type EffectiveTranscription, transcriptions } from '#shared/operations/transcriptions.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { deploymentFor, type TranscriptionDeployment } from '../providers/deployments.ts'
import type { ProviderFailure, TranscriptionInput } from '../providers/provider.ts'
import { after, type StepOutcome } from '../step-outcome.ts'
import { readStagedAudio } from './read-staged-audio.ts'
import { sealTranscription } from './seal-result.ts'

export interface GenerationDependencies {
  readonly store: Pick<ExecutionStore, 'openStagedUpload' | 'startAttempt' | 'sealResult' | 'failJob'>
  readonly uploads: Pick<ObjectStore, 'get'>
  readonly verifier: Pick<AuthorizationVerifier, 'verify'>
  readonly deployments: readonly TranscriptionDeployment[]
  readonly providerTimeoutMs: number
  readonly settlementMarginMs: number
  readonly now: () => Date
  readonly logger: Logger
}

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
  const refusal = await checkPaymentAgain(dependencies, job)
  if (refusal) return refusal
  const { store, providerTimeoutMs } = dependencies
  const effective = transcriptions.effectiveRequestSchema.parse(job.effectiveRequest)
  const deployment = deploymentFor(dependencies.deployments, job.publicModel)
  if (!deployment)
    return failWith(store, job, {
      code: 'provider_unavailable',
      reason: 'no deployment serves the model',
      attempt: 'none',
    })
  const staged = await readStagedAudio(dependencies, job)
  if (staged.outcome === 'unreachable')
    return { next: 'later', delayMs: STORAGE_RETRY_MS, reason: 'the upload storage cannot be reached' }
  if (staged.outcome === 'gone')
    return failWith(store, job, { code: 'upload_expired', reason: staged.reason, attempt: 'none' })

  const { written, attemptId } = await store.startAttempt(job, deployment.name)
  if (written === 'stale') return { next: 'stale' }
  const outcome = await deployment.provider.transcribe(transcriptionInput(effective, staged.audio), {
    signal,
    timeoutMs: providerTimeoutMs,
  })
  if (outcome.outcome === 'failed') return failAttempt(dependencies, job, outcome)
  const sealed = sealTranscription(job, effective, outcome.transcript, dependencies.now())
  return after(await store.sealResult(job, attemptId, sealed), 'moved')
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

/** The payer can move funds at any time; the last look before money is spent upstream. `null` when the call may go on. */
async function checkPaymentAgain(
  { store, verifier, providerTimeoutMs, settlementMarginMs, now }: GenerationDependencies,
  job: ClaimedJob,
): Promise<StepOutcome | null> {
  const remainingMs = Number(job.authorization.deadline) * 1000 - now().getTime()
  if (remainingMs < providerTimeoutMs + settlementMarginMs)
    return failWith(store, job, {
      code: 'authorization_too_short',
      reason: `${Math.round(remainingMs / 1000)} s left before the call`,
      attempt: 'none',
    })
  const verification = await verifier.verify(job.authorization, job.authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  if (verification.outcome === 'refused')
    return failWith(store, job, {
      code: verification.code,
      reason: 'refused before the provider call',
      attempt: 'none',
    })
  return null
}

function transcriptionInput(effective: EffectiveTranscription, audio: Uint8Array): TranscriptionInput {
  return {
    audio,
    diarize: effective.diarize,
    timestamps: effective.timestamps,
    tagAudioEvents: effective.tag_audio_events,
    needsWords: effective.tag_audio_events || effective.response_format === 'verbose_json',
    ...(effective.language === undefined ? {} : { language: effective.language }),
    ...(effective.num_speakers === undefined ? {} : { numSpeakers: effective.num_speakers }),
  }
}

async function failAttempt(
  { store, logger }: GenerationDependencies,
  job: ClaimedJob,
  { code, reason, certainty }: ProviderFailure,
): Promise<StepOutcome> {
  logger.warn('provider call failed', { jobId: job.id, code, reason })
  return failWith(store, job, {
    code,
    reason,
    attempt: certainty === 'definite' ? 'failed_definite' : 'failed_ambiguous',
  })
}

async function failWith(
  store: Pick<ExecutionStore, 'failJob'>,
  job: ClaimedJob,
  failure: Parameters<ExecutionStore['failJob']>[1],
): Promise<StepOutcome> {
  return after(await store.failJob(job, failure), 'finished')
}
