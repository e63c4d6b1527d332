import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** Reads what a wallet holds on the payment network. Never asks the wallet for anything. */
export interface BalanceReader {
  /** Atomic USDC. Throws `payment_network_unavailable` when the network does not answer. */
  readBalance(address: `0x${string}`): Promise<AtomicAmount>
}
