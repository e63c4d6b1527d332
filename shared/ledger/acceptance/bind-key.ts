import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'

export interface KeyBindingRequest {
  readonly idempotencyKey: string
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly lifetimeSeconds: number
  /** What the caller says of a recording that was not sent yet; `null` or absent for a request that was read completely. */
  readonly describedAudio?: MeasuredAudio | null
}

/** `quote` is the one of the key's first challenge, kept until that challenge expires. */
export type KeyBinding = { outcome: 'bound'; quote: Quote<JsonValue>; expiresAt: Date } | { outcome: 'other_request' }

/**
 * The request a key is bound to: until its challenge expires or, with a job that did not end uncharged, permanently.
 */
export interface CurrentBinding {
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly expiresAt: Date
  /** Whether the challenge has not expired; a key with a job stays bound afterwards. */
  readonly isLive: boolean
  /** `null` for a key that was bound by a complete request, and once a job is accepted under it. */
  readonly description: Description | null
}

/** What the caller said of a recording when the key was bound. */
export interface Description {
  readonly audio: MeasuredAudio
  /** Whether another recording was sent since, and the key is bound to that. Until then it may be. */
  readonly isReplaced: boolean
}

interface BoundRow extends Quote<JsonValue>, Pick<CurrentBinding, 'expiresAt'> {}

/** `BINDING_COLUMNS` of a key that is bound. */
export interface BindingColumns extends BoundRow, Pick<CurrentBinding, 'requestDigest' | 'isLive'> {
  readonly describedAudio: DescriptionColumn | null
}

/**
 * Binds a key to a request until its challenge expires. A live challenge of the same request keeps its price and expiry
 * until three quarters of its lifetime are over; then a new one replaces it, so that no price is kept forever. A key
 * whose challenge has expired and whose job ended uncharged is free again, for any payer and request. A key that was
 * bound by a request with its recording is never bound by a claim of the same recording afterwards.
 */
export async function bindKey(pool: Pool, request: KeyBindingRequest): Promise<KeyBinding> {
  const bound = await bind(pool, request, { isReleased: false })
  if (bound.outcome === 'bound' || !(await isExpiredWithJob(pool, request.idempotencyKey))) return bound
  return await inTransaction(pool, async (sql) => {
    await releaseFailedJob(sql, request.idempotencyKey)
    return await bind(sql, request, { isReleased: true })
  })
}

async function isExpiredWithJob(sql: Sql, idempotencyKey: string): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'find_expired_key_with_job',
    text: 'SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1 AND job_id IS NOT NULL AND expires_at <= now()',
    values: [idempotencyKey],
  })
  return rowCount === 1
}

/**
 * Separates a key from its job, if the job ended uncharged and the key's challenge has expired. The key's row is locked
 * first and the job's state read afterwards, so a payment for another attempt, which takes the same lock, comes either
 * before, and the job is no longer failed, or after, and finds the key without a job.
 */
async function releaseFailedJob(sql: Sql, idempotencyKey: string): Promise<void> {
  const key = await readFirst<{ job_id: string }>(sql, {
    name: 'lock_expired_key',
    text: `SELECT job_id FROM idempotency_keys
     WHERE idempotency_key = $1 AND job_id IS NOT NULL AND expires_at <= now() FOR UPDATE`,
    values: [idempotencyKey],
  })
  if (!key) return
  await sql.query({
    name: 'release_key_of_failed_job',
    text: `WITH released AS (
       UPDATE jobs SET idempotency_key = NULL, released_idempotency_key = idempotency_key
       WHERE id = $1 AND state = 'failed' AND idempotency_key = $2 RETURNING id)
     UPDATE idempotency_keys SET job_id = NULL FROM released
     WHERE idempotency_keys.idempotency_key = $2 AND job_id = released.id`,
    values: [key.job_id, idempotencyKey],
  })
}

/** Binds the key. Unless `isReleased`, an expired key that has a job stays unchanged. */
async function bind(
  sql: Sql,
  request: KeyBindingRequest,
  { isReleased }: { readonly isReleased: boolean },
): Promise<KeyBinding> {
  const row = await readFirst<BoundRow>(sql, {
    name: 'bind_key',
    text: `INSERT INTO idempotency_keys AS bound
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, described_audio, expires_at)
     VALUES ($1, $2, $3, $4, $5, $8, now() + make_interval(secs => $6))
     ON CONFLICT (idempotency_key) DO UPDATE SET
       request_digest = EXCLUDED.request_digest,
       described_audio = CASE
         WHEN bound.request_digest <> EXCLUDED.request_digest THEN EXCLUDED.described_audio
         WHEN bound.described_audio ? 'is_replaced' THEN bound.described_audio
         WHEN bound.described_audio IS NOT NULL THEN EXCLUDED.described_audio END,
       quoted_maximum = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.quoted_maximum ELSE EXCLUDED.quoted_maximum END,
       catalog_version = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.catalog_version ELSE EXCLUDED.catalog_version END,
       terms = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.terms ELSE EXCLUDED.terms END,
       expires_at = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.expires_at ELSE EXCLUDED.expires_at END
     WHERE (bound.request_digest = EXCLUDED.request_digest AND ($7 OR bound.job_id IS NULL OR bound.expires_at > now()))
       OR (bound.job_id IS NULL AND bound.expires_at <= now())
     RETURNING quoted_maximum AS "quotedMaximum", catalog_version AS "catalogVersion", terms, expires_at AS "expiresAt"`,
    values: [...bindingValues(request), isReleased, descriptionColumn(request.describedAudio)],
  })
  if (!row) return { outcome: 'other_request' }
  const { expiresAt, ...quote } = row
  return { outcome: 'bound', quote, expiresAt }
}

/** Returns what a binding is written with: the key, the digest, the quote in three columns, and the lifetime in seconds. */
function bindingValues({ idempotencyKey, requestDigest, quote, lifetimeSeconds }: KeyBindingRequest) {
  const { quotedMaximum, catalogVersion, terms } = quote
  return [
    idempotencyKey,
    requestDigest,
    quotedMaximum.toString(),
    catalogVersion,
    JSON.stringify(terms),
    lifetimeSeconds,
  ] as const
}

/** The columns of `idempotency_keys AS bound` that `bindingFromRow` reads. */
export const BINDING_COLUMNS = `bound.request_digest AS "requestDigest", bound.quoted_maximum AS "quotedMaximum",
  bound.catalog_version AS "catalogVersion", bound.terms, bound.expires_at AS "expiresAt",
  bound.expires_at > now() AS "isLive", CASE WHEN bound.job_id IS NULL THEN bound.described_audio END AS "describedAudio"`

export function bindingFromRow({ quotedMaximum, catalogVersion, terms, ...row }: BindingColumns): CurrentBinding {
  const { requestDigest, expiresAt, isLive, describedAudio } = row
  const quote = { quotedMaximum, catalogVersion, terms }
  return { requestDigest, quote, expiresAt, isLive, description: descriptionFromColumn(describedAudio) }
}

/** The column `described_audio`, with the names of the request. */
export interface DescriptionColumn {
  readonly sha256: string
  readonly bytes: number
  readonly duration_ms: number
  /** Present once the key is bound to another recording than the claimed one. */
  readonly is_replaced?: true
}

/** Returns the value of the column for a claim, or for none. */
export function descriptionColumn(claim: MeasuredAudio | null | undefined): DescriptionColumn | null {
  return claim ? { sha256: claim.sha256, bytes: claim.bytes, duration_ms: claim.durationMs } : null
}

function descriptionFromColumn(column: DescriptionColumn | null): Description | null {
  if (!column) return null
  const { sha256, bytes, duration_ms: durationMs, is_replaced: isReplaced = false } = column
  return { audio: { sha256, bytes, durationMs }, isReplaced }
}

/**
 * Binds a key that a claim holds to the request with the recording itself, at its own price and with a new challenge.
 * Changes nothing when the key is no longer bound by the claim with `describedDigest`, or has a job. One guarded
 * statement: of several recordings under one key only the first one replaces the claim, and a payment that is accepted
 * meanwhile, under the same lock, either finds the claim unchanged or is refused. The claim stays with the key, so
 * that the same payment for it is answered in the same way when the first answer was lost.
 */
export async function replaceDescription(sql: Sql, request: KeyBindingRequest, describedDigest: string): Promise<void> {
  await sql.query({
    name: 'replace_claim',
    text: `UPDATE idempotency_keys SET request_digest = $2, quoted_maximum = $3, catalog_version = $4, terms = $5,
       described_audio = described_audio || '{"is_replaced": true}', expires_at = now() + make_interval(secs => $6)
     WHERE idempotency_key = $1 AND request_digest = $7 AND described_audio IS NOT NULL
       AND NOT described_audio ? 'is_replaced' AND job_id IS NULL`,
    values: [...bindingValues(request), describedDigest],
  })
}
