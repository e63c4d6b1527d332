import { randomBytes } from 'node:crypto'
import { uptoPermit2WitnessTypes } from '@x402/evm'
import type { Address, Hex } from 'viem'
import { PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS, USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'
import type { TestDevnet } from '../chain/devnet.ts'
import type { PayerAccount, PayerOfAnyKind } from './payer.ts'
import { signPermit } from './sign-permit.ts'

/** The terms that a Permit2 witness signature covers. */
export interface WitnessTerms {
  readonly token: Address
  readonly amount: bigint
  readonly spender: Address
  readonly nonce: bigint
  readonly deadline: bigint
  readonly to: Address
  readonly facilitator: Address
  readonly validAfter: bigint
}

/** Deviations of an authorization from a valid one. */
export interface AuthorizationChanges {
  readonly authorizedMaximum?: bigint
  readonly nonce?: bigint
  readonly deadline?: bigint
  readonly validAfter?: bigint
  readonly facilitator?: Address
  readonly payTo?: Address
  /** Whether an EIP-2612 permit is signed with it; default true. */
  readonly gasSponsored?: boolean
  /** Default: the maximum, as the proxy demands. More makes it a lasting permit. */
  readonly permitAmount?: bigint
  readonly permitNonce?: bigint
  /** Default: the payment's deadline. */
  readonly permitDeadline?: bigint
  /** Another key that signs on behalf of the payer. */
  readonly signer?: PayerAccount
}

export function randomNonce(): bigint {
  return BigInt(`0x${randomBytes(32).toString('hex')}`)
}

export function secondsFromNow(seconds: number): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + seconds)
}

/** Signs the terms of an `upto` payment for Permit2. */
export function signWitness(signer: Pick<PayerAccount, 'signTypedData'>, terms: WitnessTerms): Promise<Hex> {
  const { token, amount, spender, nonce, deadline, to, facilitator, validAfter } = terms
  return signer.signTypedData({
    domain: { name: 'Permit2', chainId: DEVNET_CHAIN_ID, verifyingContract: DEVNET_ADDRESSES.permit2 },
    types: uptoPermit2WitnessTypes,
    primaryType: 'PermitWitnessTransferFrom',
    message: { permitted: { token, amount }, spender, nonce, deadline, witness: { to, facilitator, validAfter } },
  })
}

/** Signs an authorization for the devnet's recipient and settlement key, as verifier, ledger and settler expect it. */
export async function signAuthorization(
  { accounts }: Pick<TestDevnet, 'accounts'>,
  payer: Pick<PayerOfAnyKind, 'address' | 'account'>,
  changes: AuthorizationChanges = {},
): Promise<Authorization> {
  const { gasSponsored = true, signer = payer.account, validAfter = 0n, authorizedMaximum: amount = 5034n } = changes
  const { nonce = randomNonce(), deadline = secondsFromNow(600), permitNonce = 0n, permitDeadline = deadline } = changes
  const { permitAmount = amount } = changes
  const { payTo = accounts.recipient.address, facilitator = accounts.settlement.address } = changes
  const parties = { token: USDC_ADDRESS, spender: UPTO_PROXY_ADDRESS, to: payTo, facilitator } as const
  const permit = {
    owner: payer.address,
    spender: PERMIT2_ADDRESS,
    amount: permitAmount,
    nonce: permitNonce,
    deadline: permitDeadline,
  } as const
  return {
    network: `eip155:${DEVNET_CHAIN_ID}`,
    asset: USDC_ADDRESS,
    payer: payer.address,
    payTo: lowerCase(payTo),
    facilitator: lowerCase(facilitator),
    spender: UPTO_PROXY_ADDRESS,
    authorizedMaximum: atomicAmount(amount),
    nonce,
    deadline,
    validAfter,
    signature: await signWitness(signer, { ...parties, amount, nonce, deadline, validAfter }),
    gasSponsoring: gasSponsored
      ? {
          from: payer.address,
          asset: USDC_ADDRESS,
          spender: PERMIT2_ADDRESS,
          amount: permitAmount,
          nonce: permitNonce,
          deadline: permitDeadline,
          signature: await signPermit(signer, permit),
          version: '1',
        }
      : null,
  }
}

function lowerCase(address: Address): Hex {
  return address.toLowerCase() as Hex
}
