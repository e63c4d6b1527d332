import type {
  AttemptRecord,
  AuthorizationRecord,
  MediaRecord,
  ReceiptRecord,
  ResolutionRecord,
  UnchargedRecord,
  UnknownSettlementRecord,
  UploadRecord,
} from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'

const SHOWN_UNKNOWN = 20

/** Never reads the signature. */
export async function readAuthorizations(sql: Sql, jobId: string): Promise<readonly AuthorizationRecord[]> {
  const { rows } = await sql.query<Omit<AuthorizationRecord, 'authorizedMaximum'> & { authorizedMaximum: string }>({
    name: 'read_console_authorizations',
    text: `SELECT id, network, signed ->> 'payTo' AS "payTo", authorized_maximum AS "authorizedMaximum", deadline,
       claimed_at AS "claimedAt", permit_nonce IS NOT NULL AS "hasPermit"
     FROM authorizations WHERE job_id = $1 ORDER BY claimed_at, id`,
    values: [jobId],
  })
  return rows.map((row) => ({ ...row, authorizedMaximum: BigInt(row.authorizedMaximum) }))
}

export async function readAttempts(sql: Sql, jobId: string): Promise<readonly AttemptRecord[]> {
  const { rows } = await sql.query<AttemptRecord>({
    name: 'read_console_attempts',
    text: `SELECT deployment, state, reason, started_at AS "startedAt", finished_at AS "finishedAt"
     FROM upstream_attempts WHERE job_id = $1 ORDER BY started_at, id`,
    values: [jobId],
  })
  return rows
}

export async function readReceipt(sql: Sql, jobId: string): Promise<ReceiptRecord | null> {
  const { rows } = await sql.query<Record<'id' | 'charge' | 'transaction' | 'settled_at' | 'issued_at', string>>({
    name: 'read_console_receipt',
    text: `SELECT id, body ->> 'charge_atomic' AS charge, body ->> 'transaction' AS transaction,
       body ->> 'settled_at' AS settled_at, body ->> 'issued_at' AS issued_at
     FROM receipts WHERE job_id = $1`,
    values: [jobId],
  })
  const [row] = rows
  if (!row) return null
  return {
    id: row.id,
    charge: BigInt(row.charge),
    transaction: row.transaction,
    settledAt: new Date(row.settled_at),
    issuedAt: new Date(row.issued_at),
  }
}

/** Never reads the token's digest or the object's key. */
export async function readMedia(sql: Sql, jobId: string): Promise<readonly MediaRecord[]> {
  const { rows } = await sql.query<Omit<MediaRecord, 'bytes'> & { bytes: string }>({
    name: 'read_console_media',
    text: `SELECT content_type AS "contentType", bytes, expires_at AS "expiresAt", object_deleted_at AS "deletedAt"
     FROM media WHERE job_id = $1 ORDER BY expires_at, id`,
    values: [jobId],
  })
  return rows.map((row) => ({ ...row, bytes: BigInt(row.bytes) }))
}

export async function readUpload(sql: Sql, uploadId: string | null): Promise<UploadRecord | null> {
  if (uploadId === null) return null
  const { rows } = await sql.query<UploadRecord>({
    name: 'read_console_upload',
    text: `SELECT expires_at AS "expiresAt", erased_at AS "erasedAt", object_deleted_at AS "deletedAt"
     FROM staged_uploads WHERE id = $1`,
    values: [uploadId],
  })
  return rows[0] ?? null
}

export async function readUncharged(sql: Sql, jobId: string): Promise<readonly UnchargedRecord[]> {
  const { rows } = await sql.query<Omit<UnchargedRecord, 'amount'> & { amount: string }>({
    name: 'read_console_uncharged',
    text: `SELECT kind, amount, deployment, created_at AS "createdAt" FROM uncharged_work
     WHERE job_id = $1 ORDER BY created_at, id`,
    values: [jobId],
  })
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }))
}

/** Returns the newest settlements of a job or a payer that the ledger does not have. */
export async function readUnknownSettlements(
  sql: Sql,
  of: 'job_id' | 'payer',
  id: string,
): Promise<readonly UnknownSettlementRecord[]> {
  const { rows } = await sql.query<
    Omit<UnknownSettlementRecord, 'amount' | 'nonce'> & { amount: string; nonce: string }
  >({
    name: `read_console_unknown_settlements_by_${of}`,
    text: `SELECT network, payer, nonce, amount, transaction_hash AS transaction, found_at AS "foundAt",
       resolved_at AS "resolvedAt"
     FROM unknown_settlements WHERE ${of} = $1 ORDER BY found_at DESC, nonce LIMIT ${SHOWN_UNKNOWN}`,
    values: [id],
  })
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount), nonce: BigInt(row.nonce) }))
}

const COLUMNS = `id, item, job_id AS "jobId", outcome, amount, reason, operator, resolved_at AS "resolvedAt",
  refund_transaction AS "refundTransaction"`
const SHOWN_OF_PAYER = 20

type Row = Omit<ResolutionRecord, 'amount'> & { readonly amount: string }

/** Returns how the items of a job were ended, oldest first. */
export async function readJobResolutions(sql: Sql, jobId: string): Promise<readonly ResolutionRecord[]> {
  const { rows } = await sql.query<Row>({
    name: 'read_console_job_resolutions',
    text: `SELECT ${COLUMNS} FROM resolutions WHERE job_id = $1 ORDER BY resolved_at, id`,
    values: [jobId],
  })
  return rows.map(resolutionOf)
}

/** Returns how the newest items of a payer were ended, newest first. */
export async function readPayerResolutions(sql: Sql, payer: string): Promise<readonly ResolutionRecord[]> {
  const { rows } = await sql.query<Row>({
    name: 'read_console_payer_resolutions',
    text: `SELECT ${COLUMNS} FROM resolutions WHERE payer = $1 ORDER BY resolved_at DESC LIMIT ${SHOWN_OF_PAYER}`,
    values: [payer],
  })
  return rows.map(resolutionOf)
}

function resolutionOf(row: Row): ResolutionRecord {
  return { ...row, amount: BigInt(row.amount) }
}
