import { encodeAbiParameters, encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import { type Authenticator, createAuthenticator } from './authenticator.ts'
import { PASSKEY_SIGNER, placePublished } from './published-code.ts'
import type { SafeOwner } from './safe-owners.ts'
import { createSafe, type SafeOptions, type SafeWallet } from './safe-wallet.ts'

const ABI = parseAbi([
  'struct Signer { uint256 x; uint256 y; uint176 verifiers; }',
  'function configure(Signer signer)',
])
/** The precompiled contract of RIP-7212, 0x100, in the two bytes above the address of a contract that is asked after it. */
export const PRECOMPILED_ONLY = 0x100n << 160n

/** A Safe whose one owner is a passkey. */
export async function createPasskeySafe(rpcUrl: string, options: SafeOptions = {}): Promise<SafeWallet> {
  const authenticator = createAuthenticator()
  const signer = { ...authenticator.publicKey, verifiers: PRECOMPILED_ONLY }
  await placePublished(rpcUrl, PASSKEY_SIGNER)
  return await createSafe(rpcUrl, {
    ...options,
    owners: [passkeyOwner(authenticator)],
    setupCall: {
      to: PASSKEY_SIGNER.address,
      data: encodeFunctionData({ abi: ABI, functionName: 'configure', args: [signer] }),
    },
  })
}

function passkeyOwner(authenticator: Authenticator): SafeOwner {
  return {
    address: PASSKEY_SIGNER.address,
    isContract: true,
    sign: ({ hash }) => Promise.resolve(signatureOf(authenticator, hash)),
  }
}

/** Returns the signature of a challenge as the signer contract reads it. */
function signatureOf(authenticator: Authenticator, challenge: Hex): Hex {
  const { authenticatorData, clientDataJson, signature } = authenticator.assert(challenge, 'ieee-p1363')
  // The contract writes what stands before them, and the closing brace.
  const fields = clientDataJson.slice(clientDataJson.indexOf('"origin"'), -1)
  const types = [{ type: 'bytes' }, { type: 'string' }, { type: 'uint256' }, { type: 'uint256' }] as const
  const [r, s] = [toHex(signature.subarray(0, 32)), toHex(signature.subarray(32))]
  return encodeAbiParameters(types, [toHex(authenticatorData), fields, BigInt(r), BigInt(s)])
}
