import type { PublicClient } from 'viem'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { createPermit2Hash } from './permit2-message.ts'
import { recoverSigner } from './secp256k1.ts'
import { verifySettlement } from './verify-settlement.ts'

/**
 * Verifies against the chain. Holds no key: simulation needs only the facilitator's address. The signer is recovered without
 * the chain, so wallets that sign through a contract (EIP-1271) are not accepted.
 */
export function createAuthorizationVerifier(client: PublicClient, chainId: number): AuthorizationVerifier {
  const permit2Hash = createPermit2Hash(chainId)
  return {
    isSignedByPayer: async (authorization) =>
      recoverSigner(permit2Hash(authorization), authorization.signature) === authorization.payer.toLowerCase(),
    verify: (authorization, amount) => verifySettlement(client, authorization, amount),
  }
}
