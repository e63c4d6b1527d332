import type { GasReader } from '#shared/payment/gas-reader.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'

export interface GasWatchDependencies {
  readonly gas: GasReader
  readonly facilitators: readonly `0x${string}`[]
  readonly gasWarningSettlements: number
  readonly logger: Logger
}

const LOOK_EVERY_MS = 30_000

/** Warns, every 30 seconds, of each settlement key whose gas will not last. */
export function watchGas({ gas, facilitators, gasWarningSettlements, logger }: GasWatchDependencies): Sweep {
  return {
    name: 'looked at gas balances',
    leastIntervalMs: LOOK_EVERY_MS,
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
