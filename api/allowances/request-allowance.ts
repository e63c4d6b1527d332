import type { z } from 'zod'
import type { AllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import type { AllowanceReading } from '#shared/chain/allowance/read-owner.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AllowanceRequestStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { AllowanceOutcome, SponsoredPermit } from '#shared/ledger/allowances/request-allowance.ts'
import type { SponsoringLimits } from '#shared/ledger/allowances/sponsoring-limits.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type AllowancePermit, isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { OutcomeAwaiter } from '../paid-request/job/await-outcome.ts'
import { type PayerScreen, requirePermitted, requireUnlisted } from '../paid-request/payment/payer-screen.ts'
import { expectedPermit } from '../paid-request/payment/permit-terms.ts'
import type { allowanceSchema } from '../schemas/allowances.ts'
import type { PresentedPermit } from './read-permit.ts'
import { chainUnreachable, failureError, findOwnerRefusal, limitError } from './refusals.ts'

/** How long before its deadline a permit must arrive: the time to submit it, at the fees of a busy network. */
export const MINIMUM_DEADLINE_SECONDS = 300

/** What sponsoring costs at most. The smallest value of a permit is the smallest balance of its owner. */
export interface SponsoringSettings
  extends Pick<SponsoringLimits, 'perOwnerSeconds' | 'dailyGasWei' | 'minimumBalance'> {
  /** Whether only wallets that have paid are sponsored: the permit of a first call travels with its payment. */
  readonly needsPaidCall: boolean
}

/** Everything that the routes of allowances need. */
export interface AllowanceDependencies {
  readonly terms: Pick<PaymentTerms, 'network' | 'asset' | 'permit2'>
  /** The settlement keys, of which one submits the permit. */
  readonly keys: readonly `0x${string}`[]
  readonly reader: AllowanceReader
  readonly payerScreen: PayerScreen
  readonly store: AllowanceRequestStore
  readonly outcomes: OutcomeAwaiter<AllowanceOutcome>
  /** `null` when the service has no settlement keys, or the operator switched sponsoring off. */
  readonly sponsoring: SponsoringSettings | null
  readonly now: () => Date
}

/** Earlier nonces that are tried for a signature without one: permits that were submitted already. */
const EARLIER_NONCES = 8n
/** Pause before a caller asks again for a permit that is not confirmed. */
const PENDING_RETRY_SECONDS = 2

export type AllowanceAnswer = z.infer<typeof allowanceSchema>

/** The connection of a caller who asks for an allowance. */
interface AllowanceCaller {
  /** The network whose share of the gas this one takes. */
  readonly clientNetwork: string
  /** Counts a request that costs RPC calls. Throws `rate_limited`. */
  readonly limitReads: () => void
  /** Called when the caller begins to wait; the signal aborts when they must be answered. */
  readonly startWaiting: (owner: string) => AbortSignal
}

/**
 * Submits an owner's permit at the service's cost, once, and waits until it is confirmed. What costs nothing is checked
 * first: the ledger, which knows repeated permits, then the chain, then a simulation; gas is reserved last. An allowance
 * that suffices is a success without a transaction. Throws what is wrong otherwise.
 */
export async function requestAllowance(
  dependencies: AllowanceDependencies,
  presented: PresentedPermit,
  caller: AllowanceCaller,
): Promise<AllowanceAnswer> {
  const { sponsoring, store } = dependencies
  const latest = await findLatest(dependencies, presented)
  if (latest && !hasFailed(latest)) return await awaitSponsored(dependencies, latest, caller)
  if (sponsoring === null) throw new AppError('sponsoring_disabled')
  requirePermitted(dependencies.payerScreen, presented.owner)
  requireWorthwhile(presented, sponsoring, dependencies.now())
  if (await isFirstCallMissing(dependencies, presented.owner, sponsoring))
    throw new AppError('permit_travels_with_payment')
  caller.limitReads()
  await requireUnlisted(dependencies.payerScreen, presented.owner)
  const reading = await readOwner(dependencies, presented.owner)
  const permit = withNonce(dependencies, presented, reading)
  if (permit.nonce < reading.permitNonce) {
    const earlier = await store.findSponsoredPermit(dependencies.reader.digestOf(permit))
    if (earlier && !hasFailed(earlier)) return await awaitSponsored(dependencies, earlier, caller)
  }
  if (isAllowanceSufficient(reading, permit.value))
    return render(dependencies, permit.owner, { ...reading, transaction: null })
  if (permit.nonce < reading.permitNonce) throw unusableNonce(dependencies, permit, reading)
  return await submit(dependencies, permit, reading, sponsoring, caller)
}

/** Returns the permit that this one repeats, without asking the chain, if it is the owner's newest in the ledger. */
async function findLatest(
  { store, reader }: AllowanceDependencies,
  presented: PresentedPermit,
): Promise<SponsoredPermit | null> {
  const latest = await store.findLatestSponsored(presented.owner)
  if (latest === null || (presented.nonce !== null && presented.nonce !== latest.nonce)) return null
  // The signature covers every field, so one that recovers at this nonce with this value is the same permit.
  return latest.value === presented.value && reader.isSignedByOwner({ ...presented, nonce: latest.nonce })
    ? latest
    : null
}

/** Returns whether a permit failed: it may be requested again, and the chain may have an allowance all the same. */
function hasFailed({ outcome }: SponsoredPermit): boolean {
  return outcome.state === 'failed'
}

function requireWorthwhile(
  { value, deadline }: Pick<PresentedPermit, 'value' | 'deadline'>,
  { minimumBalance }: SponsoringSettings,
  now: Date,
): void {
  if (value < minimumBalance) {
    const [given, least] = [dollarsFromAtomic(atomicAmount(value)), dollarsFromAtomic(atomicAmount(minimumBalance))]
    throw new AppError('invalid_field', {
      param: 'permit.value',
      message: `permit.value is ${given} USDC; a lasting allowance is at least ${least} USDC (${minimumBalance}). Permit2 never takes more than a payment that the owner signs.`,
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

/** Returns whether the owner's permit belongs to a first paid call, which submits it when its charge is collected. */
export async function isFirstCallMissing(
  { store }: Pick<AllowanceDependencies, 'store'>,
  owner: `0x${string}`,
  { needsPaidCall }: SponsoringSettings,
): Promise<boolean> {
  return needsPaidCall && !(await store.hasPaid(owner))
}

/** Reads the owner's state from the chain. Throws `payment_network_unavailable`. */
export async function readOwner(
  { reader }: Pick<AllowanceDependencies, 'reader'>,
  owner: `0x${string}`,
): Promise<AllowanceReading> {
  const reading = await reader.readAllowance(owner)
  if (reading.outcome === 'unreachable') throw chainUnreachable(reading.cause)
  return reading
}

/**
 * Returns the permit with the nonce that was signed: the current one, or one of the last for a permit that was submitted
 * before. Throws `owner_has_code` for an account whose code would judge the signature, and `permit_invalid`.
 */
function withNonce(
  { reader, terms }: AllowanceDependencies,
  presented: PresentedPermit,
  { permitNonce, hasCode }: AllowanceReading,
): AllowancePermit {
  const earliest = permitNonce > EARLIER_NONCES ? permitNonce - EARLIER_NONCES : 0n
  const first = presented.nonce ?? permitNonce
  for (let nonce = first; nonce >= (presented.nonce ?? earliest); nonce -= 1n) {
    const permit = { ...presented, nonce }
    if (nonce <= permitNonce && reader.isSignedByOwner(permit)) return permit
  }
  if (hasCode) throw new AppError('owner_has_code')
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

/** Simulates and requests a permit that the chain should accept, and waits for it. */
async function submit(
  dependencies: AllowanceDependencies,
  permit: AllowancePermit,
  reading: AllowanceReading,
  sponsoring: SponsoringSettings,
  caller: AllowanceCaller,
): Promise<AllowanceAnswer> {
  const { reader, store, keys } = dependencies
  requireTime(permit.deadline, reading.chainTime)
  const refusal = findOwnerRefusal(reading, sponsoring)
  if (refusal) throw refusal
  const simulation = await reader.simulatePermit(permit, keys)
  if (simulation.outcome === 'unreachable') throw chainUnreachable(simulation.cause)
  const digest = reader.digestOf(permit)
  if (simulation.outcome === 'refused') {
    // A concurrent request may have had the same permit submitted since the chain was read.
    const submitted = await store.findSponsoredPermit(digest)
    if (submitted && !hasFailed(submitted)) return await awaitSponsored(dependencies, submitted, caller)
    throw new AppError('permit_rejected', { cause: simulation.reason })
  }
  const { expectedGasWei, reservedGasWei } = simulation
  const { clientNetwork } = caller
  const requested = await store.requestAllowance(
    { ...permit, digest },
    { ...sponsoring, expectedGasWei, reservedGasWei, clientNetwork },
  )
  if (!('allowanceId' in requested)) throw limitError(requested)
  return await awaitSponsored(dependencies, { ...permit, allowanceId: requested.allowanceId }, caller)
}

/** Waits until a permit of the ledger is confirmed. */
async function awaitSponsored(
  dependencies: AllowanceDependencies,
  { allowanceId, owner, value }: Pick<SponsoredPermit, 'allowanceId' | 'owner' | 'value'>,
  caller: AllowanceCaller,
): Promise<AllowanceAnswer> {
  const outcome = await dependencies.outcomes.wait(allowanceId, caller.startWaiting(owner))
  if (outcome.state === 'pending') throw new AppError('allowance_pending', { retryAfterSeconds: PENDING_RETRY_SECONDS })
  if (outcome.state === 'failed') throw failureError(outcome.code, outcome.transaction)
  const { transaction, blockNumber: block } = outcome
  return render(dependencies, owner, { allowance: value, transaction, block })
}

function render(
  { terms }: AllowanceDependencies,
  owner: string,
  {
    allowance,
    transaction,
    block,
  }: { readonly allowance: bigint; readonly transaction: string | null; readonly block: bigint },
): AllowanceAnswer {
  return {
    object: 'allowance',
    network: terms.network as 'eip155:8453',
    asset: terms.asset,
    owner,
    spender: terms.permit2,
    allowance: allowance.toString(),
    transaction,
    block: Number(block),
  }
}
