import { bindTo } from '#shared/runtime/bind-to.ts'
import { LOSS_WINDOW_SECONDS } from '../new-payer-exposure.ts'
import type { Pool, Sql } from '../pool.ts'
import { countRows } from '../read-rows.ts'
import { findExpiredMedia, markMediaDeleted } from './hosted-media.ts'
import { eraseExpiredUploads, markUploadsDeleted } from './staged-uploads.ts'

export type RetentionStore = ReturnType<typeof createRetentionStore>

/** Creates the sweepers' access to data past its retention. Receipts and payments stay. */
export function createRetentionStore(pool: Pool) {
  return bindTo(pool, {
    eraseExpiredUploads,
    markUploadsDeleted,
    findExpiredMedia,
    markMediaDeleted,
    expireResults,
    forgetExpiredChallenges,
    forgetInspections,
    forgetPermits,
    forgetNetworks,
  })
}

/**
 * Erases results past their retention; of a review it begins when a person ends it. A withheld result that is erased is
 * no longer owed. Receipt, payment and digest
 * stay, so that a replay still returns the receipt's id. Returns the number of erased results.
 */
async function expireResults(sql: Sql, retentionMs: number, limit: number): Promise<number> {
  return await countRows(sql, {
    name: 'expire_results',
    text: `UPDATE jobs SET result_body = NULL, is_owed = false, client_network = NULL,
       result_expired_at = CASE WHEN state <> 'review' THEN now() END
     WHERE id IN (
       SELECT id FROM jobs
       WHERE result_body IS NOT NULL AND finished_at <= now() - make_interval(secs => $1 / 1000.0)
         AND (state IN ('completed', 'settlement_failed') OR state = 'review' AND EXISTS (
           SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND resolutions.item = 'review'
             AND resolved_at <= now() - make_interval(secs => $1 / 1000.0)))
       ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    values: [retentionMs, limit],
  })
}

/**
 * A payment sent after its challenge expired is answered with a new challenge, for which the key need not be stored.
 * Only a payment that arrived in time and is still being verified needs it: verification takes a few RPC timeouts.
 * Unpaid requests cost nothing, so their keys must not stay longer than necessary.
 */
const FORGET_CHALLENGES_AFTER_SECONDS = 120

/** Deletes keys without a job whose challenge has expired. Returns their number. */
async function forgetExpiredChallenges(sql: Sql, limit: number): Promise<number> {
  return await countRows(sql, {
    name: 'forget_expired_challenges',
    text: `DELETE FROM idempotency_keys WHERE idempotency_key IN (
       SELECT idempotency_key FROM idempotency_keys
       WHERE job_id IS NULL AND expires_at <= now() - make_interval(secs => $1)
       ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    values: [FORGET_CHALLENGES_AFTER_SECONDS, limit],
  })
}

/** Deletes expired verdicts on audio. Returns their number. */
async function forgetInspections(sql: Sql, limit: number): Promise<number> {
  return await countRows(sql, {
    name: 'forget_inspections',
    text: `DELETE FROM audio_inspections WHERE (audio_sha256, inspector) IN (
       SELECT audio_sha256, inspector FROM audio_inspections WHERE expires_at <= now()
       ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`,
    values: [limit],
  })
}

/** Deletes stored permits that have expired. Returns their number. */
async function forgetPermits(sql: Sql, limit: number): Promise<number> {
  return await countRows(sql, {
    name: 'forget_permits',
    text: `DELETE FROM stored_permits WHERE owner IN (
       SELECT owner FROM stored_permits WHERE expires_at <= now()
       ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`,
    values: [limit],
  })
}

/** Days of uncharged work that are looked at; `ever` is longer than any ledger exists. */
const DAYS_OF_WORK = { lately: 7, ever: 36_525 } as const

/**
 * Erases the networks of uncharged work that no longer counts; those of calls are erased with their results, or when they
 * are paid or fail. Returns the number of rows.
 */
async function forgetNetworks(sql: Sql, limit: number, since: keyof typeof DAYS_OF_WORK = 'lately'): Promise<number> {
  return await countRows(sql, {
    name: 'forget_networks',
    text: `UPDATE uncharged_work SET client_network = NULL WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM uncharged_work
       WHERE is_new_payer AND client_network IS NOT NULL AND created_at <= now() - make_interval(secs => $1)
         AND created_at > now() - make_interval(secs => $1, days => $3)
       ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [LOSS_WINDOW_SECONDS, limit, DAYS_OF_WORK[since]],
  })
}
