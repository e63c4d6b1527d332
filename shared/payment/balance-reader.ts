import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** Reads balances on the payment network, without the wallet's involvement. */
export interface BalanceReader {
  /** Returns atomic USDC. Throws `payment_network_unavailable` when the network does not answer. */
  readBalance(address: `0x${string}`): Promise<AtomicAmount>
}
