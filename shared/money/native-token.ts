import { type AtomicAmount, atomicAmount } from './atomic-amount.ts'

const CENTS_PER_DOLLAR = 100
/** Wei of a native token that costs one cent, for each atomic USDC: 10^18 / (10^6 / 100). */
const WEI_CENTS_PER_ATOMIC = 10n ** 14n

/** Returns what an amount of the native token costs at a price in US dollars, in atomic USDC, rounded up. */
export function usdcOfWei(wei: bigint, nativeTokenUsd: number): AtomicAmount {
  const cents = BigInt(Math.ceil(nativeTokenUsd * CENTS_PER_DOLLAR))
  return atomicAmount((wei * cents + WEI_CENTS_PER_ATOMIC - 1n) / WEI_CENTS_PER_ATOMIC)
}

/** Returns how much of the native token an amount of USDC buys at a price in US dollars, in wei, rounded down. */
export function weiOfUsdc(atomic: bigint, nativeTokenUsd: number): bigint {
  return (atomic * WEI_CENTS_PER_ATOMIC) / BigInt(Math.ceil(nativeTokenUsd * CENTS_PER_DOLLAR))
}
