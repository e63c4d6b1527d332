import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { CurrentBinding, KeyBinding, KeyBindingRequest } from '#shared/jobs/admission-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Sql } from '../pool.ts'

interface BoundRow {
  quoted_maximum: string
  catalog_version: string
  terms: JsonValue
  expires_at: Date
}

/**
 * Binds a key to a request until its challenge expires. A live challenge of the same request keeps its price and expiry
 * until three quarters of its lifetime are over; then a new one replaces it, so that no price is kept forever.
 */
export async function bindKey(sql: Sql, request: KeyBindingRequest): Promise<KeyBinding> {
  const { rows } = await sql.query<BoundRow>({
    name: 'bind_key',
    text: `INSERT INTO idempotency_keys AS bound
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, expires_at)
     VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))
     ON CONFLICT (idempotency_key) DO UPDATE SET
       request_digest = EXCLUDED.request_digest,
       quoted_maximum = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.quoted_maximum ELSE EXCLUDED.quoted_maximum END,
       catalog_version = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.catalog_version ELSE EXCLUDED.catalog_version END,
       terms = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.terms ELSE EXCLUDED.terms END,
       expires_at = CASE WHEN bound.expires_at > now() + make_interval(secs => $6 / 4.0) THEN bound.expires_at ELSE EXCLUDED.expires_at END
     WHERE bound.request_digest = EXCLUDED.request_digest OR (bound.job_id IS NULL AND bound.expires_at <= now())
     RETURNING quoted_maximum, catalog_version, terms, expires_at`,
    values: [
      request.idempotencyKey,
      request.requestDigest,
      request.quote.quotedMaximum.toString(),
      request.quote.catalogVersion,
      JSON.stringify(request.quote.terms),
      request.lifetimeSeconds,
    ],
  })
  const [row] = rows
  return row ? { outcome: 'bound', quote: quoteFromRow(row), expiresAt: row.expires_at } : { outcome: 'other_request' }
}

/** Returns a key's current binding; `null` for an expired challenge without a job. */
export async function findBinding(sql: Sql, idempotencyKey: string): Promise<CurrentBinding | null> {
  const { rows } = await sql.query<BoundRow & { request_digest: string; is_live: boolean }>({
    name: 'find_binding',
    text: `SELECT request_digest, quoted_maximum, catalog_version, terms, expires_at, expires_at > now() AS is_live
     FROM idempotency_keys WHERE idempotency_key = $1 AND (job_id IS NOT NULL OR expires_at > now())`,
    values: [idempotencyKey],
  })
  const [row] = rows
  return row
    ? { requestDigest: row.request_digest, quote: quoteFromRow(row), expiresAt: row.expires_at, isLive: row.is_live }
    : null
}

function quoteFromRow({ quoted_maximum, catalog_version, terms }: BoundRow): Quote<JsonValue> {
  return { quotedMaximum: atomicAmount(BigInt(quoted_maximum)), catalogVersion: catalog_version, terms }
}
