import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '#shared/runtime/logger.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import type { ProcessIdentity, ProcessReport, SeenProcess } from './process-report.ts'

/** How often a process says what it is doing. */
const REPORT_MS = 2000

/** A stop is not delayed by a database that does not answer: the row then ages until it counts as gone. */
const FORGET_MS = 2000

export interface ReportingOptions {
  readonly kind: SeenProcess['kind']
  readonly store: {
    /** Replaces the report of a process. */
    writeReport(process: ProcessIdentity, report: ProcessReport): Promise<void>
    /** Removes a process that ends, so that nobody waits for it. */
    forgetProcess(instance: string): Promise<void>
  }
  /** Describes the process at the time of each report. */
  readonly describe: () => ProcessReport
  readonly logger: Pick<Logger, 'warn' | 'info'>
  readonly now: () => Date
  readonly intervalMs?: number
}

export interface ProcessReporting {
  /** Names this process among the others. */
  readonly instance: string
  /** Ends the reports and removes this process from those that run. */
  stop(): Promise<void>
}

/** Reports this process until it is stopped. A report that cannot be written is left out; the next one follows. */
export function startReporting({
  kind,
  store,
  describe,
  logger,
  now,
  intervalMs = REPORT_MS,
}: ReportingOptions): ProcessReporting {
  const identity: ProcessIdentity = { instance: newInstance(), kind, startedAt: now() }
  const stopping = new AbortController()
  let isFailing = false
  const report = async () => {
    try {
      await store.writeReport(identity, describe())
      if (isFailing) logger.info('the process is reported again')
      isFailing = false
    } catch (error) {
      // Once for each outage: the next report follows in two seconds.
      if (!isFailing) logger.warn('the process could not be reported', { error })
      isFailing = true
    }
  }
  const reporting = (async () => {
    do await report()
    while (await elapses(intervalMs, stopping.signal))
  })()
  return {
    instance: identity.instance,
    stop: async () => {
      stopping.abort()
      const forgotten = reporting
        .then(() => store.forgetProcess(identity.instance))
        .catch((error: unknown) => logger.warn('the process was not removed from the reports', { error }))
      await withDeadline(FORGET_MS, forgotten, () => undefined)
    },
  }
}

/** The host alone is not enough: containers may share a name, and process ids start again with each of them. */
function newInstance(): string {
  return `${hostname()}-${process.pid}-${randomBytes(2).toString('hex')}`
}

async function elapses(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(milliseconds, undefined, { signal })
    return true
  } catch {
    return false
  }
}
