import { decodePaymentRequiredHeader } from '@x402/core/http'
import type { PaymentRequired } from '@x402/core/types'
import type { Address } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { PayerOfAnyKind } from './payer.ts'
import { randomNonce, secondsFromNow, signWitness, type WitnessTerms } from './sign-authorization.ts'
import { type PermitTerms, signPermit } from './sign-permit.ts'

/** The terms of a payment, each of which a test may change. */
export interface SignedTerms extends WitnessTerms {
  readonly payer: Address
}

/** A payment before it is encoded, as JSON. */
export type CustomPayment = Record<string, unknown>

export function challengeOf(answer: Response): PaymentRequired {
  return decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
}

/**
 * Signs a challenge as the official client does, but for `terms`, which are both signed and sent. `permit` adds a
 * gas-sponsoring permit that is valid but for these members.
 */
export async function signCustomPayment(
  required: PaymentRequired,
  payer: Pick<PayerOfAnyKind, 'account'>,
  options: { terms?: Partial<SignedTerms>; permit?: Partial<PermitTerms> } = {},
): Promise<CustomPayment> {
  const [accepted] = required.accepts
  if (accepted === undefined) throw new Error('the challenge accepts nothing')
  const terms: SignedTerms = {
    payer: payer.account.address,
    token: accepted.asset as Address,
    amount: BigInt(accepted.amount),
    spender: DEVNET_ADDRESSES.uptoProxy,
    nonce: randomNonce(),
    deadline: secondsFromNow(accepted.maxTimeoutSeconds),
    to: accepted.payTo as Address,
    facilitator: accepted.extra['facilitatorAddress'] as Address,
    validAfter: 0n,
    ...options.terms,
  }
  const extensions =
    options.permit === undefined
      ? {}
      : { extensions: { eip2612GasSponsoring: await sponsoringPermit(payer, terms, options.permit) } }
  return {
    x402Version: 2,
    resource: required.resource,
    accepted,
    payload: {
      signature: await signWitness(payer.account, terms),
      permit2Authorization: {
        from: terms.payer,
        permitted: { token: terms.token, amount: terms.amount.toString() },
        spender: terms.spender,
        nonce: terms.nonce.toString(),
        deadline: terms.deadline.toString(),
        witness: { to: terms.to, facilitator: terms.facilitator, validAfter: terms.validAfter.toString() },
      },
    },
    ...extensions,
  }
}

/** Returns the `eip2612GasSponsoring` extension: a permit that is valid but for `changes`. */
async function sponsoringPermit(
  { account }: Pick<PayerOfAnyKind, 'account'>,
  terms: SignedTerms,
  changes: Partial<PermitTerms>,
) {
  const permit: PermitTerms = {
    owner: account.address,
    spender: DEVNET_ADDRESSES.permit2,
    amount: terms.amount,
    nonce: 0n,
    deadline: terms.deadline,
    ...changes,
  }
  return {
    info: {
      from: permit.owner,
      asset: terms.token,
      spender: permit.spender,
      amount: permit.amount.toString(),
      nonce: permit.nonce.toString(),
      deadline: permit.deadline.toString(),
      signature: await signPermit(account, permit),
      version: '1',
    },
  }
}

/** Returns a copy with another value at a dotted path; `undefined` removes the member. */
export function withValue(payment: CustomPayment, path: string, value: unknown): CustomPayment {
  const copy = structuredClone(payment)
  const names = path.split('.')
  const last = names.pop() ?? ''
  let place = copy
  for (const name of names) place = place[name] as CustomPayment
  if (value === undefined) delete place[last]
  else place[last] = value
  return copy
}

export function valueAt(payment: CustomPayment, path: string): unknown {
  return path.split('.').reduce<unknown>((place, name) => (place as CustomPayment)[name], payment)
}

/** Returns the header that carries a payment. */
export function paymentHeader(payment: unknown): Record<string, string> {
  return { 'payment-signature': Buffer.from(JSON.stringify(payment)).toString('base64') }
}
