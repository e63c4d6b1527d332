import type { ResolutionRecord } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'

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
