import { z } from 'zod'
import { type AtomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { weiOfUsdc } from '#shared/money/native-token.ts'
import { publishedCatalog } from './published-catalog.ts'

/** The lowest published charge of a call. Overrides of the catalog may only raise it. */
export const LOWEST_CHARGE: AtomicAmount = publishedCatalog.models
  .map(({ minimumChargeUsd }) => atomicFromDollars(minimumChargeUsd))
  .reduce((lowest, charge) => (charge < lowest ? charge : lowest))

/** The settings of those who accept payments, and of those who settle them. */
export const feeSettings = {
  /** Maximum fee per gas of any transaction; see `maximumFeePerGasWei`. */
  MAXIMUM_FEE_PER_GAS_WEI: z.coerce.bigint().positive().optional(),
  /** Price of the network's native token in US dollars, at which gas is compared with charges. A round figure is enough. */
  NATIVE_TOKEN_USD: z.coerce.number().positive().default(4000),
}

/** Gas of a charge that is alone in its transaction, through the settlement contract (infra/settlement-contract.md). */
export const CHARGE_GAS = 97_000n

/** A settlement key that has gas for fewer settlements is low, for warnings and for the alert FareboxGasLow. */
export const GAS_WARNING_SETTLEMENTS = 1000

/** Base's lowest base fee (docs.base.org, configuration changelog, 19 February 2026). */
export const LOWEST_BASE_FEE_WEI = 5_000_000n

/**
 * Returns the maximum fee per gas of any transaction, in wei. By default a charge alone in its transaction costs at most
 * twice the lowest charge, so that no such call loses more than its own price: 0.0103 gwei at 4,000 USD.
 */
export function maximumFeePerGasWei({
  MAXIMUM_FEE_PER_GAS_WEI: set,
  NATIVE_TOKEN_USD: usd,
}: {
  readonly MAXIMUM_FEE_PER_GAS_WEI?: bigint | undefined
  readonly NATIVE_TOKEN_USD: number
}): bigint {
  return set ?? weiOfUsdc(2n * LOWEST_CHARGE, usd) / CHARGE_GAS
}
