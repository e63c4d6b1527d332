import type { ProcessIdentity, ProcessReport } from '#shared/operators/process-report.ts'
import type { Sql } from '../pool.ts'

/** Writes what a process says of itself, and removes the reports of processes that have been gone for a day. */
export async function writeReport(sql: Sql, identity: ProcessIdentity, report: ProcessReport): Promise<void> {
  const { instance, kind, startedAt } = identity
  await sql.query({
    name: 'write_process_report',
    text: `WITH gone AS (DELETE FROM process_reports WHERE seen_at < now() - interval '1 day' AND instance <> $1)
      INSERT INTO process_reports (instance, kind, started_at, seen_at, report) VALUES ($1, $2, $3, now(), $4)
      ON CONFLICT (instance) DO UPDATE SET seen_at = now(), report = EXCLUDED.report`,
    values: [instance, kind, startedAt, JSON.stringify(report)],
  })
}
