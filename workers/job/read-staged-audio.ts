import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { decryptUpload } from '#shared/media/staged-upload.ts'

export type StagedAudio =
  /** `null` for a job without an upload. */
  | { outcome: 'read'; audio: Uint8Array | null }
  /** Erased, expired or damaged: it can never be read again. */
  | { outcome: 'gone'; reason: string }
  | { outcome: 'unreachable'; cause: unknown }

/** Reads and decrypts the upload of a job, if it has one. Throws only when the ledger cannot be reached. */
export async function readStagedAudio(
  {
    executionStore,
    uploads,
  }: { executionStore: Pick<ExecutionStore, 'openStagedUpload'>; uploads: Pick<ObjectStore, 'get'> },
  { stagedUploadId }: ClaimedJob,
): Promise<StagedAudio> {
  if (stagedUploadId === null) return { outcome: 'read', audio: null }
  const upload = await executionStore.openStagedUpload(stagedUploadId)
  if (!upload) return { outcome: 'gone', reason: 'the staged upload has expired' }
  let sealed: Uint8Array | null
  try {
    sealed = await uploads.get(upload.objectKey)
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
  if (!sealed) return { outcome: 'gone', reason: 'the staged object is missing' }
  try {
    return { outcome: 'read', audio: decryptUpload(upload, sealed) }
  } catch {
    // Authentication failed; the error says nothing more.
    return { outcome: 'gone', reason: 'the staged object is damaged' }
  }
}
