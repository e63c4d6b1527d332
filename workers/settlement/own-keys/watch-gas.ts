import { GAS_WARNING_SETTLEMENTS, LOWEST_CHARGE } from '#shared/catalog/fee-limit.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import type { SettlementWatchDependencies } from '../dependencies.ts'

const POLL_EVERY_MS = 30_000

/**
 * Warns every 30 seconds about settlement keys that are low on gas; and once, each time it begins, about fees that the
 * operator's maximum limits and settlements that are expected to cost more than the lowest charge.
 */
export function watchGas({ gas, accounts, nativeTokenUsd, logger }: SettlementWatchDependencies): Sweep {
  const lasting = new Set<string>()
  const warnOnce = (isTrue: boolean, message: string, fields: { readonly facilitator: string; reason?: string }) => {
    const warning = `${fields.facilitator} ${message}`
    if (isTrue && !lasting.has(warning)) logger.warn(message, fields)
    if (isTrue) lasting.add(warning)
    else lasting.delete(warning)
  }
  return {
    name: 'checked gas balances',
    leastIntervalMs: POLL_EVERY_MS,
    run: async () => {
      for (const facilitator of accounts.facilitators) {
        const { settlementsLeft, isFeeLimited, expectedSettlementWei } = await gas.readGas(facilitator)
        if (settlementsLeft < GAS_WARNING_SETTLEMENTS)
          logger.warn('a settlement key is low on gas', { facilitator, count: settlementsLeft })
        warnOnce(isFeeLimited, 'MAXIMUM_FEE_PER_GAS_WEI limits the fees of settlements', { facilitator })
        const expected = usdcOfWei(expectedSettlementWei, nativeTokenUsd)
        warnOnce(expected > LOWEST_CHARGE, 'a settlement is expected to cost more gas than the lowest charge', {
          facilitator,
          reason: `${dollarsFromAtomic(expected)} USDC of gas, ${dollarsFromAtomic(LOWEST_CHARGE)} USDC charged`,
        })
      }
      return 0
    },
  }
}
