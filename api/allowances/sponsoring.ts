import type { AllowanceReader } from '#shared/adapters/chain/allowance/allowance-reader.ts'
import type { AllowanceRequestStore } from '#shared/adapters/postgres/allowances/allowance-store.ts'
import type { AllowanceOutcome } from '#shared/adapters/postgres/allowances/request-allowance.ts'
import type { SponsoringLimits } from '#shared/adapters/postgres/allowances/sponsoring-limits.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { OutcomeAwaiter } from '../paid-request/job/await-outcome.ts'
import type { PayerScreen } from '../paid-request/payment/payer-screen.ts'

/** How long before its deadline a permit must arrive: the time to submit it, at the fees of a busy network. */
export const MINIMUM_DEADLINE_SECONDS = 300

/** What sponsoring costs at most. The smallest value of a permit is the smallest balance of its owner. */
export interface SponsoringSettings
  extends Pick<SponsoringLimits, 'perOwnerSeconds' | 'dailyGasWei' | 'minimumBalance'> {
  /** Whether only wallets that have paid are sponsored: the permit of a first call travels with its payment. */
  readonly needsPaidCall: boolean
}

/** Everything that the routes of allowances need. */
export interface AllowanceDependencies {
  readonly terms: Pick<PaymentTerms, 'network' | 'asset' | 'permit2'>
  /** The settlement keys, of which one submits the permit. */
  readonly keys: readonly `0x${string}`[]
  readonly reader: AllowanceReader
  readonly payerScreen: PayerScreen
  readonly store: AllowanceRequestStore
  readonly outcomes: OutcomeAwaiter<AllowanceOutcome>
  /** `null` when the service has no settlement keys, or the operator switched sponsoring off. */
  readonly sponsoring: SponsoringSettings | null
  readonly now: () => Date
}
