import type { ProcessReportStore } from '#shared/operators/process-report.ts'
import type { Pool } from '../pool.ts'
import { forgetProcess } from './forget-process.ts'
import { readProcesses } from './read-processes.ts'
import { writeReport } from './write-report.ts'

/** Creates the store of the processes' reports. */
export function createProcessReportStore(pool: Pool): ProcessReportStore {
  return {
    writeReport: (identity, report) => writeReport(pool, identity, report),
    forgetProcess: (instance) => forgetProcess(pool, instance),
    readProcesses: () => readProcesses(pool),
  }
}
