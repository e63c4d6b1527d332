import type { JobState } from '#shared/jobs/job.ts'
import { jobInState } from './job-in-state.ts'
import { newTestJob } from './new-test-job.ts'
import type { TestLedger } from './test-ledger.ts'

/** States of which a console shows everything that it shows of a job. */
const STATES: readonly JobState[] = ['review', 'completed', 'failed', 'settlement_failed', 'generating', 'generated']

/** Columns whose text a payer, a vendor or an operator decides, by the condition that finds a job's rows. */
const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  'jobs WHERE id = $2': ['public_model', 'failure_reason', 'request_id', 'traceparent'],
  'idempotency_keys WHERE job_id = $2': ['catalog_version'],
  'upstream_attempts WHERE job_id = $2': ['deployment', 'reason'],
  'settlements WHERE job_id = $2': ['failure_reason'],
}

/**
 * Accepts a job for each text and writes the text wherever a stranger may have written it: the key, the model, reasons of
 * failures and ids. Returns the jobs' ids, in order.
 */
export async function plantTexts(ledger: TestLedger, texts: readonly string[]): Promise<string[]> {
  const ids: string[] = []
  for (const [index, text] of texts.map(storable).entries()) {
    const idempotencyKey = `${index} ${text}`.slice(0, 255)
    const { id } = await jobInState(ledger, STATES[index % STATES.length] ?? 'review', newTestJob({ idempotencyKey }))
    for (const [rows, columns] of Object.entries(COLUMNS)) {
      const [table, condition] = rows.split(' WHERE ')
      const changes = columns.map((column) => `${column} = $1`).join(', ')
      await ledger.sql(`UPDATE ${table} SET ${changes} WHERE ${condition}`, [text, id])
    }
    await ledger.sql(
      "UPDATE jobs SET effective_request = jsonb_set(effective_request::jsonb, '{prompt}', to_jsonb($1::text))::text WHERE id = $2",
      [text, id],
    )
    ids.push(id)
  }
  return ids
}

/** Returns what PostgreSQL can store of a text. */
function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}
