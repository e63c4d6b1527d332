import type { PayerOfAnyKind, PayerOptions } from '../payer/payer.ts'
import { createMetaMaskAccount, createSimple7702Account } from './delegated-wallet.ts'
import { createPasskeySafe } from './passkey-safe.ts'
import type { SafeVersion } from './published-code.ts'
import { createSafe, freshKeyOwners } from './safe-wallet.ts'

/** A kind of wallet with code that anyone may have and that may pay by default. */
export interface WalletKind {
  readonly name: string
  readonly create: (rpcUrl: string, options?: PayerOptions) => Promise<PayerOfAnyKind>
}

const SAFE_VERSIONS: readonly SafeVersion[] = ['1.3.0', '1.4.1', '1.5.0']
const SAFE_SIZES = [
  { threshold: 1, count: 1 },
  { threshold: 2, count: 3 },
  { threshold: 5, count: 10 },
]

export const WALLET_KINDS: readonly WalletKind[] = [
  { name: 'MetaMask 1.3.0 by delegation', create: createMetaMaskAccount },
  { name: 'Simple7702 0.8 by delegation', create: createSimple7702Account },
  ...SAFE_VERSIONS.flatMap((version) =>
    SAFE_SIZES.map(({ threshold, count }) => ({
      name: `Safe ${version}, ${threshold} of ${count}`,
      create: (rpcUrl: string, options?: PayerOptions) =>
        createSafe(rpcUrl, { version, owners: freshKeyOwners(count), threshold, ...options }),
    })),
  ),
  { name: 'Safe 1.4.1 of a passkey', create: createPasskeySafe },
]
