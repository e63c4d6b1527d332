import { createHmac, hash } from 'node:crypto'
import { inspect } from 'node:util'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { uncharged } from '../wire/farebox-error.ts'
import type { SigningAccount, Wallet } from './wallet.ts'

/** Shown by wallets that ask before they sign. Changing it changes every derived key. */
const KEY_SECRET_TEXT = [
  'farebox idempotency keys v1',
  '',
  'This signature pays for nothing. farebox derives the keys from it that keep a call from being paid twice.',
  'Do not sign it for any other program.',
].join('\n')

const KEY_SECRET_PURPOSE = 'farebox idempotency keys v1'

/** Creates a wallet from a private key of 32 bytes in hexadecimal. Errors never contain the key. */
export function walletFromPrivateKey(privateKey: string): Wallet {
  const trimmed = privateKey.trim()
  const digits = trimmed.startsWith('0x') ? trimmed.slice(2) : trimmed
  const account = readAccount(digits)
  const secret = createHmac('sha256', Buffer.from(digits, 'hex')).update(KEY_SECRET_PURPOSE).digest()
  const wallet: Wallet = {
    address: account.address,
    signTypedData: (message) => account.signTypedData(message),
    signMessage: (message) => account.signMessage(message),
    keySecret: () => Promise.resolve(new Uint8Array(secret)),
  }
  return withoutSecrets(wallet)
}

/** Creates a wallet that holds nothing and is forgotten: prices can be asked for before there is a wallet. */
export function throwawayWallet(): Wallet {
  return walletFromPrivateKey(generatePrivateKey())
}

/** Makes logs show the address only. */
function withoutSecrets(wallet: Wallet): Wallet {
  const shown = () => `Wallet(${wallet.address})`
  return Object.defineProperties(wallet, { [inspect.custom]: { value: shown }, toJSON: { value: shown } })
}

function readAccount(digits: string) {
  try {
    if (!/^[0-9a-fA-F]{64}$/.test(digits)) throw new RangeError('wrong form')
    return privateKeyToAccount(`0x${digits}`)
  } catch {
    // Without a cause: it would quote the key.
    throw uncharged(
      'invalid_private_key',
      'The private key is not 32 bytes in hexadecimal, or not a key of secp256k1.',
      'Set FAREBOX_PRIVATE_KEY or the key file to 0x and 64 hexadecimal digits.',
    )
  }
}

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
  return new Uint8Array(hash('sha256', Buffer.from(first.slice(2), 'hex'), 'buffer'))
}
