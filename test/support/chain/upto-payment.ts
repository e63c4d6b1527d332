import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired, PaymentRequirements } from '@x402/core/types'
import { toClientEvmSigner, x402UptoPermit2ProxyABI } from '@x402/evm'
import { UptoEvmScheme as UptoClientScheme } from '@x402/evm/upto/client'
import { UptoEvmScheme as UptoFacilitatorScheme } from '@x402/evm/upto/facilitator'
import { declareEip2612GasSponsoringExtension } from '@x402/extensions'
import {
  type Address,
  createWalletClient,
  type Hex,
  http,
  type PublicClient,
  parseSignature,
  type TransactionReceipt,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/chain/network/base-chain.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { SandboxAccount } from '../../../infra/sandbox/chain/fund-devnet.ts'
import type { PayerAccount } from '../payer/payer.ts'
import type { TestDevnet } from './devnet.ts'

/** The part of an upto payload that is sent on chain. */
export interface UptoAuthorization {
  signature: Hex
  permit2Authorization: {
    from: Address
    permitted: { token: Address; amount: string }
    spender: Address
    nonce: string
    deadline: string
    witness: { to: Address; facilitator: Address; validAfter: string }
  }
}

/** The gas-sponsoring permit that the official client adds to a payment. */
export interface PermitInfo {
  amount: string
  deadline: string
  nonce: string
  signature: Hex
}

export function requirementsFor(devnet: TestDevnet, maximumAtomic: bigint): PaymentRequirements {
  return {
    scheme: 'upto',
    network: 'eip155:8453',
    amount: maximumAtomic.toString(),
    asset: DEVNET_ADDRESSES.usdc,
    payTo: devnet.accounts.recipient.address,
    maxTimeoutSeconds: 300,
    extra: {
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: devnet.accounts.settlement.address,
    },
  }
}

export function paymentRequiredFor(requirements: PaymentRequirements): PaymentRequired {
  return {
    x402Version: 2,
    resource: { url: 'http://127.0.0.1/v1/images/generations' },
    accepts: [requirements],
    extensions: declareEip2612GasSponsoringExtension(),
  }
}

/** Creates the official client, which reads the chain through the devnet. */
function createOfficialClient(
  devnet: TestDevnet,
  account: Pick<PayerAccount, 'address' | 'signTypedData'>,
): x402Client {
  const signer = toClientEvmSigner(account, devnet.client)
  return new x402Client().register('eip155:8453', new UptoClientScheme(signer))
}

/** Signs a payment with the official client, by default as the devnet's payer. */
export async function signPayment(
  devnet: TestDevnet,
  maximumAtomic: bigint,
  account: Pick<PayerAccount, 'address' | 'signTypedData'> = privateKeyToAccount(devnet.accounts.payer.privateKey),
): Promise<PaymentPayload> {
  const required = paymentRequiredFor(requirementsFor(devnet, maximumAtomic))
  return createOfficialClient(devnet, account).createPaymentPayload(required)
}

export function authorizationOf(payment: PaymentPayload): UptoAuthorization {
  return payment.payload as unknown as UptoAuthorization
}

export function permitInfoOf(payment: PaymentPayload): PermitInfo | undefined {
  const extension = payment.extensions?.['eip2612GasSponsoring'] as { info: Partial<PermitInfo> } | undefined
  return extension?.info.signature === undefined ? undefined : (extension.info as PermitInfo)
}

function settleArguments({ signature, permit2Authorization }: UptoAuthorization, chargeAtomic: bigint) {
  const { permitted, nonce, deadline, from, witness } = permit2Authorization
  return [
    {
      permitted: { token: permitted.token, amount: BigInt(permitted.amount) },
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
    },
    chargeAtomic,
    from,
    { to: witness.to, facilitator: witness.facilitator, validAfter: BigInt(witness.validAfter) },
    signature,
  ] as const
}

/** Simulates and sends the settlement, then waits for its receipt. A revert throws the contract's error. */
export async function settle(
  devnet: TestDevnet,
  authorization: UptoAuthorization,
  chargeAtomic: bigint,
  sender: SandboxAccount = devnet.accounts.settlement,
): Promise<TransactionReceipt> {
  const { request } = await devnet.client.simulateContract({
    account: privateKeyToAccount(sender.privateKey),
    chain: base,
    address: DEVNET_ADDRESSES.uptoProxy,
    abi: x402UptoPermit2ProxyABI,
    functionName: 'settle',
    args: settleArguments(authorization, chargeAtomic),
  })
  const hash = await createWalletClient({ chain: base, transport: http(devnet.rpcUrl) }).writeContract(request)
  return devnet.client.waitForTransactionReceipt({ hash })
}

/** Settles with the payer's permit. */
export async function settleWithPermit(
  devnet: TestDevnet,
  payment: PaymentPayload,
  chargeAtomic: bigint,
): Promise<TransactionReceipt> {
  const permit = permitInfoOf(payment)
  if (permit === undefined) throw new Error('The payment contains no permit.')
  const { r, s, v } = parseSignature(permit.signature)
  const { request } = await devnet.client.simulateContract({
    account: privateKeyToAccount(devnet.accounts.settlement.privateKey),
    chain: base,
    address: DEVNET_ADDRESSES.uptoProxy,
    abi: x402UptoPermit2ProxyABI,
    functionName: 'settleWithPermit',
    args: [
      { value: BigInt(permit.amount), deadline: BigInt(permit.deadline), r, s, v: Number(v) },
      ...settleArguments(authorizationOf(payment), chargeAtomic),
    ],
  })
  const hash = await createWalletClient({ chain: base, transport: http(devnet.rpcUrl) }).writeContract(request)
  return devnet.client.waitForTransactionReceipt({ hash })
}

function refuse(): Promise<never> {
  return Promise.reject(new Error('This facilitator only verifies.'))
}

/** Creates the SDK's facilitator. It simulates from the settlement key's address, since the proxy rejects any other. */
export function createOfficialFacilitator(devnet: TestDevnet): UptoFacilitatorScheme {
  const client: PublicClient = devnet.client
  const facilitator = devnet.accounts.settlement.address
  return new UptoFacilitatorScheme({
    getAddresses: () => [facilitator],
    readContract: (args) => client.readContract({ ...args, account: facilitator }),
    verifyTypedData: (args) => client.verifyTypedData(args as never),
    getCode: (args) => client.getCode(args),
    writeContract: refuse,
    sendTransaction: refuse,
    waitForTransactionReceipt: refuse,
  })
}
