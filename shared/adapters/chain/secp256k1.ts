import { recover, signRecoverable } from 'tiny-secp256k1'
import { bytesToHex, hexToBytes, keccak256, type Signature } from 'viem'

type Hex = `0x${string}`

/* libsecp256k1, compiled to WebAssembly: to recover a signer is a seventh of the work that it is in JavaScript. */

/** r and s, then v in either of its writings. */
const RECOVERABLE_SIGNATURE = /^0x[0-9a-f]{128}(00|01|1b|1c)$/i

/**
 * The address, in lower case, whose key signed the 32 bytes of `hash`; `null` when the 65 bytes r, s, v are no signature
 * at all. A high `s` is taken, as the chain's own `ecrecover` takes it.
 */
export function recoverSigner(hash: Hex, signature: Hex): Hex | null {
  if (!RECOVERABLE_SIGNATURE.test(signature)) return null
  const bytes = hexToBytes(signature)
  try {
    // 0 and 27 stand for an even point, 1 and 28 for an odd one.
    const publicKey = recover(hexToBytes(hash), bytes.subarray(0, 64), bytes[64] === 1 || bytes[64] === 28 ? 1 : 0)
    return publicKey && addressOf(publicKey)
  } catch {
    // The library throws on numbers outside the curve, which are a stranger's input and simply not valid.
    return null
  }
}

/** Signs 32 bytes with the nonce of RFC 6979 and a low `s`: the same hash has the same signature. */
export function signHash(hash: Hex, privateKey: Hex): Signature {
  const { signature, recoveryId } = signRecoverable(hexToBytes(hash), hexToBytes(privateKey))
  return {
    r: bytesToHex(signature.subarray(0, 32)),
    s: bytesToHex(signature.subarray(32)),
    yParity: recoveryId,
  }
}

/** The last 20 bytes of the hash of an uncompressed public key without its leading format byte. */
function addressOf(publicKey: Uint8Array): Hex {
  return `0x${keccak256(publicKey.subarray(1)).slice(-40)}`
}
