import type { ArchiveRun, ArchiveStore, OtherProcess } from '#shared/archive/archive-store.ts'
import type { Pool, Sql } from '../pool.ts'
import { eraseDocuments } from './erase-documents.ts'
import { findArchivedCall } from './find-archived-call.ts'
import { findCalls } from './find-calls.ts'
import { findMonths } from './find-months.ts'
import { listObjects } from './list-objects.ts'
import { firstDayOf } from './month.ts'
import { readDocuments } from './read-documents.ts'
import { readTotals } from './read-totals.ts'

/** An arbitrary constant: two runs beside each other would store the same documents twice. */
const ADVISORY_LOCK = 8453_2027
/** A process reports every two seconds. */
const RUNS_WITHIN_SECONDS = 60

/** Creates the archive's store over a pool of at least two connections without a pooler that shares sessions. */
export function createArchiveStore(pool: Pool): ArchiveStore {
  return {
    findOtherProcesses: (version) => findOtherProcesses(pool, version),
    findMonths: (before) => findMonths(pool, before),
    readTotals: (month) => readTotals(pool, month),
    findCall: (id) => findArchivedCall(pool, id),
    listObjects: () => listObjects(pool),
    begin: () => begin(pool),
  }
}

/** The lock belongs to the session of the run, which also has the cursor: it ends when the program does, however it ends. */
async function begin(pool: Pool): Promise<ArchiveRun | null> {
  const session = await pool.connect()
  const end = async () => session.release(true)
  try {
    const { rows } = await session.query<{ is_locked: boolean }>(
      `SELECT pg_try_advisory_lock(${ADVISORY_LOCK}) AS is_locked`,
    )
    if (rows[0]?.is_locked !== true) {
      await end()
      return null
    }
  } catch (error) {
    await end()
    throw error
  }
  return {
    findCalls: (month) => findCalls(session, month),
    readDocuments: (jobIds) => readDocuments(pool, jobIds),
    erase: (...erasure) => eraseDocuments(pool, ...erasure),
    finishMonth: (month, remaining) => finishMonth(pool, month, remaining),
    [Symbol.asyncDispose]: end,
  }
}

async function finishMonth(sql: Sql, month: string, remaining: number): Promise<void> {
  await sql.query({
    name: 'finish_archive_month',
    text: `INSERT INTO archive_months (month, remaining) VALUES ($1, $2)
     ON CONFLICT (month) DO UPDATE SET remaining = EXCLUDED.remaining, archived_at = now()`,
    values: [firstDayOf(month), remaining],
  })
}

async function findOtherProcesses(sql: Sql, version: string): Promise<readonly OtherProcess[]> {
  const { rows } = await sql.query<OtherProcess>({
    name: 'find_processes_of_other_versions',
    text: `SELECT instance, kind, report ->> 'version' AS version FROM process_reports
     WHERE seen_at > now() - make_interval(secs => $1) AND report ->> 'version' IS DISTINCT FROM $2
     ORDER BY kind, instance`,
    values: [RUNS_WITHIN_SECONDS, version],
  })
  return rows
}
