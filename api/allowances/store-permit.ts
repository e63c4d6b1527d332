import type { z } from 'zod'
import type { AllowanceReader, AllowanceReading } from '#shared/chain/allowance/allowance-reader.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { PermitStore } from '#shared/ledger/allowances/permit-store.ts'
import { atomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type AllowancePermit, isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { type PayerScreen, requirePermitted, requireUnlisted } from '../paid-request/pay/payer-screen.ts'
import { approvalMessage, expectedPermit } from '../paid-request/pay/permit-terms.ts'
import type { allowanceSchema } from '../schemas/allowances.ts'
import type { PresentedPermit } from './read-permit.ts'

/** How long before its deadline a permit must arrive: a call, and its settlement at the fees of a busy network. */
export const MINIMUM_DEADLINE_SECONDS = 300
/** The least balance of an owner, and the least value of the permit: what is stored for nothing must cost a stranger something. */
export const MINIMUM_VALUE = atomicFromDollars('0.10')

/** Everything that the routes of allowances need. */
export interface AllowanceDependencies {
  readonly terms: Pick<PaymentTerms, 'network' | 'asset' | 'permit2' | 'settlementContract'>
  readonly reader: AllowanceReader
  readonly payerScreen: PayerScreen
  readonly permitStore: Pick<PermitStore, 'storePermit' | 'findStoredPermit'>
  readonly now: () => Date
}

/** Earlier nonces that are tried for a signature without one: permits that were used already. */
const EARLIER_NONCES = 8n

export type AllowanceAnswer = z.infer<typeof allowanceSchema>

/**
 * Stores an owner's permit until the settlement contract brings it with the owner's next charge. What costs nothing is
 * checked first, and `limitReads` is called before the chain is read. An allowance that suffices is a success without a
 * stored permit. Throws what is wrong otherwise.
 */
export async function storePermit(
  dependencies: AllowanceDependencies,
  presented: PresentedPermit,
  limitReads: () => void,
): Promise<AllowanceAnswer> {
  const { terms, payerScreen, permitStore, now } = dependencies
  if (terms.settlementContract === null) throw new AppError('permits_not_stored')
  requirePermitted(payerScreen, presented.owner)
  requireWorthwhile(presented, now())
  limitReads()
  await requireUnlisted(payerScreen, presented.owner)
  const reading = await readOwner(dependencies, presented.owner)
  const permit = withNonce(dependencies, presented, reading)
  if (isAllowanceSufficient(reading, permit.value)) return render(dependencies, permit.owner, reading, null)
  if (permit.nonce < reading.permitNonce) throw unusableNonce(dependencies, permit, reading)
  requireTime(permit.deadline, reading.chainTime)
  const refusal = findOwnerRefusal(dependencies.terms, reading)
  if (refusal) throw refusal
  // A node that is behind has not seen that the nonce is used.
  if (!(await permitStore.storePermit(permit))) throw unusableNonce(dependencies, permit, reading)
  return render(dependencies, permit.owner, reading, permit)
}

function requireWorthwhile({ value, deadline }: Pick<PresentedPermit, 'value' | 'deadline'>, now: Date): void {
  if (value < MINIMUM_VALUE) {
    const [given, least] = [dollarsFromAtomic(atomicAmount(value)), dollarsFromAtomic(MINIMUM_VALUE)]
    throw new AppError('invalid_field', {
      param: 'permit.value',
      message: `permit.value is ${given} USDC; a lasting allowance is at least ${least} USDC (${MINIMUM_VALUE}). Permit2 never takes more than a payment that the owner signs.`,
    })
  }
  requireTime(deadline, BigInt(Math.floor(now.getTime() / 1000)))
}

function requireTime(deadline: bigint, nowSeconds: bigint): void {
  if (deadline - nowSeconds >= BigInt(MINIMUM_DEADLINE_SECONDS)) return
  throw new AppError('permit_expired', {
    param: 'permit.deadline',
    message: `permit.deadline must be at least ${MINIMUM_DEADLINE_SECONDS} seconds ahead, in Unix seconds; it is now ${nowSeconds}.`,
  })
}

/** Returns why an owner's permit is not stored, or `null`. */
export function findOwnerRefusal(
  terms: AllowanceDependencies['terms'],
  { wallet, balance }: Pick<AllowanceReading, 'wallet' | 'balance'>,
): AppError | null {
  if (!wallet.signsPermits) return ownerHasCode(terms)
  if (balance >= MINIMUM_VALUE) return null
  const [has, needed] = [dollarsFromAtomic(atomicAmount(balance)), dollarsFromAtomic(MINIMUM_VALUE)]
  return new AppError('owner_balance_too_low', {
    message: `The owner has ${has} USDC; a permit is stored from ${needed} USDC. Add funds first, or send the permit with a payment.`,
  })
}

/** Creates the error of an owner whose code would judge a permit, with the transaction that needs none. */
function ownerHasCode(terms: AllowanceDependencies['terms']): AppError {
  return new AppError('owner_has_code', {
    message: `The owner’s account has code (a smart account or an EIP-7702 delegation), so no permit of it is stored. ${approvalMessage(terms)}`,
  })
}

/** Reads the owner's state from the chain. Throws `payment_network_unavailable`. */
export async function readOwner(
  { reader }: Pick<AllowanceDependencies, 'reader'>,
  owner: `0x${string}`,
): Promise<AllowanceReading> {
  const reading = await reader.readAllowance(owner)
  if (reading.outcome === 'read') return reading
  const message = 'The payment network is unreachable. Nothing was stored; retry shortly.'
  throw new AppError('payment_network_unavailable', { message, cause: reading.cause })
}

/**
 * Returns the permit with the nonce that was signed: the current one, or one of the last for a permit that was used
 * before. Throws `owner_has_code` for an account whose code would judge the signature, and `permit_invalid`.
 */
function withNonce(
  { reader, terms }: AllowanceDependencies,
  presented: PresentedPermit,
  { permitNonce, wallet }: AllowanceReading,
): AllowancePermit {
  const earliest = permitNonce > EARLIER_NONCES ? permitNonce - EARLIER_NONCES : 0n
  const first = presented.nonce ?? permitNonce
  for (let nonce = first; nonce >= (presented.nonce ?? earliest); nonce -= 1n) {
    const permit = { ...presented, nonce }
    if (nonce <= permitNonce && reader.isSignedByOwner(permit)) return permit
  }
  if (wallet.hasCode) throw ownerHasCode(terms)
  throw new AppError('permit_invalid', {
    param: 'permit.signature',
    message: `The signature is not that of ${presented.owner} for this value and deadline. ${expectedPermit(terms, permitNonce)}`,
  })
}

function unusableNonce(
  { terms }: AllowanceDependencies,
  { nonce, value }: AllowancePermit,
  { permitNonce, allowance }: AllowanceReading,
): AppError {
  return new AppError('permit_invalid', {
    param: 'permit.nonce',
    message: `The permit was signed for nonce ${nonce}, which is used, and the allowance is ${allowance} of ${value}. ${expectedPermit(terms, permitNonce)}`,
  })
}

function render(
  { terms }: AllowanceDependencies,
  owner: string,
  { allowance, block }: Pick<AllowanceReading, 'allowance' | 'block'>,
  permit: AllowancePermit | null,
): AllowanceAnswer {
  return {
    object: 'allowance',
    ...partiesOf(terms, owner),
    allowance: allowance.toString(),
    block: Number(block),
    stored_permit: permit && renderPermit(permit),
  }
}

/** Returns who may take how much of whose tokens, as both answers name them. */
export function partiesOf({ network, asset, permit2: spender }: AllowanceDependencies['terms'], owner: string) {
  return { network: network as 'eip155:8453', asset, owner, spender }
}

/** Renders a stored permit. Its signature, with which anyone could submit it, stays in the ledger. */
export function renderPermit({ value, nonce, deadline }: AllowancePermit) {
  return { value: value.toString(), nonce: nonce.toString(), deadline: deadline.toString() }
}
