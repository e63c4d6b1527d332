import type { ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import { recoverMessageSigner } from '#shared/chain/signing/personal-message.ts'
import { createAccountStore } from '#shared/ledger/account/account-store.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { createAccountSlots } from '../account/account-slots.ts'
import type { ApiConfig } from '../config.ts'
import type { AccountDependencies } from '../routes/account.ts'

/** Composes what lets wallets read their own calls. */
export function composeAccount(
  config: Pick<ApiConfig, 'CHALLENGE_SECRET' | 'PUBLIC_BASE_URL'>,
  {
    pool,
    archive,
    network,
    now,
  }: {
    readonly pool: Pool
    readonly archive: ReceiptArchive
    readonly network: PaymentTerms['network']
    readonly now: () => Date
  },
): AccountDependencies['account'] {
  return {
    accountStore: createAccountStore(pool, { archive }),
    slots: createAccountSlots(),
    recoverMessageSigner,
    challengeSecrets: config.CHALLENGE_SECRET,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    network,
    now,
  }
}
