import { createHash } from 'node:crypto'
import type { SigningAccount, Wallet } from './wallet.ts'
import { withoutSecrets } from './wallet-from-private-key.ts'

/** Shown by wallets that ask before they sign. Changing it changes every derived key. */
const KEY_SECRET_TEXT = [
  'farebox idempotency keys v1',
  '',
  'This signature pays for nothing. farebox derives the keys from it that keep a call from being paid twice.',
  'Do not sign it for any other program.',
].join('\n')

/** Creates a wallet from a viem account that signs, for example one of a hardware wallet or a key service. */
export function walletFromAccount(account: SigningAccount): Wallet {
  let secret: Promise<Uint8Array | null> | undefined
  return withoutSecrets({
    address: account.address,
    signTypedData: (message) => account.signTypedData(message),
    signMessage: (message) => account.signMessage(message),
    keySecret: () => {
      secret ??= deriveSecret(account).catch((error: unknown) => {
        // A refused signature may be repeated.
        secret = undefined
        throw error
      })
      return secret
    },
  })
}

/** Signs twice: a secret of signatures that differ each time would protect nothing. */
async function deriveSecret(account: SigningAccount): Promise<Uint8Array | null> {
  const first = await account.signMessage({ message: KEY_SECRET_TEXT })
  const second = await account.signMessage({ message: KEY_SECRET_TEXT })
  if (first !== second) return null
  return new Uint8Array(
    createHash('sha256')
      .update(Buffer.from(first.slice(2), 'hex'))
      .digest(),
  )
}
