import type { ProcessReport, SeenProcess } from '#shared/operators/process-report.ts'
import type { Sql } from '../pool.ts'

interface Row {
  readonly instance: string
  readonly kind: SeenProcess['kind']
  readonly started_at: Date
  readonly seen_at: Date
  readonly report: ProcessReport
}

/** Returns the processes that were seen within the last day, by kind and start. */
export async function readProcesses(sql: Sql): Promise<readonly SeenProcess[]> {
  const { rows } = await sql.query<Row>({
    name: 'read_processes',
    text: `SELECT instance, kind, started_at, seen_at, report FROM process_reports
      WHERE seen_at >= now() - interval '1 day'
      ORDER BY seen_at < now() - interval '10 seconds', kind, started_at, instance LIMIT 1000`,
    values: [],
  })
  return rows.map(({ instance, kind, started_at: startedAt, seen_at: seenAt, report }) => ({
    instance,
    kind,
    startedAt,
    seenAt,
    report,
  }))
}
