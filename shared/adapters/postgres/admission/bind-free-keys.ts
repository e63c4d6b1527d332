import type { KeyBinding, KeyBindingRequest } from '#shared/jobs/job-store.ts'
import { batch } from '../batch.ts'
import type { Sql } from '../pool.ts'
import { bindKey } from './bind-key.ts'

/** What one statement binds at most: milliseconds of work, which nobody else in it notices. */
const MAXIMUM_BATCH = 250

interface FreeKeyRow {
  idempotency_key: string
  expires_at: Date
}

/**
 * `bindKey` for many callers at a time. Nearly every unpaid request brings a key that was never seen: those that come while a
 * statement is under way are bound by the next one together, with one commit; who comes alone waits for nobody. Whatever key
 * is taken already goes its own way afterwards, so that no caller waits for the lock on another one's key.
 */
export function createKeyBinder(sql: Sql): (request: KeyBindingRequest) => Promise<KeyBinding> {
  const bindFreeKey = batch((requests: readonly KeyBindingRequest[]) => bindFreeKeys(sql, requests), MAXIMUM_BATCH)
  return async (request) => {
    const expiresAt = await bindFreeKey(request)
    return expiresAt ? { outcome: 'bound', quote: request.quote, expiresAt } : await bindKey(sql, request)
  }
}

/** Binds the keys that nobody has, each to the first request that brings it; gives when their challenges expire. */
async function bindFreeKeys(sql: Sql, requests: readonly KeyBindingRequest[]): Promise<(Date | null)[]> {
  const firstOf = new Map(requests.toReversed().map((request) => [request.idempotencyKey, request]))
  // In one order everywhere, so that two processes cannot wait for each other's keys. One JSON text costs less than six arrays.
  const { rows } = await sql.query<FreeKeyRow>(
    `INSERT INTO idempotency_keys (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, expires_at)
     SELECT idempotency_key, request_digest, quoted_maximum, catalog_version, terms, now() + make_interval(secs => lifetime_seconds)
     FROM json_to_recordset($1) AS asked (idempotency_key text, request_digest text, quoted_maximum numeric,
       catalog_version text, terms jsonb, lifetime_seconds double precision)
     ORDER BY idempotency_key COLLATE "C"
     ON CONFLICT (idempotency_key) DO NOTHING
     RETURNING idempotency_key, expires_at`,
    [JSON.stringify([...firstOf.values()].map(asRow))],
  )
  const expiryOf = new Map(rows.map((row) => [row.idempotency_key, row.expires_at]))
  return requests.map((request) =>
    firstOf.get(request.idempotencyKey) === request ? (expiryOf.get(request.idempotencyKey) ?? null) : null,
  )
}

function asRow({ idempotencyKey, requestDigest, quote, lifetimeSeconds }: KeyBindingRequest) {
  return {
    idempotency_key: idempotencyKey,
    request_digest: requestDigest,
    quoted_maximum: quote.quotedMaximum.toString(),
    catalog_version: quote.catalogVersion,
    terms: quote.terms,
    lifetime_seconds: lifetimeSeconds,
  }
}
