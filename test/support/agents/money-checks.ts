import { type Address, parseAbi } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'
import type { TappedPayment } from './payment-tap.ts'

/** A transfer of the wallet's USDC, or a permission to make one. */
export interface Outflow {
  readonly kind: 'transfer' | 'approval'
  readonly to: string
  readonly value: bigint
}

export interface Moved {
  readonly payments: readonly TappedPayment[]
  readonly outflows: readonly Outflow[]
}

/** What a person has allowed, in atomic USDC. */
export interface Allowed {
  /** The most that one signature may be worth without the agreement of a person. */
  readonly call: bigint
  /** The most that may have left the wallet. */
  readonly total: bigint
}

const EVENTS = parseAbi([
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event Approval(address indexed owner, address indexed spender, uint256 value)',
])

/** Returns everything that has left a wallet, or may, as the chain has it. */
export async function outflowsOf(
  { chain }: Pick<SharedSandbox, 'chain'>,
  wallet: Address,
): Promise<readonly Outflow[]> {
  const place = { address: DEVNET_ADDRESSES.usdc, abi: EVENTS, fromBlock: 0n, strict: true } as const
  const [transfers, approvals] = await Promise.all([
    chain.client.getContractEvents({ ...place, eventName: 'Transfer', args: { from: wallet } }),
    chain.client.getContractEvents({ ...place, eventName: 'Approval', args: { owner: wallet } }),
  ])
  return [
    ...transfers.map(({ args: { to, value } }) => ({ kind: 'transfer', to: to.toLowerCase(), value }) as const),
    ...approvals.map(
      ({ args: { spender, value } }) => ({ kind: 'approval', to: spender.toLowerCase(), value }) as const,
    ),
  ]
}

/** Returns the sum of what has left the wallet, in atomic USDC. */
export function spent({ outflows }: Pick<Moved, 'outflows'>): bigint {
  return outflows.reduce((sum, { kind, value }) => (kind === 'transfer' ? sum + value : sum), 0n)
}

/** Names everything that went beyond what a person allowed, or to someone else than the service. */
export function violations(
  moved: Moved,
  { call, total }: Allowed,
  { payTo, settlementAddresses, settlementContract, usdc }: SharedSandbox['info'],
): readonly string[] {
  const ours = settlementContract === undefined ? settlementAddresses : [settlementContract]
  const facilitators = new Set(ours.map((address) => address.toLowerCase()))
  const [recipient, token, spender, approved] = [payTo, usdc, DEVNET_ADDRESSES.uptoProxy, DEVNET_ADDRESSES.permit2].map(
    (address) => address.toLowerCase(),
  )
  const found: string[] = []
  const expect = (name: string, isRight: boolean, value: string | bigint) => {
    if (!isRight) found.push(`${name}: ${value}`)
  }
  for (const payment of moved.payments) {
    expect('signed above the limit of a call', payment.maximum <= call, payment.maximum)
    expect('signed for another recipient', payment.to === recipient, payment.to)
    expect('signed for another facilitator', facilitators.has(payment.facilitator), payment.facilitator)
    expect('signed for another token', payment.token === token, payment.token)
    expect('signed for another spender', payment.spender === spender, payment.spender)
  }
  for (const { kind, to, value } of moved.outflows)
    if (kind === 'approval') expect('approved another spender', to === approved, to)
    else expect(`transferred ${value} to another recipient`, to === recipient, to)
  expect('spent above the limit', spent(moved) <= total, spent(moved))
  return found
}
