import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { KeyBinding, KeyBindingRequest } from '#shared/jobs/job-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Sql } from '../pool.ts'

interface BoundRow {
  quoted_maximum: string
  catalog_version: string
  terms: JsonValue
  expires_at: Date
}

/**
 * Binds a key to a request until its challenge expires. A key that is bound already keeps the quote it was challenged
 * with while that challenge lives, so that a signed retry finds its price again across a catalog change.
 */
export async function bindKey(sql: Sql, request: KeyBindingRequest): Promise<KeyBinding> {
  const { rows } = await sql.query<BoundRow>(
    `INSERT INTO idempotency_keys AS bound
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, expires_at)
     VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))
     ON CONFLICT (idempotency_key) DO UPDATE SET
       request_digest = EXCLUDED.request_digest,
       quoted_maximum = CASE WHEN bound.expires_at > now() THEN bound.quoted_maximum ELSE EXCLUDED.quoted_maximum END,
       catalog_version = CASE WHEN bound.expires_at > now() THEN bound.catalog_version ELSE EXCLUDED.catalog_version END,
       terms = CASE WHEN bound.expires_at > now() THEN bound.terms ELSE EXCLUDED.terms END,
       expires_at = EXCLUDED.expires_at
     WHERE bound.request_digest = EXCLUDED.request_digest OR (bound.job_id IS NULL AND bound.expires_at <= now())
     RETURNING quoted_maximum, catalog_version, terms, expires_at`,
    [
      request.idempotencyKey,
      request.requestDigest,
      request.quote.quotedMaximum.toString(),
      request.quote.catalogVersion,
      JSON.stringify(request.quote.terms),
      request.lifetimeSeconds,
    ],
  )
  const [row] = rows
  if (!row) return { outcome: 'other_request' }
  return {
    outcome: 'bound',
    quote: {
      quotedMaximum: atomicAmount(BigInt(row.quoted_maximum)),
      catalogVersion: row.catalog_version,
      terms: row.terms,
    },
    expiresAt: row.expires_at,
  }
}
