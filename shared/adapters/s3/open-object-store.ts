import { OBJECT_ACCESS, type ObjectUser } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { OpenedObjectStore } from '#shared/media/object-store.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { openOnce, untilOpen } from '../open-once.ts'
import { probeStore, requireBucket } from './probe-store.ts'
import { createS3Client } from './s3-client.ts'
import { createS3ObjectLinks, createS3ObjectStore } from './s3-store.ts'
import { UnusableStore } from './store-failure.ts'

/** How long a start waits for a store that hangs. */
const START_PATIENCE_MS = 5000
const RETRY_MS = 5000

/**
 * Opens the bucket and tries what `user` does in it. While the store cannot be used, for whatever reason, the process runs
 * without it, since text needs none: the trial is repeated until it succeeds, and `onError` receives each failure, which
 * names the setting to check.
 */
export async function openS3ObjectStore(
  settings: S3Settings,
  user: ObjectUser,
  onError: (error: Error) => void,
): Promise<OpenedObjectStore> {
  const client = createS3Client(settings)
  const trial = openOnce(() => probeStore(client, settings, OBJECT_ACCESS[user]))
  const closing = new AbortController()
  try {
    await withDeadline(START_PATIENCE_MS, trial.get(), () => {
      throw new UnusableStore(`S3_ENDPOINT: ${settings.S3_ENDPOINT ?? 'AWS'} does not answer`)
    })
  } catch (error) {
    if (!(error instanceof UnusableStore)) {
      client.destroy()
      throw error
    }
    onError(error)
    void untilOpen(trial, closing.signal, { retryMs: RETRY_MS, onError })
  }
  return {
    objects: createS3ObjectStore(client, settings.S3_BUCKET),
    links: createS3ObjectLinks(client, settings.S3_BUCKET),
    check: async () => {
      await trial.get()
      await requireBucket(client, settings)
    },
    close: () => {
      closing.abort()
      client.destroy()
    },
  }
}
