import type { ChainClock } from '#shared/chain/reading/chain-clock.ts'
import type { Gas, GasReader } from '#shared/chain/settlement/gas-reader.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { extraOutputSeconds } from '#shared/operations/text/output-time.ts'
import { lastingPermitOf } from '#shared/payment/authorization.ts'
import {
  type CoveredPayment,
  fitsFunds,
  isWorthReading,
  MAXIMUM_READINGS,
  mixesPermits,
  mustFollow,
  type PayerFunds,
  settlingNonces,
} from '#shared/payment/exposure.ts'
import type { JobDependencies } from './dependencies.ts'

export type PaymentCheck =
  /** `hasPaid`: a charge of the payer was settled before. */
  | { readonly outcome: 'payable'; readonly hasPaid: boolean }
  | { readonly outcome: 'refused'; readonly code: ErrorCode; readonly reason: string }
  | { readonly outcome: 'unreachable' }
  /** No settlement key with gas could settle a result: the payer's has none, or the contract lists none that has. */
  | { readonly outcome: 'no_gas' }
  /** It can be settled only after earlier ones of its payer, see `mustFollow`. */
  | { readonly outcome: 'follows_others' }

const TOO_SHORT: PaymentCheck = {
  outcome: 'refused',
  code: 'authorization_too_short',
  reason: 'too little time left before the call',
}

/**
 * Checks the payment again before money is spent upstream, since the payer can move funds at any time: the
 * authorization, and the permit if one is needed, must outlast a provider call and the settlement by chain time; the
 * maximum must be payable now; and the settlement key must have gas.
 */
export async function checkPaymentAgain(dependencies: JobDependencies, job: LeasedJob): Promise<PaymentCheck> {
  const { verifier, chainClock, gas, providerTimeoutMs, outputTokensPerSecond, settlementMarginMs } = dependencies
  const { authorization } = job
  // Beside the verification: what is settled in the meantime is open in the reading, and so counts in any case.
  const reading = readExposure(dependencies, job)
  reading.catch(() => undefined)
  const [verification, network] = await Promise.all([
    verifier.verify(authorization, authorization.authorizedMaximum),
    readNetwork(chainClock, gas, authorization.facilitator),
  ])
  if (!network) return { outcome: 'unreachable' }
  const callMs = providerTimeoutMs + extraOutputSeconds(job.terms, outputTokensPerSecond) * 1000
  const isInTime = (deadline: bigint) => Number(deadline) * 1000 - network.now.getTime() >= callMs + settlementMarginMs
  if (!isInTime(authorization.deadline)) return TOO_SHORT
  if (verification.outcome === 'unreachable') return { outcome: 'unreachable' }
  if (verification.outcome === 'refused')
    return { outcome: 'refused', code: verification.code, reason: 'refused before the provider call' }
  const { gasSponsoring: permit } = authorization
  const lasting = lastingPermitOf(authorization)
  if (verification.needsPermit && permit && !isInTime(permit.deadline)) return TOO_SHORT
  if (network.gas.settlementsLeft < 1) return { outcome: 'no_gas' }
  // One that ends sooner is worth nothing, unless it is on chain by now.
  const usable = lasting && isInTime(lasting.deadline) ? lasting : null
  const { needsPermit } = verification
  const covered = { needsPermit, lasting: usable, endsTooSoon: lasting !== usable }
  return checkFunds(dependencies, job, covered, await reading)
}

/** What the payer has open ahead of a job, and the funds that it was read for. */
interface ExposureReading {
  readonly funds: PayerFunds | null
  readonly exposure: Awaited<ReturnType<ExecutionStore['readExposureAhead']>>
}

async function readExposure(
  { executionStore, payerFunds }: JobDependencies,
  job: LeasedJob,
  reading?: PayerFunds,
): Promise<ExposureReading> {
  const funds = reading ?? (await payerFunds.recent(job.authorization.payer))
  return { funds, exposure: await executionStore.readExposureAhead(job, funds) }
}

interface CheckedFunds extends Omit<CoveredPayment, 'maximum'> {
  /** Whether the verification may have submitted a lasting permit that is of no use later: then it proves nothing. */
  readonly endsTooSoon: boolean
}

/**
 * Checks that the payer's funds cover all of their jobs up to this one, in the order of acceptance: each job alone may
 * look payable after the payer moved most of the funds, or revoked the allowance and left several permits of one nonce.
 * Charges since its acceptance count as well, which include those that the verification may not have seen.
 */
async function checkFunds(
  dependencies: JobDependencies,
  job: LeasedJob,
  { endsTooSoon, ...covered }: CheckedFunds,
  first: ExposureReading,
): Promise<PaymentCheck> {
  const { payer, authorizedMaximum: maximum } = job.authorization
  let { funds, exposure } = first
  let asked: readonly bigint[] | null = null
  for (let readings = 0; ; readings += 1) {
    if (exposure.owes) return { outcome: 'refused', code: 'unpaid_debt', reason: 'an earlier call is unpaid' }
    if (exposure.exhausted)
      return {
        outcome: 'refused',
        code: 'uncharged_work_limit',
        reason: 'too much of the payer’s work stayed uncharged',
      }
    if (mixesPermits(covered.needsPermit, exposure))
      return { outcome: 'refused', code: 'permit2_allowance_required', reason: 'earlier jobs depend on the allowance' }
    const isProven = funds !== null || !endsTooSoon
    const payment = { ...covered, maximum }
    if (isProven && fitsFunds(payment, exposure, funds))
      return mustFollow(payment, exposure, funds)
        ? { outcome: 'follows_others' }
        : { outcome: 'payable', hasPaid: exposure.hasPaid }
    const settling = settlingNonces(exposure)
    if (readings === MAXIMUM_READINGS || !isWorthReading(settling, asked)) {
      if (endsTooSoon) return TOO_SHORT
      return { outcome: 'refused', code: 'insufficient_funds', reason: 'earlier jobs need the funds of the payer' }
    }
    const reading = await dependencies.payerFunds.read(payer, settling)
    if (reading.outcome === 'unreachable') return { outcome: 'unreachable' }
    asked = settling
    ;({ funds, exposure } = await readExposure(dependencies, job, reading.funds))
  }
}

/** Reads chain time and gas; returns `null` when the chain cannot be reached. */
async function readNetwork(
  chainClock: ChainClock,
  gasReader: GasReader,
  facilitator: `0x${string}`,
): Promise<{ now: Date; gas: Gas } | null> {
  try {
    const [now, gas] = await Promise.all([chainClock.chainNow(), gasReader.readGas(facilitator)])
    return { now, gas }
  } catch {
    return null
  }
}
