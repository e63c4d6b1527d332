import type { PaymentContext } from './payment/paid-call.ts'
import type { Wallet } from './wallet/wallet.ts'

/** What everything that a client does shares. */
export interface FareboxContext extends PaymentContext {
  readonly wallet: Wallet
  readonly baseUrl: string
  readonly rpcUrl: string | undefined
}
