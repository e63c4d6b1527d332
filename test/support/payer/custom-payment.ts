import { decodePaymentRequiredHeader } from '@x402/core/http'
import type { PaymentRequired } from '@x402/core/types'
import { uptoPermit2WitnessTypes } from '@x402/evm'
import { type Address, createWalletClient, type Hex, http, maxUint256, parseAbi, parseEther, toHex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/adapters/chain/base-chain.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/devnet.ts'
import { mintUsdc } from '../../../infra/sandbox/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import { createChainReader } from '../chain/devnet.ts'

/** A payer's account beside the sandbox's own. */
export interface TestPayer {
  readonly account: PrivateKeyAccount
  readonly rpcUrl: string
}

const USDC_WRITE_ABI = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])
const PERMIT2_WRITE_ABI = parseAbi(['function invalidateUnorderedNonces(uint256 word, uint256 mask)'])

/** A fresh account with `usdcAtomic` USDC; with `approved` Permit2 may take all of it, so that it needs no sponsoring. */
export async function createPayer(
  rpcUrl: string,
  { usdcAtomic, approved }: { usdcAtomic: bigint; approved: boolean },
): Promise<TestPayer> {
  const payer = { account: privateKeyToAccount(generatePrivateKey()), rpcUrl }
  if (usdcAtomic > 0n) await mintUsdc(rpcUrl, payer.account.address, usdcAtomic)
  if (approved) await approvePermit2(payer, maxUint256)
  return payer
}

async function approvePermit2(payer: TestPayer, value: bigint): Promise<void> {
  const wallet = await walletOf(payer)
  await mined(
    payer,
    await wallet.writeContract({
      address: DEVNET_ADDRESSES.usdc,
      abi: USDC_WRITE_ABI,
      functionName: 'approve',
      args: [DEVNET_ADDRESSES.permit2, value],
    }),
  )
}

/** Burns a Permit2 nonce on chain, as its owner may at any time. */
export async function burnNonce(payer: TestPayer, nonce: bigint): Promise<void> {
  const wallet = await walletOf(payer)
  await mined(
    payer,
    await wallet.writeContract({
      address: DEVNET_ADDRESSES.permit2,
      abi: PERMIT2_WRITE_ABI,
      functionName: 'invalidateUnorderedNonces',
      args: [nonce >> 8n, 1n << (nonce & 255n)],
    }),
  )
}

/** The payer's wallet, with native gas. */
export async function walletOf({ account, rpcUrl }: TestPayer) {
  await callRpc(rpcUrl, 'anvil_setBalance', [account.address, toHex(parseEther('1'))])
  return createWalletClient({ account, chain: base, transport: http(rpcUrl) })
}

async function mined({ rpcUrl }: TestPayer, hash: Hex): Promise<void> {
  const { status } = await createChainReader(rpcUrl).client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`${hash} was reverted`)
}

/** What a payer signs, with everything that a test may want to be otherwise. */
export interface SignedTerms {
  payer: Address
  token: Address
  amount: bigint
  spender: Address
  nonce: bigint
  deadline: bigint
  to: Address
  facilitator: Address
  validAfter: bigint
}

/** What a payer signs for gas sponsoring (EIP-2612). */
export interface PermitTerms {
  owner: Address
  spender: Address
  amount: bigint
  nonce: bigint
  deadline: bigint
}

/** A payment before it is encoded; JSON throughout. */
export type CustomPayment = Record<string, unknown>

export function challengeOf(answer: Response): PaymentRequired {
  return decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
}

/**
 * Signs a challenge the way the official client does, except for what `terms` (signed and sent) says otherwise. `permit`
 * adds a gas-sponsoring permit that is right but for its own members.
 */
export async function signCustomPayment(
  required: PaymentRequired,
  { account }: TestPayer,
  options: { terms?: Partial<SignedTerms>; permit?: Partial<PermitTerms> } = {},
): Promise<CustomPayment> {
  const [accepted] = required.accepts
  if (accepted === undefined) throw new Error('the challenge accepts nothing')
  const terms: SignedTerms = {
    payer: account.address,
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
      : { extensions: { eip2612GasSponsoring: await signPermit(account, terms, options.permit) } }
  return {
    x402Version: 2,
    resource: required.resource,
    accepted,
    payload: {
      signature: await signTerms(account, terms),
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

export function randomNonce(): bigint {
  return BigInt(generatePrivateKey())
}

export function secondsFromNow(seconds: number): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + seconds)
}

function signTerms(account: PrivateKeyAccount, terms: SignedTerms): Promise<Hex> {
  const { token, amount, spender, nonce, deadline, to, facilitator, validAfter } = terms
  return account.signTypedData({
    domain: { name: 'Permit2', chainId: DEVNET_CHAIN_ID, verifyingContract: DEVNET_ADDRESSES.permit2 },
    types: uptoPermit2WitnessTypes,
    primaryType: 'PermitWitnessTransferFrom',
    message: { permitted: { token, amount }, spender, nonce, deadline, witness: { to, facilitator, validAfter } },
  })
}

async function signPermit(account: PrivateKeyAccount, terms: SignedTerms, changes: Partial<PermitTerms>) {
  const permit: PermitTerms = {
    owner: account.address,
    spender: DEVNET_ADDRESSES.permit2,
    amount: terms.amount,
    nonce: 0n,
    deadline: terms.deadline,
    ...changes,
  }
  const signature = await account.signTypedData({
    domain: { name: 'USD Coin', version: '2', chainId: DEVNET_CHAIN_ID, verifyingContract: DEVNET_ADDRESSES.usdc },
    types: {
      Permit: [
        { name: 'owner', type: 'address' },
        { name: 'spender', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'nonce', type: 'uint256' },
        { name: 'deadline', type: 'uint256' },
      ],
    },
    primaryType: 'Permit',
    message: { ...permit, value: permit.amount },
  })
  return {
    info: {
      from: permit.owner,
      asset: terms.token,
      spender: permit.spender,
      amount: permit.amount.toString(),
      nonce: permit.nonce.toString(),
      deadline: permit.deadline.toString(),
      signature,
      version: '1',
    },
  }
}

/** A copy with another value at a dotted path; `undefined` removes what stands there. */
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

/** The header that carries a payment. */
export function paymentHeader(payment: unknown): Record<string, string> {
  return { 'payment-signature': Buffer.from(JSON.stringify(payment)).toString('base64') }
}
