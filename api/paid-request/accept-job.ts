import { AppError } from '#shared/errors/app-error.ts'
import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { encryptUpload, newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { EffectiveRequest } from './effective-request.ts'
import type { Challenge } from './payment-challenge.ts'

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'acceptJob' | 'markEnqueued'>
  readonly queue: Pick<JobQueue, 'enqueue'>
  readonly uploads: Pick<ObjectStore, 'put' | 'delete'>
  readonly logger: Logger
}

/**
 * Stages the upload if there is one, claims the payment and creates the job, in that order: whatever fails before the claim leaves an
 * encrypted object without a key. Returns the id of the job that serves the request, which may be another request's that
 * came first. Throws the 409s of a key or payment that belongs to something else, and `storage_unavailable`.
 */
export async function acceptJob(
  { store, queue, uploads, logger }: Dependencies,
  challenge: Challenge,
  { effective, requestDigest, audio }: EffectiveRequest,
  authorization: Authorization,
): Promise<string> {
  const stagedUpload = audio && (await stageUpload(uploads, audio))
  const acceptance = await store.acceptJob({
    idempotencyKey: challenge.idempotencyKey,
    operation: challenge.operation.id,
    publicModel: challenge.operation.publicModel(effective),
    requestDigest,
    effectiveRequest: effective,
    quote: challenge.quote,
    authorization,
    stagedUpload,
  })
  // Nobody will ever hold its key; a failed deletion is made up for by the sweeper.
  if (stagedUpload && acceptance.outcome !== 'accepted')
    await uploads.delete(stagedUpload.objectKey).catch(() => undefined)
  switch (acceptance.outcome) {
    case 'accepted':
    case 'settles_again': {
      const state = acceptance.outcome === 'accepted' ? 'accepted' : 'generated'
      const queueName = queueOf({ operation: challenge.operation.id, state })
      enqueueInBackground({ store, queue, logger }, acceptance.jobId, queueName)
      return acceptance.jobId
    }
    case 'exists':
      return acceptance.jobId
    case 'other_request':
      throw new AppError('idempotency_key_reused')
    case 'authorization_already_used':
    case 'permit_already_used':
      throw new AppError(acceptance.outcome, { retryAfterSeconds: 2 })
  }
}

async function stageUpload(uploads: Pick<ObjectStore, 'put'>, audio: Uint8Array): Promise<StagedUpload> {
  const stagedUpload = newStagedUpload()
  try {
    await uploads.put(stagedUpload.objectKey, encryptUpload(stagedUpload, audio))
  } catch (cause) {
    throw new AppError('storage_unavailable', { cause })
  }
  return stagedUpload
}

/** The row is the outbox: a queue that is slow or down delays the job until the sweeper's next round and nothing else. */
function enqueueInBackground(
  { store, queue, logger }: Omit<Dependencies, 'uploads'>,
  jobId: string,
  queueName: QueueName,
): void {
  queue
    .enqueue(jobId, queueName)
    .then(() => store.markEnqueued(jobId))
    .catch((error: unknown) => logger.warn('not enqueued; the sweeper will', { jobId, error }))
}
