import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { encodeFunctionData, numberToHex, type PublicClient, parseSignature, prepareEncodeFunctionData } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, type GasSponsoringPermit, lastingPermitOf } from '#shared/payment/authorization.ts'
import { settlementContractAbi, UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { isFeeRefusal, isRevert } from '../network/rpc-failure.ts'

/**
 * Gas limits. Measured on a devnet: 91,000 to 128,000 for `settle`, 177,000 for `settleWithPermit`. Unused gas is not
 * paid.
 */
const SETTLE_GAS = 200_000n
export const SETTLE_WITH_PERMIT_GAS = 300_000n
/** The gas that `settleWithPermit` uses. */
export const EXPECTED_SETTLE_WITH_PERMIT_GAS = 177_000n

/* Finds each function and hashes its selector once. viem would do both for every call. */
const settle = prepareEncodeFunctionData({ abi: x402UptoPermit2ProxyABI, functionName: 'settle' })
const settleWithPermit = prepareEncodeFunctionData({ abi: x402UptoPermit2ProxyABI, functionName: 'settleWithPermit' })
const settleAfterPermit = prepareEncodeFunctionData({
  abi: settlementContractAbi,
  functionName: 'settleAfterPermit',
})
/** Characters of `0x` and a selector. */
const SELECTOR_END = 10

/** Returns the most gas that a settlement may use. */
export function settlementGas(authorization: Authorization, submitsPermit: boolean): bigint {
  return submitsPermit || lastingPermitOf(authorization) ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS
}

/**
 * Returns the call that moves `amount` from payer to recipient: of the proxy, with `submitsPermit` after submitting the
 * payer's EIP-2612 permit; of the settlement contract for a payment with a lasting permit, which decides whether it has to
 * be submitted, since several payments in one batch may share it.
 */
export function settlementCall(
  authorization: Authorization,
  amount: AtomicAmount,
  { submitsPermit }: { submitsPermit: boolean },
): { to: `0x${string}`; data: `0x${string}` } {
  const { gasSponsoring: permit } = authorization
  if (submitsPermit && !permit) throw new Error('an authorization without a permit cannot submit one')
  const transfer = [
    {
      permitted: { token: authorization.asset, amount: authorization.authorizedMaximum },
      nonce: authorization.nonce,
      deadline: authorization.deadline,
    },
    amount,
    authorization.payer,
    {
      to: authorization.payTo,
      facilitator: authorization.facilitator,
      validAfter: authorization.validAfter,
    },
    authorization.signature,
  ] as const
  const lasting = lastingPermitOf(authorization)
  if (lasting) {
    const data = encodeFunctionData({ ...settleAfterPermit, args: [permitArgument(lasting)] })
    const behind = encodeFunctionData({ ...settle, args: transfer }).slice(SELECTOR_END)
    return { to: authorization.facilitator, data: `${data}${behind}` as `0x${string}` }
  }
  if (!submitsPermit || !permit)
    return {
      to: UPTO_PROXY_ADDRESS,
      data: encodeFunctionData({ ...settle, args: transfer }),
    }
  return {
    to: UPTO_PROXY_ADDRESS,
    data: encodeFunctionData({ ...settleWithPermit, args: [permitArgument(permit), ...transfer] }),
  }
}

function permitArgument({ amount: value, deadline, signature }: GasSponsoringPermit) {
  const { r, s, yParity } = parseSignature(signature)
  return { value, deadline, r, s, v: yParity + 27 }
}

export type Simulation =
  | { outcome: 'succeeds'; needsPermit: boolean }
  | { outcome: 'reverts' }
  | { outcome: 'unreachable'; cause: unknown }

/** The fees of the transaction that will be sent. */
export interface SimulatedFees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/**
 * Simulates the settlement as the facilitator's call, with the gas limit and the fees of the transaction: a payer's
 * code could otherwise pass the simulation with more gas than the transaction has, or recognize it by its gas price.
 * Prefers to succeed without the permit: submitting it would replace a lasting approval with a single payment's
 * maximum. One RPC call, or two concurrent ones when the payment has a permit.
 */
export async function simulateSettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  fees: SimulatedFees | null,
): Promise<Simulation> {
  const [plain, withPermit] = await Promise.all([
    simulate(client, authorization, amount, { submitsPermit: false, fees }),
    mayNeedPermit(authorization) ? simulate(client, authorization, amount, { submitsPermit: true, fees }) : null,
  ])
  if (plain.outcome !== 'reverts' || !withPermit) return plain
  return withPermit
}

/** Returns whether the settlement differs with `submitsPermit`: a lasting permit is the contract's matter. */
export function mayNeedPermit(authorization: Authorization): boolean {
  return authorization.gasSponsoring !== null && lastingPermitOf(authorization) === null
}

interface SimulationTerms {
  readonly submitsPermit: boolean
  readonly fees: SimulatedFees | null
}

async function simulate(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  { submitsPermit, fees }: SimulationTerms,
): Promise<Simulation> {
  const call = {
    // The proxy lets only the facilitator that the payer signed settle, so the call must come from that address.
    from: authorization.facilitator,
    ...settlementCall(authorization, amount, { submitsPermit }),
    gas: numberToHex(settlementGas(authorization, submitsPermit)),
    ...(fees && {
      maxFeePerGas: numberToHex(fees.maxFeePerGas),
      maxPriorityFeePerGas: numberToHex(fees.maxPriorityFeePerGas),
    }),
  }
  try {
    const answer = await client.request({ method: 'eth_call', params: [call, 'latest'] })
    // A call of an account without code succeeds: it is no settlement contract, and answers nothing.
    if (lastingPermitOf(authorization) && answer === '0x') return { outcome: 'reverts' }
    return { outcome: 'succeeds', needsPermit: submitsPermit }
  } catch (cause) {
    // The settlement key has too little gas, or the fee limit is too low. That is reported where gas is checked.
    if (fees && isFeeRefusal(cause)) return await simulate(client, authorization, amount, { submitsPermit, fees: null })
    return isRevert(cause) ? { outcome: 'reverts' } : { outcome: 'unreachable', cause }
  }
}
