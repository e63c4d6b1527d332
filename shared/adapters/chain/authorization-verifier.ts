import { uptoPermit2WitnessTypes } from '@x402/evm'
import { isAddressEqual, type PublicClient, recoverTypedDataAddress } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS } from './contracts.ts'
import { verifySettlement } from './verify-settlement.ts'

/** Verifies against the chain. Holds no key: simulation needs only the facilitator's address. */
export function createAuthorizationVerifier(client: PublicClient, chainId: number): AuthorizationVerifier {
  return {
    isSignedByPayer: (authorization) => isSignedByPayer(authorization, chainId),
    verify: (authorization, amount) => verifySettlement(client, authorization, amount),
  }
}

/**
 * Recovers the ECDSA signer of the Permit2 message. Wallets that sign through a contract (EIP-1271) cannot be recovered
 * without the chain and are not accepted.
 */
async function isSignedByPayer(authorization: Authorization, chainId: number): Promise<boolean> {
  try {
    const signer = await recoverTypedDataAddress({
      domain: { name: 'Permit2', chainId, verifyingContract: PERMIT2_ADDRESS },
      types: uptoPermit2WitnessTypes,
      primaryType: 'PermitWitnessTransferFrom',
      message: {
        permitted: { token: authorization.asset, amount: authorization.authorizedMaximum },
        spender: authorization.spender,
        nonce: authorization.nonce,
        deadline: authorization.deadline,
        witness: {
          to: authorization.payTo,
          facilitator: authorization.facilitator,
          validAfter: authorization.validAfter,
        },
      },
      signature: authorization.signature,
    })
    return isAddressEqual(signer, authorization.payer)
  } catch {
    // viem throws on a signature of the wrong length or outside the curve, which is a stranger's input and simply not valid.
    return false
  }
}
