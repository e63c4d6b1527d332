import { type Hex, hashMessage } from 'viem'
import { recoverSigner, withCanonicalV } from './secp256k1.ts'

/**
 * Returns the lower-case address whose key signed a message as `personal_sign` does (EIP-191), or `null`. Computed
 * locally, so a contract wallet (EIP-1271) has no signature here.
 */
export function recoverMessageSigner(message: string, signature: Hex): Hex | null {
  return recoverSigner(hashMessage(message), withCanonicalV(signature))
}
