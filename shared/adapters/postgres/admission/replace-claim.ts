import type { KeyBindingRequest } from '#shared/jobs/admission-store.ts'
import type { Sql } from '../pool.ts'
import { bindingValues } from './bind-key.ts'

/**
 * Binds a key that a claim holds to the request with the recording itself, at its own price and with a new challenge. One
 * guarded statement: of several recordings under one key only the first one replaces the claim, and a payment that is
 * accepted meanwhile, under the same lock, either finds the claim unchanged or is refused. The claim stays with the key, so
 * that the same payment for it is answered in the same way when the first answer was lost.
 */
export async function replaceClaim(sql: Sql, request: KeyBindingRequest, claimedDigest: string): Promise<void> {
  await sql.query({
    name: 'replace_claim',
    text: `UPDATE idempotency_keys SET request_digest = $2, quoted_maximum = $3, catalog_version = $4, terms = $5,
       claimed_audio = claimed_audio || '{"is_replaced": true}', expires_at = now() + make_interval(secs => $6)
     WHERE idempotency_key = $1 AND request_digest = $7 AND claimed_audio IS NOT NULL
       AND NOT claimed_audio ? 'is_replaced' AND job_id IS NULL`,
    values: [...bindingValues(request), claimedDigest],
  })
}
