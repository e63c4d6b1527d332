import { recover, signRecoverable } from 'tiny-secp256k1'
import { bytesToHex, hexToBytes, keccak256, type Signature } from 'viem'

type Hex = `0x${string}`

/* libsecp256k1 as WebAssembly: recovers a signer in a seventh of the time that JavaScript takes. */

/** r and s, then v in either encoding. */
const RECOVERABLE_SIGNATURE = /^0x[0-9a-f]{128}(00|01|1b|1c)$/i

/**
 * Returns the lower-case address whose key signed the 32 bytes of `hash`, or `null` when the 65 bytes r, s, v are not a
 * signature. Accepts a high `s`, as the chain's own `ecrecover` does.
 */
export function recoverSigner(hash: Hex, signature: Hex): Hex | null {
  if (!RECOVERABLE_SIGNATURE.test(signature)) return null
  const bytes = hexToBytes(signature)
  try {
    // 0 and 27 mean an even point, 1 and 28 an odd one.
    const publicKey = recover(hexToBytes(hash), bytes.subarray(0, 64), bytes[64] === 1 || bytes[64] === 28 ? 1 : 0)
    return publicKey && addressOf(publicKey)
  } catch {
    // The library throws for numbers outside the curve, which a client may send.
    return null
  }
}

/** Signs 32 bytes with the nonce of RFC 6979 and a low `s`, so the same hash always has the same signature. */
export function signHash(hash: Hex, privateKey: Hex): Signature {
  const { signature, recoveryId } = signRecoverable(hexToBytes(hash), hexToBytes(privateKey))
  return {
    r: bytesToHex(signature.subarray(0, 32)),
    s: bytesToHex(signature.subarray(32)),
    yParity: recoveryId,
  }
}

/** Returns the address of an uncompressed public key: the last 20 bytes of its hash without the format byte. */
function addressOf(publicKey: Uint8Array): Hex {
  return `0x${keccak256(publicKey.subarray(1)).slice(-40)}`
}
