import type { AllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import type { PermitSubmitter, PreparedPermit } from '#shared/chain/allowance/permit-submitter.ts'
import type { AllowanceReading } from '#shared/chain/allowance/read-owner.ts'
import type { GasReader } from '#shared/chain/settlement/gas-reader.ts'
import type { SettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { AllowanceWorkStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { ClaimedPermit, SignedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { PermitFailure } from './judge-permit.ts'

export interface SignPermitDependencies {
  readonly allowanceStore: Pick<AllowanceWorkStore, 'recordPermit' | 'confirmAllowance' | 'failAllowance'>
  readonly settlementStore: Pick<SettlementStore, 'readNextAccountNonce'>
  readonly allowances: Pick<AllowanceReader, 'readAllowance'>
  readonly permits: Pick<PermitSubmitter, 'facilitatorOf' | 'prepare' | 'sign'>
  readonly accounts: Pick<SettlementAccounts, 'countAccountNonces'>
  readonly gas: GasReader
  /** Settlements that a key must be able to pay for before it pays for permits. */
  readonly gasWarningSettlements: number
  readonly logger: Logger
}

/** A permit that expires sooner is not sent: it may be mined too late, and would cost gas for nothing. */
const LEAST_REMAINING_SECONDS = 30n
/** How long a permit waits for a chain that does not answer. Nothing was signed, so its owner may ask again. */
const LONGEST_WAIT_MS = 600_000

/** `ended`: its state is final, or another worker has it. */
export type Signing =
  | { readonly next: 'follow'; readonly signed: SignedPermit }
  | { readonly next: 'wait' }
  | { readonly next: 'ended' }

/**
 * Moves requested → signed, after everything that decides whether the permit is worth gas was read again: the API
 * checked it a while ago, and simulations are free. What fails here ends without a transaction and without a cost.
 */
export async function signPermit(dependencies: SignPermitDependencies, claim: ClaimedPermit): Promise<Signing> {
  const { allowanceStore, settlementStore, allowances, permits, accounts, gas, logger } = dependencies
  const { allowanceId, permit, network } = claim
  const waitFor = async (cause: unknown): Promise<Signing> => {
    logger.warn('payment network unreachable', { allowanceId, error: cause })
    if (claim.ageMs < LONGEST_WAIT_MS) return { next: 'wait' }
    return fail({ code: 'payment_network_unavailable', reason: 'the payment network cannot be reached' })
  }
  const fail = async (failure: PermitFailure): Promise<Signing> => {
    await allowanceStore.failAllowance(claim, failure, null)
    return { next: 'ended' }
  }

  const reading = await allowances.readAllowance(permit.owner)
  if (reading.outcome === 'unreachable') return waitFor(reading.cause)
  if (reading.permitNonce > permit.nonce && isAllowanceSufficient(reading, permit.value)) {
    await allowanceStore.confirmAllowance(claim, { by: 'other_submission', blockNumber: reading.block, mined: null })
    return { next: 'ended' }
  }
  const refusal = refuse(claim, reading)
  if (refusal) return fail(refusal)

  const facilitator = permits.facilitatorOf(permit.owner)
  try {
    const { settlementsLeft } = await gas.readGas(facilitator)
    if (settlementsLeft < dependencies.gasWarningSettlements)
      return await fail({ code: 'gas_unavailable', reason: `${facilitator} is low on gas` })
    const prepared = await permits.prepare(permit, claim.reservedGasWei)
    if (prepared.outcome === 'unreachable') return await waitFor(prepared.cause)
    if (prepared.outcome !== 'ready') return await fail(failureOf(prepared))
    const account = { network, facilitator }
    const isKnown = (await settlementStore.readNextAccountNonce(account)) !== null
    const signed = await allowanceStore.recordPermit(claim, {
      account,
      // The chain counts a key's first transaction, the ledger all later ones.
      minimumAccountNonce: isKnown ? 0n : await accounts.countAccountNonces(facilitator),
      sign: (accountNonce) => permits.sign(permit, prepared.terms, accountNonce),
    })
    if (signed === 'queue_full') return { next: 'wait' }
    return signed === 'stale' ? { next: 'ended' } : { next: 'follow', signed }
  } catch (error) {
    return waitFor(error)
  }
}

/** Returns why the chain's state makes the permit useless, or `null`. */
function refuse({ permit, minimumBalance }: ClaimedPermit, reading: AllowanceReading): PermitFailure | null {
  const { permitNonce, hasCode, balance, chainTime } = reading
  if (permitNonce > permit.nonce)
    return { code: 'permit_already_used', reason: `the owner's next permit nonce is ${permitNonce}` }
  if (permitNonce < permit.nonce)
    return { code: 'permit_rejected', reason: `the owner's next permit nonce is ${permitNonce}` }
  if (hasCode) return { code: 'owner_has_code', reason: 'the account runs code' }
  if (balance < minimumBalance) return { code: 'owner_balance_too_low', reason: `the owner has ${balance}` }
  if (permit.deadline < chainTime + LEAST_REMAINING_SECONDS)
    return { code: 'permit_expired', reason: `the deadline is ${permit.deadline}, the chain's time ${chainTime}` }
  return null
}

function failureOf(prepared: Extract<PreparedPermit, { outcome: 'refused' | 'underpriced' }>): PermitFailure {
  return prepared.outcome === 'refused'
    ? { code: 'permit_rejected', reason: prepared.reason }
    : { code: 'gas_unavailable', reason: 'fees rose beyond what was reserved' }
}
