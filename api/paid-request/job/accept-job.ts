import { AppError } from '#shared/errors/app-error.ts'
import type { Acceptance, AdmissionStore, NewJob } from '#shared/jobs/admission-store.ts'
import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { MAXIMUM_READINGS } from '#shared/payment/exposure.ts'
import type { PayerFundsReader } from '#shared/payment/payer-funds.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { EffectiveRequest } from '../../request/effective-request.ts'
import type { RequestPreparer } from '../../request/worker-threads/request-preparer.ts'
import type { Challenge } from '../challenge/challenge.ts'
import { invalidPayment } from '../payment/read-authorization.ts'
import type { VerifiedPayment } from '../payment/verify-authorization.ts'
import { unchargedWorkError } from './uncharged-work-error.ts'

/** Calls settle within seconds, so some are settled by the time of the retry. */
const OPEN_WORK_RETRY_SECONDS = 2

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'acceptJob' | 'markEnqueued'>
  readonly payerFunds: PayerFundsReader
  readonly maximumOpenExposure: AtomicAmount
  readonly queue: Pick<JobQueue, 'enqueue'>
  readonly uploads: Pick<ObjectStore, 'put' | 'delete'>
  readonly preparer: Pick<RequestPreparer, 'encryptUpload'>
  readonly logger: Logger
  readonly tracer: Pick<Tracer, 'current'>
}

/** The job whose outcome answers a request, and whether this request created it. */
export interface ServingJob {
  readonly jobId: string
  readonly isNew: boolean
}

/**
 * Stages the upload if there is one, then claims the payment and creates the job: a failure before the claim leaves
 * only an encrypted object whose key is lost. Returns the existing job when a concurrent request came first. Throws the
 * 409s of a key or payment that belongs to another request, the refusals of a payer with too much open or
 * uncharged work, and `storage_unavailable`.
 */
export async function acceptJob(
  dependencies: Dependencies,
  challenge: Challenge,
  { publicModel, requestDigest, content }: EffectiveRequest,
  { authorization, challengeTokenSha256, ...verified }: VerifiedPayment,
): Promise<ServingJob> {
  const { uploads } = dependencies
  const { json, audio } = content()
  const stagedUpload = audio && (await stageUpload(dependencies, audio))
  const acceptance = await acceptWithinFunds(dependencies, verified, {
    idempotencyKey: challenge.idempotencyKey,
    operation: challenge.operation.id,
    publicModel,
    requestDigest,
    effectiveJson: json,
    quote: challenge.quote,
    authorization,
    challengeTokenSha256,
    stagedUpload,
    origin: dependencies.tracer.current() ?? { requestId: null, traceparent: null },
  })
  // Its key is stored nowhere; the sweeper repeats a failed deletion.
  if (stagedUpload && acceptance.outcome !== 'accepted')
    await uploads.delete(stagedUpload.objectKey).catch(() => undefined)
  switch (acceptance.outcome) {
    case 'accepted':
    case 'settles_again': {
      const state = acceptance.outcome === 'accepted' ? 'accepted' : 'generated'
      const queueName = queueOf({ operation: challenge.operation.id, state })
      enqueueInBackground(dependencies, acceptance.jobId, queueName)
      return { jobId: acceptance.jobId, isNew: true }
    }
    case 'exists':
      return { jobId: acceptance.jobId, isNew: false }
    case 'other_request':
      throw new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
    case 'authorization_already_used':
    case 'permit_already_used':
      throw new AppError(acceptance.outcome, { retryAfterSeconds: OPEN_WORK_RETRY_SECONDS })
    case 'unstorable':
      dependencies.logger.warn('the ledger cannot store a value of a payment', { code: acceptance.sqlState })
      throw invalidPayment('it has a value that cannot be stored')
    case 'exceeds_funds':
    case 'exceeds_open_limit':
    case 'unpaid_debt':
      throw exposureError(acceptance, dependencies.maximumOpenExposure)
    case 'uncharged_work_limit':
      throw unchargedWorkError(acceptance.exhausted)
    case 'new_payer_limit':
    case 'settlement_retry_limit':
      throw new AppError(acceptance.outcome, { retryAfterSeconds: acceptance.retryAfterSeconds })
  }
}

/**
 * Accepts the job within the payer's funds, which are read from the chain when the payer has other work open. Reads
 * them again when they do not suffice: funds may have arrived since the last reading.
 */
async function acceptWithinFunds(
  { store, payerFunds, maximumOpenExposure }: Dependencies,
  { needsPermit, verifiedAtMs }: Pick<VerifiedPayment, 'needsPermit' | 'verifiedAtMs'>,
  job: Omit<NewJob, 'exposure'>,
): Promise<Acceptance> {
  const { payer } = job.authorization
  let funds = payerFunds.recent(payer)
  for (let readings = 0; ; readings += 1) {
    const verifiedMsAgo = performance.now() - verifiedAtMs
    const exposure = { maximumOpen: maximumOpenExposure, needsPermit, verifiedMsAgo, funds }
    const acceptance = await store.acceptJob({ ...job, exposure })
    if (acceptance.outcome !== 'exceeds_funds' || readings === MAXIMUM_READINGS) return acceptance
    const reading = await payerFunds.read(payer, acceptance.settlingNonces)
    if (reading.outcome === 'unreachable') throw new AppError('payment_network_unavailable', { cause: reading.cause })
    funds = reading.funds
  }
}

function exposureError(
  refusal: Extract<Acceptance, { outcome: 'exceeds_funds' | 'exceeds_open_limit' | 'unpaid_debt' }>,
  maximumOpen: AtomicAmount,
): AppError {
  if (refusal.outcome === 'unpaid_debt') {
    const debt = dollarsFromAtomic(refusal.chargeAmount)
    return new AppError('unpaid_debt', {
      message: `An earlier call of this payer is completed but unpaid. First repeat the request with x-idempotency-key "${refusal.idempotencyKey}" and a fresh payment (${debt} USDC).`,
    })
  }
  const open = dollarsFromAtomic(refusal.openTotal)
  const retry = { retryAfterSeconds: OPEN_WORK_RETRY_SECONDS }
  return refusal.outcome === 'exceeds_funds'
    ? new AppError('funds_reserved', {
        ...retry,
        message: `${open} USDC of the payer’s balance or Permit2 allowance is reserved for other calls in progress. Retry when they have settled, or add funds.`,
      })
    : new AppError('open_exposure_limit', {
        ...retry,
        message: `The payer’s calls in progress amount to ${open} USDC; at most ${dollarsFromAtomic(maximumOpen)} USDC may be open. Retry when some have settled.`,
      })
}

/** Encrypts and stores the upload. The bytes of a large one are transferred to a thread and unusable afterwards. */
async function stageUpload(
  { uploads, preparer }: Pick<Dependencies, 'uploads' | 'preparer'>,
  audio: Uint8Array,
): Promise<StagedUpload> {
  const stagedUpload = newStagedUpload()
  const sealed = await preparer.encryptUpload(stagedUpload, audio)
  try {
    await uploads.put(stagedUpload.objectKey, sealed)
  } catch (cause) {
    throw new AppError('storage_unavailable', { cause })
  }
  return stagedUpload
}

/**
 * Enqueues without waiting. The row is the outbox: if the queue is down, the sweeper enqueues the job in its next
 * round.
 */
function enqueueInBackground(
  { store, queue, logger }: Pick<Dependencies, 'store' | 'queue' | 'logger'>,
  jobId: string,
  queueName: QueueName,
): void {
  queue
    .enqueue(jobId, queueName)
    .then(() => store.markEnqueued(jobId))
    .catch((error: unknown) => logger.warn('failed to enqueue the job; the sweeper will retry', { jobId, error }))
}
