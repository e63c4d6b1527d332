import { type Hex, type PublicClient, size } from 'viem'
import type { PayerCodeCheck, PayerCodePolicy, SignedQuestion } from '#shared/chain/verification/payer-code.ts'
import { type Authorization, lastingPermitOf } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier, SignedBy, Verification, WalletAnswer } from '#shared/payment/facilitator.ts'
import { permitDigest } from '../allowance/permit-digest.ts'
import { isRevert } from '../network/rpc-failure.ts'
import { createPermit2Hash } from '../signing/permit2-message.ts'
import { recoverSigner, withCanonicalV, withLowS } from '../signing/secp256k1.ts'
import { createPayerCodePolicy } from './payer-code.ts'
import { createSettlementVerification, type SettlementVerification } from './settlement-verification.ts'
import { askSignature } from './signature-trace.ts'
import type { ReadFees } from './verify-settlement.ts'

export interface VerifierOptions {
  /** Default: no account with code may pay. */
  readonly payerCode?: PayerCodePolicy
  /** The fees of our own settlements; `null`, the default, for those of a remote facilitator. */
  readonly readFees?: ReadFees | null
  /** Default: verifies each payment by itself. */
  readonly settlements?: SettlementVerification
  /** Whether the payments were verified when they were accepted, so that a key's signature need not be recovered again. */
  readonly areAccepted?: boolean
}

/** A verifier that reads the chain itself. */
export interface ChainVerifier extends AuthorizationVerifier {
  /** Judges the code that decides about the payer's signature, whether or not the payment could be settled. */
  checkWallet(authorization: Authorization): Promise<PayerCodeCheck>
}

/**
 * Creates a verifier that simulates settlements. It has no key: a simulation needs only the facilitator's address. The
 * signer is recovered locally. Permit2 asks an account with code (EIP-1271) instead of recovering its signer, so those may
 * pay only if `payerCode` allows what runs then.
 */
export function createAuthorizationVerifier(
  client: PublicClient,
  chainId: number,
  {
    payerCode = createPayerCodePolicy(client),
    readFees = null,
    settlements = createSettlementVerification(client, { readFees }),
    areAccepted = false,
  }: VerifierOptions = {},
): ChainVerifier {
  const permit2Hash = createPermit2Hash(chainId)
  // Admission and the check of the payment ask for the same object, and recovering a signer takes a while.
  const judged = new WeakMap<Authorization, SignedQuestion>()
  const questionOf = (authorization: Authorization): SignedQuestion => {
    const known = judged.get(authorization)
    if (known) return known
    const question = questionAbout(authorization, permit2Hash, payerCode.allowsCode)
    judged.set(authorization, question)
    return question
  }
  return {
    isSignedByPayer: (authorization) => questionOf(authorization).signedBy,
    checkWallet: (authorization) => payerCode.check(questionOf(authorization)),
    askWallet: (authorization) => askWallet(client, questionOf(authorization)),
    verify: async (authorization, amount) =>
      hasOwnPermit(authorization)
        ? await settlements.verify(authorization, amount, {
            policy: payerCode,
            signed: questionOf(authorization),
            isAccepted: areAccepted,
          })
        : FOREIGN_PERMIT,
  }
}

/** The question of a payment, whose hash and signer are computed when they are first read. */
function questionAbout(
  authorization: Authorization,
  permit2Hash: (authorization: Authorization) => Hex,
  allowsCode: boolean,
): SignedQuestion {
  const { payer, signature } = authorization
  let hash: Hex | undefined
  let signedBy: SignedBy | undefined
  return {
    payer,
    signature,
    get hash() {
      return (hash ??= permit2Hash(authorization))
    },
    get signedBy() {
      return (signedBy ??= judgeSignature(this.hash, authorization, allowsCode))
    },
  }
}

/** Bytes of the shortest signature that a known wallet takes: one of a key. */
const SHORTEST_SIGNATURE = 65

/**
 * Judges a signature without the chain. The key's own signature in another spelling is refused: one payment must have one
 * (EIP-2), and no account takes it.
 */
function judgeSignature(hash: Hex, { payer, signature }: Authorization, allowsCode: boolean): SignedBy {
  const owner = payer.toLowerCase()
  if (recoverSigner(hash, signature) === owner) return 'key'
  if (!allowsCode || size(signature) < SHORTEST_SIGNATURE) return 'no'
  return recoverSigner(hash, withLowS(withCanonicalV(signature))) === owner ? 'no' : 'ask_chain'
}

async function askWallet(client: PublicClient, question: SignedQuestion): Promise<WalletAnswer> {
  if (question.signedBy !== 'ask_chain') return { outcome: question.signedBy === 'key' ? 'signed' : 'not_signed' }
  try {
    return { outcome: (await askSignature(client, question)) ? 'signed' : 'not_signed' }
  } catch (cause) {
    return isRevert(cause) ? { outcome: 'not_signed' } : { outcome: 'unreachable', cause }
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
