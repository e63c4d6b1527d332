import type { Verification } from '#shared/payment/facilitator.ts'
import type { PayerCodeCheck, SignedQuestion } from './payer-code.ts'

/**
 * Returns what a verification and the check of the payer's code say together: first what the simulation refuses, then the
 * code that made it succeed. A revert that nothing explains is due to the code, if it is not known.
 */
export function judgeWallet(
  verification: Verification,
  code: PayerCodeCheck,
  signed: Pick<SignedQuestion, 'signedBy'> | undefined,
): Verification {
  if (code.outcome === 'refused' && code.code === 'payer_not_deployed') return code
  switch (verification.outcome) {
    case 'valid':
      return code.outcome === 'allowed' ? verification : code
    case 'unreachable':
      return isToBlame(code) ? code : verification
    case 'refused':
      if (verification.code !== 'payment_rejected') return verification
      if (signed?.signedBy === 'ask_chain' && verification.detail === undefined) return NOT_TAKEN
      return isToBlame(code) ? code : verification
  }
}

/** A check that reverts is no contradiction to a simulation that does not succeed either. */
function isToBlame(code: PayerCodeCheck): code is Extract<PayerCodeCheck, { outcome: 'refused' }> {
  return code.outcome === 'refused' && code.isContradiction !== true
}

/** Of a wallet with code whose signature makes the simulation revert, while nonce, funds and allowance do not. */
const NOT_TAKEN: Verification = {
  outcome: 'refused',
  code: 'payment_signature_invalid',
  detail:
    'The payer’s wallet, a contract, does not take this signature with the gas that a settlement has for it. Check that its present owners signed, at most five of them, and that the wallet adds its own hash to what they sign.',
}
