import { batch } from '../batch.ts'
import type { Pool, Sql } from '../pool.ts'
import { bindKey, claimColumn, type KeyBinding, type KeyBindingRequest } from './bind-key.ts'

/** Keys bound by one statement at most: a few milliseconds of work. */
const MAXIMUM_BATCH = 250

interface FreeKeyRow {
  idempotency_key: string
  expires_at: Date
}

/**
 * Creates a `bindKey` that batches. Nearly every unpaid request carries a new key: those that arrive while a statement
 * runs are bound together by the next one, with one commit; a single one does not wait. A key that is already taken is
 * bound separately afterwards, so that no caller waits for the lock on another caller's key.
 */
export function createKeyBinder(pool: Pool): (request: KeyBindingRequest) => Promise<KeyBinding> {
  const bindFreeKey = batch((requests: readonly KeyBindingRequest[]) => bindFreeKeys(pool, requests), MAXIMUM_BATCH)
  return async (request) => {
    const expiresAt = await bindFreeKey(request)
    return expiresAt ? { outcome: 'bound', quote: request.quote, expiresAt } : await bindKey(pool, request)
  }
}

/**
 * Binds free keys, each to the first request with it. Returns when each challenge expires, `null` for a key that is not
 * free.
 */
async function bindFreeKeys(sql: Sql, requests: readonly KeyBindingRequest[]): Promise<(Date | null)[]> {
  const firstOf = new Map(requests.toReversed().map((request) => [request.idempotencyKey, request]))
  // Always in the same order, so that two processes cannot deadlock. One JSON text costs less than seven arrays.
  const { rows } = await sql.query<FreeKeyRow>({
    name: 'bind_free_keys',
    text: `INSERT INTO idempotency_keys
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, claimed_audio, expires_at)
     SELECT idempotency_key, request_digest, quoted_maximum, catalog_version, terms, claimed_audio,
       now() + make_interval(secs => lifetime_seconds)
     FROM json_to_recordset($1) AS asked (idempotency_key text, request_digest text, quoted_maximum numeric,
       catalog_version text, terms jsonb, claimed_audio jsonb, lifetime_seconds double precision)
     ORDER BY idempotency_key COLLATE "C"
     ON CONFLICT (idempotency_key) DO NOTHING
     RETURNING idempotency_key, expires_at`,
    values: [JSON.stringify([...firstOf.values()].map(asRow))],
  })
  const expiryOf = new Map(rows.map((row) => [row.idempotency_key, row.expires_at]))
  return requests.map((request) =>
    firstOf.get(request.idempotencyKey) === request ? (expiryOf.get(request.idempotencyKey) ?? null) : null,
  )
}

function asRow({ idempotencyKey, requestDigest, quote, lifetimeSeconds, claimedAudio }: KeyBindingRequest) {
  return {
    idempotency_key: idempotencyKey,
    request_digest: requestDigest,
    quoted_maximum: quote.quotedMaximum.toString(),
    catalog_version: quote.catalogVersion,
    terms: quote.terms,
    claimed_audio: claimColumn(claimedAudio),
    lifetime_seconds: lifetimeSeconds,
  }
}
