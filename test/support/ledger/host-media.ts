import { randomBytes } from 'node:crypto'
import type { TestLedger } from './test-ledger.ts'

/** Gives the result of a job hosted media that expire in `minutes`. */
export async function hostMedia(ledger: TestLedger, jobId: string, minutes: number): Promise<void> {
  await ledger.sql(
    `INSERT INTO media (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at)
     VALUES (gen_random_uuid(), $1, $2, 'media/' || $2, 'audio/mpeg', $2, 10, now() + make_interval(mins => $3))`,
    [jobId, randomBytes(32).toString('hex'), minutes],
  )
}
