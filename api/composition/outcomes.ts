import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { listenForOutcomes } from '#shared/ledger/outcome-listener.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ApiConfig } from '../config.ts'
import { createOutcomeAwaiter, type OutcomeAwaiter } from '../paid-request/answer/await-outcome.ts'

/** Poll interval behind NOTIFY: the longest delay of a caller whose notification was lost. */
const OUTCOME_POLL_MS = 1000

/** Opens the waits for outcomes of jobs, and the listener that ends them early. */
export function openOutcomes(
  { DATABASE_URL: connectionString }: ApiConfig,
  resources: AsyncDisposableStack,
  { store, logger }: { readonly store: AcceptanceStore; readonly logger: Logger },
): OutcomeAwaiter {
  const outcomes = createOutcomeAwaiter({ store, logger }, OUTCOME_POLL_MS)
  resources.defer(() => outcomes.close())
  const listener = listenForOutcomes({
    connectionString,
    onOutcome: (id) => outcomes.wake(id),
    onError: (error) => logger.warn('the outcome listener lost its connection', { error }),
  })
  resources.defer(() => listener.close())
  return outcomes
}
