import { hashMessage } from 'viem'
import { recoverSigner } from './secp256k1.ts'

type Hex = `0x${string}`

/**
 * Returns the lower-case address whose key signed a message as `personal_sign` does (EIP-191), or `null`. Computed
 * locally, so a contract wallet (EIP-1271) has no signature here. Some hardware wallets write `v` as 0 or 1.
 */
export function recoverMessageSigner(message: string, signature: Hex): Hex | null {
  const lowerCase = signature.toLowerCase()
  const canonical = lowerCase.replace(/(00|01)$/, (v) => (v === '00' ? '1b' : '1c')) as Hex
  return recoverSigner(hashMessage(message), canonical)
}
