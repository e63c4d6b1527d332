import type { DecodeVerdict, InspectionStore } from '#shared/jobs/inspection-store.ts'
import type { Sql } from '../pool.ts'

/** Creates the store of decoders' verdicts over one pool. */
export function createInspectionStore(sql: Sql): InspectionStore {
  return {
    findVerdict: async ({ sha256, inspector, durationMs }) => {
      const { rows } = await sql.query<DecodeVerdict>({
        name: 'find_inspection',
        text: `SELECT refusal FROM audio_inspections
         WHERE audio_sha256 = decode($1, 'hex') AND inspector = decode($2, 'hex') AND duration_ms = $3
           AND expires_at > now()`,
        values: [sha256, inspector, durationMs],
      })
      return rows[0] ?? null
    },
    recordVerdict: async ({ sha256, inspector, durationMs }, { refusal }, lifetimeSeconds) => {
      await sql.query({
        name: 'record_inspection',
        // The first verdict stays while it is valid, so that two processes that decode at the same time agree afterwards.
        text: `INSERT INTO audio_inspections AS known (audio_sha256, inspector, duration_ms, refusal, expires_at)
         VALUES (decode($1, 'hex'), decode($2, 'hex'), $3, $4, now() + make_interval(secs => $5))
         ON CONFLICT (audio_sha256, inspector) DO UPDATE
         SET duration_ms = EXCLUDED.duration_ms, refusal = EXCLUDED.refusal, expires_at = EXCLUDED.expires_at
         WHERE known.expires_at <= now()`,
        values: [sha256, inspector, durationMs, refusal, lifetimeSeconds],
      })
    },
  }
}
