import type { PublicClient } from 'viem'
import type { PayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import { type Authorization, lastingPermitOf } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier, Verification } from '#shared/payment/facilitator.ts'
import { permitDigest } from '../allowance/permit-digest.ts'
import { createPermit2Hash } from '../signing/permit2-message.ts'
import { recoverSigner, withCanonicalV } from '../signing/secp256k1.ts'
import { createPayerCodePolicy } from './payer-code.ts'
import { createSettlementVerification, type SettlementVerification } from './settlement-verification.ts'
import type { ReadFees } from './verify-settlement.ts'

export interface VerifierOptions {
  /** Default: no account with code may pay. */
  readonly payerCode?: PayerCodePolicy
  /** The fees of our own settlements; `null`, the default, for those of a remote facilitator. */
  readonly readFees?: ReadFees | null
  /** Default: verifies each payment by itself. */
  readonly settlements?: SettlementVerification
}

/**
 * Creates a verifier that simulates settlements. It has no key: a simulation needs only the facilitator's address. The
 * signer is recovered locally, so signatures of contract wallets (EIP-1271) are not accepted; and Permit2 asks an
 * account with code instead of recovering its signer, so those may pay only if `payerCode` allows them.
 */
export function createAuthorizationVerifier(
  client: PublicClient,
  chainId: number,
  {
    payerCode = createPayerCodePolicy(client),
    readFees = null,
    settlements = createSettlementVerification(client, { readFees }),
  }: VerifierOptions = {},
): AuthorizationVerifier {
  const permit2Hash = createPermit2Hash(chainId)
  // Admission and the check of the payment ask for the same object, and recovering a signer takes a while.
  const judged = new WeakMap<Authorization, boolean>()
  return {
    isSignedByPayer: (authorization) => {
      const isSigned =
        judged.get(authorization) ??
        recoverSigner(permit2Hash(authorization), authorization.signature) === authorization.payer.toLowerCase()
      judged.set(authorization, isSigned)
      return isSigned
    },
    verify: async (authorization, amount) =>
      hasOwnPermit(authorization) ? await settlements.verify(authorization, amount, { payerCode }) : FOREIGN_PERMIT,
  }
}

const FOREIGN_PERMIT: Verification = {
  outcome: 'refused',
  code: 'payment_rejected',
  detail: 'The lasting permit of this payment is not signed by the payer.',
}

/**
 * Returns whether the payer signed the lasting permit, if there is one. It counts as an allowance for several payments,
 * although their simulations submit it only while the allowance is too low for one of them.
 */
function hasOwnPermit(authorization: Authorization): boolean {
  const lasting = lastingPermitOf(authorization)
  if (!lasting) return true
  const { payer: owner } = authorization
  const digest = permitDigest({ owner, value: lasting.amount, nonce: lasting.nonce, deadline: lasting.deadline })
  return recoverSigner(digest, withCanonicalV(lasting.signature)) === owner.toLowerCase()
}
