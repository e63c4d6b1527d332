import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Sql } from '../pool.ts'

export type InspectionStore = ReturnType<typeof createInspectionStore>

/** Creates the store of verdicts that all API processes share. Nothing is lost when they are missing: the audio is decoded again. */
export function createInspectionStore(sql: Sql) {
  return bindTo(sql, { findVerdict, recordVerdict })
}

/** Returns the verdict of another process on the same bytes and duration, or `null` when there is none. */
async function findVerdict(sql: Sql, { sha256, inspector, durationMs }: DecodedAudio): Promise<DecodeVerdict | null> {
  const { rows } = await sql.query<DecodeVerdict>({
    name: 'find_inspection',
    text: `SELECT refusal FROM audio_inspections
     WHERE audio_sha256 = decode($1, 'hex') AND inspector = decode($2, 'hex') AND duration_ms = $3
       AND expires_at > now()`,
    values: [sha256, inspector, durationMs],
  })
  return rows[0] ?? null
}

/** Stores a verdict for this many seconds, unless there is a valid one. */
async function recordVerdict(
  sql: Sql,
  { sha256, inspector, durationMs }: DecodedAudio,
  { refusal }: DecodeVerdict,
  lifetimeSeconds: number,
): Promise<void> {
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
}

/** What identifies a decode: the bytes, and the decoder with the rules that its output is compared by. */
export interface DecodedAudio {
  readonly sha256: string
  /** SHA-256 in hex. */
  readonly inspector: string
  /** The duration that the frame walk found. Another process that found a different one decodes the audio itself. */
  readonly durationMs: number
}

/** What a decoder said of an upload. `refusal` is the public message, or `null` if it agreed with the frame walk. */
export interface DecodeVerdict {
  readonly refusal: string | null
}
