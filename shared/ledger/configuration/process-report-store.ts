import type { ProcessIdentity, ProcessReport, SeenProcess } from '#shared/operators/process-report.ts'
import type { WorkerKeys } from '#shared/operators/validate-configuration.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

export type ProcessReportStore = ReturnType<typeof createProcessReportStore>

/** Creates the store in which processes say what they are doing, and read what the others do. */
export function createProcessReportStore(pool: Pool) {
  return bindTo(pool, { writeReport, forgetProcess, readProcesses })
}

/** Writes what a process says of itself, and removes the reports of processes that have been gone for a day. */
async function writeReport(sql: Sql, identity: ProcessIdentity, report: ProcessReport): Promise<void> {
  const { instance, kind, startedAt } = identity
  await sql.query({
    name: 'write_process_report',
    text: `WITH gone AS (DELETE FROM process_reports WHERE seen_at < now() - interval '1 day' AND instance <> $1)
      INSERT INTO process_reports (instance, kind, started_at, seen_at, report) VALUES ($1, $2, $3, now(), $4)
      ON CONFLICT (instance) DO UPDATE SET seen_at = now(), report = EXCLUDED.report`,
    values: [instance, kind, startedAt, JSON.stringify(report)],
  })
}

/** Removes the report of a process that ends. */
async function forgetProcess(sql: Sql, instance: string): Promise<void> {
  await sql.query({
    name: 'forget_process',
    text: 'DELETE FROM process_reports WHERE instance = $1',
    values: [instance],
  })
}

/** By the database's clock, of which `seen_at` is: that of another host may be minutes off. */
const IS_RUNNING = `(seen_at >= now() - interval '10 seconds')`

/** Returns the processes that were seen within the last day, by kind and start. */
export async function readProcesses(sql: Sql): Promise<readonly SeenProcess[]> {
  return await readRows<SeenProcess>(sql, {
    name: 'read_processes',
    text: `SELECT instance, kind, started_at AS "startedAt", seen_at AS "seenAt", ${IS_RUNNING} AS "isRunning", report
      FROM process_reports WHERE seen_at >= now() - interval '1 day'
      ORDER BY NOT ${IS_RUNNING}, kind, started_at, instance LIMIT 1000`,
    values: [],
  })
}

/** Returns where the running workers that call providers send keys. */
export async function readWorkerKeys(sql: Sql): Promise<readonly WorkerKeys[]> {
  return await readRows<WorkerKeys>(sql, {
    name: 'read_worker_keys',
    text: `SELECT instance, report -> 'providerKeys' AS "providerKeys" FROM process_reports
      WHERE kind = 'worker' AND ${IS_RUNNING} AND report ? 'providerKeys'
      ORDER BY instance LIMIT 1000`,
    values: [],
  })
}
