import type { PayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Acceptance, NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import type { KnownRequest } from '#shared/ledger/acceptance/find-known-request.ts'
import type { ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import { newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { isWorthReading, MAXIMUM_READINGS } from '#shared/payment/exposure.ts'
import { type ExhaustedBudget, UNCHARGED_KINDS, type UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import type { EffectiveRequest } from '../../request/effective-request.ts'
import type { RequestPreparer } from '../../request/worker-threads/request-preparer.ts'
import { invalidPayment, type PresentedPayment } from '../pay/read-authorization.ts'
import type { VerifiedPayment } from '../pay/verify-authorization.ts'
import type { Challenge } from '../quote/challenge.ts'
import { exposureError, NEW_PAYER_LIMITS, OPEN_WORK_RETRY_SECONDS } from './exposure-errors.ts'

const KIND_NAMES: Record<UnchargedKind, string> = {
  empty_output: 'calls without usable output',
  unknown_outcome: 'calls with an unknown outcome',
  lost_call: 'calls that the service lost',
  rejected_request: 'rejected requests',
  replaced_result: 'results that were generated again',
  reverted_settlement: 'settlements that reverted',
}

/** How long a caller waits for the answer whether media could be stored. */
const STORAGE_PATIENCE_MS = 3000

/** What jobs are accepted with. */
export interface AcceptanceContext {
  readonly store: AcceptanceStore
  readonly payerFunds: PayerFundsReader
  readonly maximumOpenExposure: AtomicAmount
  readonly highestPrice: () => AtomicAmount
  readonly queue: Pick<JobQueue, 'enqueue'>
  readonly uploads: Pick<ObjectStore, 'put' | 'delete'>
  /** Rejects while nothing can be stored. */
  readonly checkObjects: OpenedObjectStore['check']
  readonly preparer: Pick<RequestPreparer, 'encryptUpload'>
  readonly logger: Logger
  readonly tracer: Pick<Tracer, 'current'>
}

/** A verified payment, and the network that it came from. */
interface CallersPayment extends VerifiedPayment {
  readonly clientNetwork: string
}

/** The job whose outcome answers a request, and whether this request created it. */
export interface ServingJob {
  readonly jobId: string
  readonly isNew: boolean
}

/**
 * Returns the job that this payer already has under this key and that answers the request, or `null` when a new job
 * must be accepted. Throws `authorization_already_used` and `idempotency_key_reused` (409), and
 * `fresh_signature_required` (402) for a payment that was accepted with another challenge token: once it is settled,
 * anyone can read its signature on chain, and only the token shows that the caller is the one who was accepted.
 *
 * A job that ended uncharged is retried only with a fresh authorization: the previous one may have been used for a
 * provider call whose outcome is unknown.
 */
export function findOwnJob(
  { holder, claim }: Pick<KnownRequest, 'holder' | 'claim'>,
  { authorization: { payer }, challengeTokenSha256 }: Pick<PresentedPayment, 'authorization' | 'challengeTokenSha256'>,
): string | null {
  if (claim !== null && claim.jobId !== holder?.jobId) throw new AppError('authorization_already_used')
  if (!holder) return null
  if (holder.payer !== payer) {
    if (holder.isReleasable) return null
    throw new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
  }
  if (claim !== null && claim.challengeTokenSha256 !== challengeTokenSha256)
    throw new AppError('fresh_signature_required')
  const canBePaidAgain = statesBefore('accepted').includes(holder.state)
  return claim !== null || !canBePaidAgain ? holder.jobId : null
}

/**
 * Stages the upload if there is one, then claims the payment and creates the job: a failure before the claim leaves
 * only an encrypted object whose key is lost. Returns the existing job when a concurrent request came first. Throws the
 * 409s of a key or payment that belongs to another request, the refusals of a payer with too much open or
 * uncharged work, and `storage_unavailable`.
 */
export async function servePayment(
  context: AcceptanceContext,
  challenge: Challenge,
  { publicModel, requestDigest, content }: EffectiveRequest,
  { authorization, challengeTokenSha256, clientNetwork, ...verified }: CallersPayment,
): Promise<ServingJob> {
  const { uploads } = context
  const { json, audio } = content()
  if (challenge.operation.hostsMedia) await requireMediaStorage(context)
  const stagedUpload = audio && (await stageUpload(context, audio))
  const acceptance = await acceptWithinFunds(context, verified, {
    idempotencyKey: challenge.idempotencyKey,
    operation: challenge.operation.id,
    publicModel,
    requestDigest,
    effectiveJson: json,
    quote: challenge.quote,
    authorization,
    challengeTokenSha256,
    stagedUpload,
    clientNetwork,
    origin: context.tracer.current() ?? { requestId: null, traceparent: null },
  })
  // Its key is stored nowhere; the sweeper repeats a failed deletion.
  if (stagedUpload && acceptance.outcome !== 'accepted')
    await uploads.delete(stagedUpload.objectKey).catch(() => undefined)
  switch (acceptance.outcome) {
    case 'accepted':
    case 'settles_again': {
      const state = acceptance.outcome === 'accepted' ? 'accepted' : 'generated'
      const queueName = queueOf({ operation: challenge.operation.id, state })
      enqueueInBackground(context, acceptance.jobId, queueName)
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
      context.logger.warn('the ledger cannot store a value of a payment', { code: acceptance.sqlState })
      throw invalidPayment('it has a value that cannot be stored')
    case 'exceeds_funds':
    case 'exceeds_open_limit':
    case 'exceeds_trust':
    case 'unpaid_debt':
      throw exposureError(acceptance, context.maximumOpenExposure)
    case 'uncharged_work_limit':
      throw unchargedWorkError(acceptance.exhausted)
    case 'new_payer_limit': {
      const { limit, retryAfterSeconds } = acceptance
      throw new AppError('new_payer_limit', { message: NEW_PAYER_LIMITS[limit], retryAfterSeconds })
    }
    case 'settlement_retry_limit':
      throw new AppError(acceptance.outcome, { retryAfterSeconds: acceptance.retryAfterSeconds })
  }
}

/**
 * Accepts the job within the payer's funds, which are read from the chain when the payer has other work open. Reads
 * them again when they do not suffice: funds may have arrived, and settlements begun.
 */
async function acceptWithinFunds(
  { store, payerFunds, maximumOpenExposure, highestPrice }: AcceptanceContext,
  { needsPermit, verifiedAtMs }: Pick<VerifiedPayment, 'needsPermit' | 'verifiedAtMs'>,
  job: Omit<NewJob, 'exposure'>,
): Promise<Acceptance> {
  const { payer } = job.authorization
  const terms = { maximumOpen: maximumOpenExposure, highestPrice: highestPrice(), needsPermit }
  let funds = await payerFunds.recent(payer)
  let asked: readonly bigint[] | null = null
  for (let readings = 0; ;) {
    const verifiedMsAgo = performance.now() - verifiedAtMs
    const acceptance = await store.acceptPayment({ ...job, exposure: { ...terms, verifiedMsAgo, funds } })
    if (acceptance.outcome !== 'exceeds_funds') return acceptance
    if (readings === MAXIMUM_READINGS || !isWorthReading(acceptance.settlingNonces, asked)) return acceptance
    readings += 1
    const reading = await payerFunds.read(payer, acceptance.settlingNonces)
    if (reading.outcome === 'unreachable') throw new AppError('payment_network_unavailable', { cause: reading.cause })
    funds = reading.funds
    asked = acceptance.settlingNonces
  }
}

/** Throws `storage_unavailable` while media could not be stored: their provider would be paid for nothing. */
async function requireMediaStorage({ checkObjects }: AcceptanceContext): Promise<void> {
  try {
    await withDeadline(STORAGE_PATIENCE_MS, checkObjects(), () => {
      throw new Error('the object store does not answer')
    })
  } catch (cause) {
    throw new AppError('storage_unavailable', { cause })
  }
}

/** Encrypts and stores the upload. The bytes of a large one are transferred to a thread and unusable afterwards. */
async function stageUpload({ uploads, preparer }: AcceptanceContext, audio: Uint8Array): Promise<StagedUpload> {
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
function enqueueInBackground({ store, queue, logger }: AcceptanceContext, jobId: string, queueName: QueueName): void {
  queue
    .enqueue(jobId, queueName)
    .then(() => store.markEnqueued(jobId))
    .catch((error: unknown) => logger.warn('failed to enqueue the job; the sweeper will retry', { jobId, error }))
}

/** Creates the 429 of a payer whose calls cost too much without a charge: what counted, and when to come back. */
function unchargedWorkError({ used, allowed, byKind, retryAfterSeconds }: ExhaustedBudget): AppError {
  const kinds = UNCHARGED_KINDS.flatMap((kind) => {
    const amount = byKind[kind]
    return amount === undefined ? [] : [`${KIND_NAMES[kind]} ${dollarsFromAtomic(amount)}`]
  })
  return new AppError('uncharged_work_limit', {
    message: `Recent calls of this payer that ended without a charge count ${dollarsFromAtomic(used)} USDC (${kinds.join(', ')}); ${dollarsFromAtomic(allowed)} USDC are allowed. Nothing was charged. Retry in ${retryAfterSeconds} seconds; the allowance grows with what the payer pays.`,
    retryAfterSeconds,
  })
}
