import type { PreparedStatement, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

/** What still depends on a key or an address. Addresses are lower case. */
export interface KeyUse {
  /** Unfinished jobs by the settlement key that their payment names. */
  readonly jobsByFacilitator: Readonly<Record<string, number>>
  /** Unfinished jobs by the recipient that their payment names. */
  readonly jobsByRecipient: Readonly<Record<string, number>>
  /** Transactions that are not final by the key that sent them: a reorganization may ask for them again. */
  readonly transactionsByFacilitator: Readonly<Record<string, number>>
  /** Stored results by the receipt secret whose token their callers have. */
  readonly resultsByReceiptSecret: Readonly<Record<string, number>>
}

/** Reads what would be lost or delayed without a key. */
export async function readKeyUse(sql: Sql): Promise<KeyUse> {
  return {
    jobsByFacilitator: await countJobsBy(sql, 'facilitator'),
    jobsByRecipient: await countJobsBy(sql, 'payTo'),
    transactionsByFacilitator: await countTransactions(sql),
    resultsByReceiptSecret: await countResults(sql),
  }
}

function countJobsBy(sql: Sql, member: 'facilitator' | 'payTo') {
  return readCounts(sql, {
    name: 'count_unfinished_jobs_by_party',
    text: `SELECT authorizations.signed ->> $1::text AS "of", count(*)::int AS count
     FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.state IN ('accepted', 'generating', 'generated', 'settling') GROUP BY 1`,
    values: [member],
  })
}

function countTransactions(sql: Sql) {
  return readCounts(sql, {
    name: 'count_open_transactions',
    text: `SELECT facilitator AS "of", count(*)::int AS count FROM (
       SELECT facilitator FROM settlements WHERE state = 'signed'
         OR state = 'unproven' AND NOT EXISTS (SELECT FROM resolutions WHERE resolutions.job_id = settlements.job_id)
       UNION ALL SELECT facilitator FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL
       UNION ALL SELECT batches.facilitator FROM settlements JOIN settlement_batches AS batches ON batches.id = ANY(earlier_batches)
         WHERE earlier_batches IS NOT NULL AND (state = 'signed' OR state = 'confirmed' AND finalized_at IS NULL)
) AS open
     WHERE facilitator IS NOT NULL GROUP BY 1`,
    values: [],
  })
}

function countResults(sql: Sql) {
  return readCounts(sql, {
    name: 'count_results_by_receipt_secret',
    text: `SELECT token_secret_id AS "of", count(*)::int AS count FROM jobs JOIN receipts ON receipts.id = jobs.receipt_id
     WHERE jobs.result_body IS NOT NULL AND jobs.finished_at IS NOT NULL GROUP BY 1`,
    values: [],
  })
}

async function readCounts(sql: Sql, statement: PreparedStatement): Promise<Readonly<Record<string, number>>> {
  const rows = await readRows<{ of: string; count: number }>(sql, statement)
  return Object.fromEntries(rows.map(({ of, count }) => [of, count]))
}
