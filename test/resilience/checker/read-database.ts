import pg from 'pg'
import type {
  AttemptEntry,
  AuthorizationEntry,
  DatabaseLedger,
  JobEntry,
  MediaEntry,
  ReceiptEntry,
  SettlementEntry,
  StagedUploadEntry,
} from './ledgers.ts'

/** Reads the ledger in one snapshot. */
export async function readDatabase(databaseUrl: string): Promise<DatabaseLedger> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const read = async <Entry>(statement: string): Promise<Entry[]> =>
      (await client.query<{ entry: Entry }>(statement)).rows.map(({ entry }) => entry)
    // Sequential: a connection executes one statement at a time.
    const jobs = (await read<AsJson<JobEntry>>(JOBS)).map((job) => ({
      ...job,
      quotedMaximum: BigInt(job.quotedMaximum),
      chargeAmount: job.chargeAmount === null ? null : BigInt(job.chargeAmount),
    }))
    const authorizations = (await read<AsJson<AuthorizationEntry>>(AUTHORIZATIONS)).map((entry) => ({
      ...entry,
      authorizedMaximum: BigInt(entry.authorizedMaximum),
    }))
    const attempts = await read<AttemptEntry>(ATTEMPTS)
    const settlements = (await read<AsJson<SettlementEntry>>(SETTLEMENTS)).map((entry) => ({
      ...entry,
      chargeAmount: BigInt(entry.chargeAmount),
      gasUsed: entry.gasUsed === null ? null : BigInt(entry.gasUsed),
    }))
    const receipts = await read<ReceiptEntry>(RECEIPTS)
    const media = await read<MediaEntry>(MEDIA)
    const stagedUploads = await read<StagedUploadEntry>(STAGED_UPLOADS)
    const accounts = await read<{ address: string; next: number }>(ACCOUNTS)
    const nextAccountNonces = Object.fromEntries(accounts.map(({ address, next }) => [address, next]))
    return { jobs, authorizations, attempts, settlements, receipts, media, stagedUploads, nextAccountNonces }
  } finally {
    await client.end()
  }
}

/** Amounts as text: a JSON number could not represent them. */
type AsJson<Entry> = {
  readonly [Key in keyof Entry]: Entry[Key] extends bigint
    ? string
    : Entry[Key] extends bigint | null
      ? string | null
      : Entry[Key]
}

const JOBS = `SELECT json_build_object(
    'id', id, 'idempotencyKey', coalesce(idempotency_key, 'released by ' || id), 'state', state, 'payer', payer,
    'authorizationId', authorization_id,
    'stagedUploadId', staged_upload_id, 'quotedMaximum', quoted_maximum::text, 'chargeAmount', charge_amount::text,
    'resultBody', result_body, 'resultDigest', result_digest, 'receiptId', receipt_id, 'failureCode', failure_code,
    'failureReason', failure_reason
  ) AS entry FROM jobs ORDER BY accepted_at`

const AUTHORIZATIONS = `SELECT json_build_object(
    'id', id, 'jobId', job_id, 'payer', payer, 'nonce', nonce::text, 'permitNonce', permit_nonce::text,
    'authorizedMaximum', authorized_maximum::text
  ) AS entry FROM authorizations ORDER BY claimed_at`

/** Milliseconds rounded down, as in the upstream's log. */
const ATTEMPTS = `SELECT json_build_object(
    'id', id, 'jobId', job_id, 'authorizationId', authorization_id, 'state', state,
    'startedAt', floor(extract(epoch FROM started_at) * 1000)
  ) AS entry FROM upstream_attempts ORDER BY started_at`

const SETTLEMENTS = `SELECT json_build_object(
    'id', settlements.id, 'jobId', settlements.job_id, 'authorizationId', authorization_id,
    'payer', authorizations.payer, 'nonce', authorizations.nonce::text, 'facilitator', lower(facilitator),
    'accountNonce', account_nonce::bigint, 'batchId', batch_id,
    'batchesLeft', coalesce(cardinality(earlier_batches), 0), 'chargeAmount', charge_amount::text, 'state', state,
    'gasUsed', gas_used::text,
    'transactionHash', lower(transaction_hash), 'finishedAt', floor(extract(epoch FROM finished_at) * 1000),
    'hashes', ARRAY(SELECT lower(hash) FROM settlement_transactions WHERE settlement_id = settlements.id
      OR batch_id = settlements.batch_id OR batch_id = ANY(earlier_batches))
  ) AS entry FROM settlements JOIN authorizations ON authorizations.id = authorization_id ORDER BY signed_at`

const RECEIPTS = `SELECT json_build_object(
    'id', id, 'jobId', job_id, 'chargeAtomic', body->>'charge_atomic', 'transaction', lower(body->>'transaction'),
    'resultDigest', body->>'result_digest'
  ) AS entry FROM receipts`

const MEDIA = `SELECT json_build_object('jobId', job_id, 'objectKey', object_key, 'sha256', sha256) AS entry
  FROM media WHERE object_deleted_at IS NULL AND expires_at > now()`

const STAGED_UPLOADS = `SELECT json_build_object(
    'id', id, 'jobId', job_id, 'objectKey', object_key, 'hasDataKey', data_key IS NOT NULL,
    'isPastExpiry', expires_at <= now() - interval '10 seconds',
    'erasedForMs', floor(extract(epoch FROM now() - erased_at) * 1000)
  ) AS entry FROM staged_uploads`

const ACCOUNTS = `SELECT json_build_object(
    'address', lower(facilitator), 'next', next_account_nonce::bigint
  ) AS entry FROM settlement_accounts`
