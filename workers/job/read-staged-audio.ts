import type { LeasedJob } from '#shared/jobs/job.ts'
import type { OpenedObject } from '#shared/media/object-store.ts'
import { decryptUpload } from '#shared/media/staged-upload.ts'
import type { JobDependencies } from './dependencies.ts'

export type StagedAudio =
  /** `null` for a job without an upload. */
  | { outcome: 'read'; audio: Uint8Array | null }
  /** Erased, expired or damaged: it can never be read again. */
  | { outcome: 'gone'; reason: string }
  | { outcome: 'unreachable'; cause: unknown }

const DAMAGED: StagedAudio = { outcome: 'gone', reason: 'the staged object is damaged' }

/**
 * Reads and decrypts the upload of a job, if it has one, into at most `maximumBytes` of memory. Throws only when the
 * ledger cannot be reached.
 */
export async function readStagedAudio(
  { executionStore, uploads }: JobDependencies,
  { stagedUploadId }: LeasedJob,
  maximumBytes: number,
): Promise<StagedAudio> {
  if (stagedUploadId === null) return { outcome: 'read', audio: null }
  const upload = await executionStore.openStagedUpload(stagedUploadId)
  if (!upload) return { outcome: 'gone', reason: 'the staged upload has expired' }
  let opened: OpenedObject | null = null
  try {
    opened = await uploads.open(upload.objectKey)
    if (!opened) return { outcome: 'gone', reason: 'the staged object is missing' }
    const audio = await decryptUpload(upload, opened, maximumBytes)
    return audio ? { outcome: 'read', audio } : DAMAGED
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  } finally {
    opened?.body.destroy()
  }
}
