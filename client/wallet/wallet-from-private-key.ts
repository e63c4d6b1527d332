import { createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import { privateKeyToAccount } from 'viem/accounts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { Wallet } from './wallet.ts'

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

/** Makes logs show the address only. */
export function withoutSecrets(wallet: Wallet): Wallet {
  const shown = () => `Wallet(${wallet.address})`
  return Object.defineProperties(wallet, { [inspect.custom]: { value: shown }, toJSON: { value: shown } })
}

function readAccount(digits: string) {
  try {
    if (!/^[0-9a-fA-F]{64}$/.test(digits)) throw new RangeError('wrong form')
    return privateKeyToAccount(`0x${digits}`)
  } catch {
    // Without a cause: it would quote the key.
    throw new FareboxError({
      code: 'invalid_private_key',
      problem: 'The private key is not 32 bytes in hexadecimal, or not a key of secp256k1.',
      money: 'none',
      advice: 'Set FAREBOX_PRIVATE_KEY or the key file to 0x and 64 hexadecimal digits.',
    })
  }
}
