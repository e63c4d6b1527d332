import type { GasReader } from '#shared/payment/gas-reader.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'

export interface GasWatchDependencies {
  readonly gas: GasReader
  readonly facilitators: readonly `0x${string}`[]
  readonly gasWarningSettlements: number
  readonly logger: Logger
}

const POLL_EVERY_MS = 30_000

/** Warns every 30 seconds about settlement keys that are low on gas. */
export function watchGas({ gas, facilitators, gasWarningSettlements, logger }: GasWatchDependencies): Sweep {
  return {
    name: 'checked gas balances',
    leastIntervalMs: POLL_EVERY_MS,
    run: async () => {
      for (const facilitator of facilitators) {
        const { settlementsLeft } = await gas.readGas(facilitator)
        if (settlementsLeft < gasWarningSettlements)
          logger.warn('a settlement key is low on gas', { facilitator, count: settlementsLeft })
      }
      return 0
    },
  }
}
