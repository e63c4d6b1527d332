import type { PublicClient } from 'viem'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { createPermit2Hash } from '../signing/permit2-message.ts'
import { recoverSigner } from '../signing/secp256k1.ts'
import { verifySettlement } from './verify-settlement.ts'

/**
 * Creates a verifier that simulates settlements. It has no key: a simulation needs only the facilitator's address. The
 * signer is recovered locally, so signatures of contract wallets (EIP-1271) are not accepted.
 */
export function createAuthorizationVerifier(client: PublicClient, chainId: number): AuthorizationVerifier {
  const permit2Hash = createPermit2Hash(chainId)
  return {
    isSignedByPayer: async (authorization) =>
      recoverSigner(permit2Hash(authorization), authorization.signature) === authorization.payer.toLowerCase(),
    verify: (authorization, amount) => verifySettlement(client, authorization, amount),
  }
}
