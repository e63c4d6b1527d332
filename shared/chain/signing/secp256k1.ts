import { recover, signRecoverable } from 'tiny-secp256k1'
import { bytesToHex, type Hex, hexToBytes, keccak256, type Signature } from 'viem'

/* libsecp256k1 as WebAssembly: recovers a signer in a seventh of the time that JavaScript takes. */

/** r and s, then v as 27 or 28, the only form that `ecrecover` on chain accepts. */
const RECOVERABLE_SIGNATURE = /^0x[0-9a-f]{128}(1b|1c)$/i

/**
 * Half of the curve's order: of the two values of `s` that sign the same message, the canonical one is not above it.
 */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

/** Returns the signature with a `v` of 27 or 28: some hardware wallets write it as 0 or 1. */
export function withCanonicalV(signature: Hex): Hex {
  return signature.toLowerCase().replace(/(00|01)$/, (v) => (v === '00' ? '1b' : '1c')) as Hex
}

/** The order of the curve. */
const ORDER = 2n * HALF_ORDER + 1n

/** Returns the signature of the same key with a low `s` and the other `v`; unchanged when `s` is low or `v` unknown. */
export function withLowS(signature: Hex): Hex {
  const s = RECOVERABLE_SIGNATURE.test(signature) ? BigInt(`0x${signature.slice(66, 130)}`) : 0n
  if (s <= HALF_ORDER || s >= ORDER) return signature
  const v = signature.endsWith('1b') ? '1c' : '1b'
  return `${signature.slice(0, 66)}${(ORDER - s).toString(16).padStart(64, '0')}${v}` as Hex
}

/**
 * Returns the lower-case address whose key signed the 32 bytes of `hash`, or `null` when the 65 bytes r, s, v are not a
 * canonical signature. A high `s` and a `v` of 0 or 1 are refused, although they name the same signer, because one
 * payment must have one spelling (EIP-2; Permit2 passes `v` to `ecrecover` as it is).
 */
export function recoverSigner(hash: Hex, signature: Hex): Hex | null {
  if (!RECOVERABLE_SIGNATURE.test(signature) || BigInt(`0x${signature.slice(66, 130)}`) > HALF_ORDER) return null
  const bytes = hexToBytes(signature)
  try {
    // 27 means an even point, 28 an odd one.
    const publicKey = recover(hexToBytes(hash), bytes.subarray(0, 64), bytes[64] === 28 ? 1 : 0)
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
