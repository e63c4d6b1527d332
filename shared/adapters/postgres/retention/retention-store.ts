import type { RetentionStore } from '#shared/jobs/retention-store.ts'
import type { Pool } from '../pool.ts'
import { expireResults } from './expire-results.ts'
import { forgetExpiredChallenges } from './forget-expired-challenges.ts'
import { forgetInspections } from './forget-inspections.ts'
import { forgetUsedSignIns } from './forget-used-sign-ins.ts'
import { findExpiredMedia, markMediaDeleted } from './media.ts'
import { eraseExpiredUploads, markUploadsDeleted } from './staged-uploads.ts'

/** Creates the sweepers' store of data past its retention over one pool. */
export function createRetentionStore(pool: Pool): RetentionStore {
  return {
    eraseExpiredUploads: (limit) => eraseExpiredUploads(pool, limit),
    markUploadsDeleted: (objectKeys) => markUploadsDeleted(pool, objectKeys),
    findExpiredMedia: (limit) => findExpiredMedia(pool, limit),
    markMediaDeleted: (objectKeys) => markMediaDeleted(pool, objectKeys),
    expireResults: (retentionMs, limit) => expireResults(pool, retentionMs, limit),
    forgetExpiredChallenges: (limit) => forgetExpiredChallenges(pool, limit),
    forgetUsedSignIns: (limit) => forgetUsedSignIns(pool, limit),
    forgetInspections: (limit) => forgetInspections(pool, limit),
  }
}
