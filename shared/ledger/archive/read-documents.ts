import type { CallDocuments, TransactionDocument } from '#shared/archive/archived-line.ts'
import { listed } from '../listed.ts'
import type { Sql } from '../pool.ts'
import { SETTLEMENTS_OF_SIGNED, SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'
import { IS_OVER } from './is-over.ts'

/** The documents of some calls that are over, and of the transactions that no other call needs. */
export interface Documents {
  readonly calls: readonly CallDocuments[]
  readonly transactions: readonly TransactionDocument[]
}

interface CallRow extends Omit<CallDocuments, 'finishedAt'> {
  readonly finishedAt: Date
}

/** Reads the documents of those calls that are over, in the order of their ids in the list. */
export async function readDocuments(sql: Sql, jobIds: readonly string[]): Promise<Documents> {
  const { rows: calls } = await sql.query<CallRow>({
    name: 'read_documents_to_archive',
    text: `SELECT jobs.id AS "jobId", receipts.id AS "receiptId", jobs.payer, jobs.finished_at AS "finishedAt",
       receipts.body::text AS receipt, jobs.terms::text AS terms, keys.terms::text AS "keyTerms",
       jobs.payment_response::text AS "paymentResponse",
       (SELECT jsonb_agg(jsonb_build_object('id', payment.id, 'signed', payment.signed)
          ORDER BY payment.claimed_at, payment.id)::text
        FROM authorizations AS payment WHERE payment.job_id = jobs.id) AS authorizations
     FROM ROWS FROM (${listed('uuid')}) WITH ORDINALITY AS asked (id, ordinal) JOIN jobs USING (id)
     JOIN receipts ON receipts.id = jobs.receipt_id AND receipts.archive_object IS NULL
     JOIN idempotency_keys AS keys ON keys.idempotency_key = jobs.idempotency_key
     WHERE ${IS_OVER} ORDER BY ordinal`,
    values: [jobIds],
  })
  return {
    calls,
    transactions: await readTransactions(
      sql,
      calls.map(({ jobId }) => jobId),
    ),
  }
}

/**
 * Reads the transactions that only these calls, and archived ones, need: that of a batch is archived with the last of its
 * calls. Those of remote facilitators have no document.
 */
async function readTransactions(sql: Sql, jobIds: readonly string[]): Promise<readonly TransactionDocument[]> {
  const { rows } = await sql.query<TransactionDocument>({
    name: 'read_transactions_to_archive',
    text: `WITH of_calls AS (
       SELECT DISTINCT signed.hash FROM settlements, LATERAL ${SIGNED_FOR_SETTLEMENT}
       WHERE settlements.job_id = ANY($1::uuid[]) AND signed.settled_by = 'own_key')
     SELECT hash, network, facilitator AS sender, account_nonce AS "accountNonce", settlement_id AS "settlementId",
       batch_id AS "batchId", raw_transaction AS raw
     FROM of_calls JOIN settlement_transactions AS signed USING (hash)
     WHERE signed.archive_object IS NULL AND NOT EXISTS (
       SELECT FROM ${SETTLEMENTS_OF_SIGNED} WHERE settlements.job_id <> ALL($1::uuid[]) AND NOT EXISTS (
         SELECT FROM receipts WHERE receipts.job_id = settlements.job_id AND receipts.archive_object IS NOT NULL))
     ORDER BY network, facilitator, account_nonce, hash`,
    values: [jobIds],
  })
  return rows
}
