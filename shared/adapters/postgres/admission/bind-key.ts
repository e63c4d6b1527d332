import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AdmissionStore, CurrentBinding, KeyBinding, KeyBindingRequest } from '#shared/jobs/admission-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { shareStatement } from '../batch.ts'
import { listed } from '../listed.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { type ClaimColumn, claimColumn, claimFromColumn } from './claimed-audio.ts'

interface BoundRow {
  quoted_maximum: string
  catalog_version: string
  terms: JsonValue
  expires_at: Date
}

interface BindingRow {
  request_digest: string
  is_live: boolean
  claimed_audio: ClaimColumn | null
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
  const { rows } = await sql.query<{ job_id: string }>({
    name: 'lock_expired_key',
    text: `SELECT job_id FROM idempotency_keys
     WHERE idempotency_key = $1 AND job_id IS NOT NULL AND expires_at <= now() FOR UPDATE`,
    values: [idempotencyKey],
  })
  const [key] = rows
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
  const { rows } = await sql.query<BoundRow>({
    name: 'bind_key',
    text: `INSERT INTO idempotency_keys AS bound
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, claimed_audio, expires_at)
     VALUES ($1, $2, $3, $4, $5, $8, now() + make_interval(secs => $6))
     ON CONFLICT (idempotency_key) DO UPDATE SET
       request_digest = EXCLUDED.request_digest,
       claimed_audio = CASE
         WHEN bound.request_digest <> EXCLUDED.request_digest THEN EXCLUDED.claimed_audio
         WHEN bound.claimed_audio ? 'is_replaced' THEN bound.claimed_audio
         WHEN bound.claimed_audio IS NOT NULL THEN EXCLUDED.claimed_audio END,
       quoted_maximum = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.quoted_maximum ELSE EXCLUDED.quoted_maximum END,
       catalog_version = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.catalog_version ELSE EXCLUDED.catalog_version END,
       terms = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.terms ELSE EXCLUDED.terms END,
       expires_at = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.expires_at ELSE EXCLUDED.expires_at END
     WHERE (bound.request_digest = EXCLUDED.request_digest AND ($7 OR bound.job_id IS NULL OR bound.expires_at > now()))
       OR (bound.job_id IS NULL AND bound.expires_at <= now())
     RETURNING quoted_maximum, catalog_version, terms, expires_at`,
    values: [...bindingValues(request), isReleased, claimColumn(request.claimedAudio)],
  })
  const [row] = rows
  return row ? { outcome: 'bound', quote: quoteFromRow(row), expiresAt: row.expires_at } : { outcome: 'other_request' }
}

/** Returns what a binding is written with: the key, the digest, the quote in three columns, and the lifetime in seconds. */
export function bindingValues({ idempotencyKey, requestDigest, quote, lifetimeSeconds }: KeyBindingRequest) {
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

const BINDING = `request_digest, quoted_maximum, catalog_version, terms, expires_at, expires_at > now() AS is_live,
  CASE WHEN job_id IS NULL THEN claimed_audio END AS claimed_audio`
const IS_BOUND = "(expires_at > now() OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id AND state <> 'failed'))"

/**
 * Creates a function that returns a key's current binding; `null` for an expired challenge without a job, or with one
 * that ended uncharged. Requests that arrive at the same time share a statement.
 */
export function createBindingFinder(sql: Sql): AdmissionStore['findBinding'] {
  return shareStatement<string, CurrentBinding | null>({
    keyOf: (idempotencyKey) => idempotencyKey,
    run: (idempotencyKeys) => findBindings(sql, idempotencyKeys),
  })
}

async function findBindings(
  sql: Sql,
  idempotencyKeys: readonly string[],
): Promise<ReadonlyMap<string, CurrentBinding | null>> {
  const { rows } = await sql.query<BoundRow & BindingRow & { idempotency_key: string }>({
    name: 'find_bindings',
    text: `SELECT asked.idempotency_key, bound.request_digest, quoted_maximum, catalog_version, terms, expires_at, is_live, claimed_audio FROM ${listed('text')} AS asked (idempotency_key) CROSS JOIN LATERAL (
       SELECT ${BINDING} FROM idempotency_keys
       WHERE idempotency_keys.idempotency_key = asked.idempotency_key AND ${IS_BOUND} OFFSET 0) AS bound`,
    values: [idempotencyKeys],
  })
  const found = new Map(rows.map((row) => [row.idempotency_key, bindingFromRow(row)]))
  return new Map(idempotencyKeys.map((key) => [key, found.get(key) ?? null]))
}

function bindingFromRow(row: BoundRow & BindingRow): CurrentBinding {
  return {
    requestDigest: row.request_digest,
    quote: quoteFromRow(row),
    expiresAt: row.expires_at,
    isLive: row.is_live,
    claim: claimFromColumn(row.claimed_audio),
  }
}

function quoteFromRow({ quoted_maximum, catalog_version, terms }: BoundRow): Quote<JsonValue> {
  return { quotedMaximum: atomicAmount(BigInt(quoted_maximum)), catalogVersion: catalog_version, terms }
}
