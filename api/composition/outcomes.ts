import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { AllowanceRequestStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { AllowanceOutcome } from '#shared/ledger/allowances/request-allowance.ts'
import { listenForOutcomes } from '#shared/ledger/outcome-listener.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ApiConfig } from '../config.ts'
import { createOutcomeAwaiter, type OutcomeAwaiter } from '../paid-request/job/await-outcome.ts'

/** Poll interval behind NOTIFY: the longest delay of a caller whose notification was lost. */
const OUTCOME_POLL_MS = 1000

interface OutcomeStores {
  readonly store: AcceptanceStore
  readonly allowanceStore: Pick<AllowanceRequestStore, 'readAllowanceOutcomes'>
  readonly logger: Logger
}

export interface Outcomes {
  readonly outcomes: OutcomeAwaiter
  readonly allowanceOutcomes: OutcomeAwaiter<AllowanceOutcome>
}

/** Opens the waits for outcomes of jobs and of sponsored permits, and the listener that ends them early. */
export function openOutcomes(
  { DATABASE_URL: connectionString }: ApiConfig,
  resources: AsyncDisposableStack,
  { store, allowanceStore, logger }: OutcomeStores,
): Outcomes {
  const outcomes = createOutcomeAwaiter({ store, logger }, OUTCOME_POLL_MS)
  resources.defer(() => outcomes.close())
  const allowanceOutcomes = createOutcomeAwaiter<AllowanceOutcome>(
    {
      store: { readOutcomes: (ids) => allowanceStore.readAllowanceOutcomes(ids) },
      logger,
      isOpen: ({ state }) => state === 'pending',
    },
    OUTCOME_POLL_MS,
  )
  resources.defer(() => allowanceOutcomes.close())
  const listener = listenForOutcomes({
    connectionString,
    // Ids of both kinds come on one channel, and each waits for its own.
    onOutcome: (id) => {
      outcomes.wake(id)
      allowanceOutcomes.wake(id)
    },
    onError: (error) => logger.warn('the outcome listener lost its connection', { error }),
  })
  resources.defer(() => listener.close())
  return { outcomes, allowanceOutcomes }
}
