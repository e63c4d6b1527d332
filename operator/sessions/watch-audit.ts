import { Gauge, type Registry } from 'prom-client'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { repeatUntilStopped } from './repeat.ts'

const INTERVAL_MS = 60_000

interface WatchDependencies {
  readonly actions: Pick<OperatorStore, 'readAuditHead'>
  readonly metrics: Registry
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

/**
 * Writes the end of the audit where nobody reaches it by the database: into the log, when it has changed, and its
 * position into a metric, which falls only when rows are gone.
 */
export function watchAudit({ actions, metrics, logger }: WatchDependencies): { stop(): Promise<void> } {
  const count = new Gauge({
    name: 'farebox_audit_actions',
    help: 'Actions in the audit, as this process last read them',
    registers: [metrics],
  })
  // A gauge without labels begins as 0: during an outage of the database that would be an audit without actions.
  count.remove()
  let written = ''
  return repeatUntilStopped(INTERVAL_MS, async () => {
    try {
      const { position, hash } = await actions.readAuditHead()
      count.set(Number(position))
      const auditHead = `${position}:${hash}`
      if (auditHead !== written) logger.info('the audit ends here', { auditHead })
      written = auditHead
    } catch (error) {
      logger.warn('the end of the audit was not read', { error })
    }
  })
}
