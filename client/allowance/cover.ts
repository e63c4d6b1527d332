import { type Budget, leastLeft } from '../budget/budget.ts'
import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import type { Challenge } from '../payment/challenge.ts'
import type { Cover } from '../payment/paid-call.ts'
import { unlessAborted } from '../payment/retry-schedule.ts'
import type { LastingPermit } from '../payment/sign-payment.ts'
import { type AllowanceNode, openAllowanceNode } from '../wallet/node-client.ts'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'
import type { AllowanceStatus } from '../wire/schemas.ts'
import { ServiceError } from '../wire/service-error.ts'
import { createSharedPermit, PERMIT2_ADDRESS, takesLastingPermits } from './allowance-terms.ts'
import type { Approval } from './approve.ts'
import { type AllowanceState, allowanceState, askAllowance, isSufficient, UNLIMITED } from './read-allowance.ts'

export interface CoverOptions {
  /** Whether a lasting permit may be signed for payments under way. */
  readonly approves: boolean
  readonly onApproved?: ((approval: Approval) => void) | undefined
}

type CoverContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'wallet' | 'rpcUrl' | 'pins'> & {
  readonly budget: Pick<Budget, 'left' | 'underWay'>
}

/** What the service says of the wallet. */
interface Obtained {
  readonly state: AllowanceState
  readonly nonce: bigint
  readonly isCovered: boolean
  /** Whether the wallet is one that signs no permits, and approves Permit2 in a transaction of its own. */
  readonly needsApproval: boolean
  /** The permit that payments bring until it is on chain. */
  readonly lasting: LastingPermit | null
}

/** Creates the cover of one client's payments. */
export function createCover(context: CoverContext, options: CoverOptions): Cover {
  const { budget, rpcUrl } = context
  const node = rpcUrl === undefined ? null : openAllowanceNode(rpcUrl, context.wallet.address, PERMIT2_ADDRESS)
  const shared = createSharedPermit(context, (allowance) =>
    options.onApproved?.({
      outcome: 'approved',
      owner: context.payer,
      spender: PERMIT2_ADDRESS,
      allowance,
    }),
  )
  let isMissing = false
  /** Whether what is on chain may be something else than the service last said. */
  let hasChanged = false
  let underWay: Promise<Obtained> | null = null
  /** The last challenge that takes a lasting permit. */
  let lastingFor: Challenge | null = null

  const obtainOnce = async (): Promise<Obtained> => {
    hasChanged = false
    const { status, ...before } = await readObtained(context)
    if (before.isCovered) {
      isMissing = false
      shared.drop()
      return before
    }
    isMissing = true
    const value = payable(budget)
    if (before.needsApproval) return before
    if (!lastingFor || value <= lastingFor.maximum) return before
    return { ...before, lasting: await shared.obtain(status, { maximum: lastingFor.maximum, value }) }
  }
  const obtain = async (signal: AbortSignal | undefined) => {
    underWay ??= obtainOnce().finally(() => {
      underWay = null
    })
    return await unlessAborted(underWay, signal, interrupted)
  }

  return {
    noteMissing: () => {
      isMissing = true
    },
    noteChanged: () => {
      hasChanged = true
    },
    widen: async (signal) => {
      if (!options.approves) return 'no'
      const { lasting, isCovered } = await obtain(signal)
      if (lasting) return 'by_permit'
      // The permit of another call has reached the chain since, or the service keeps one.
      return isCovered ? 'by_approval' : 'no'
    },
    permit: async (challenge, { isRepeated, signal }) => {
      lastingFor = options.approves && takesLastingPermits(challenge) ? challenge : null
      const present = lastingFor && !hasChanged && !isRepeated ? shared.present(challenge.maximum) : null
      if (present) return { kind: 'lasting', permit: present }
      if (!isMissing && !isRepeated) {
        const known = await readCheaply(node, challenge, budget.underWay())
        if (known === null) return null
        if (known !== 'too_little' && !lastingFor) return { kind: 'own', nonce: known }
      }
      const obtained = await obtain(signal).catch(async (error: unknown) => await nonceOfNode(node, challenge, error))
      if (typeof obtained === 'bigint') return { kind: 'own', nonce: obtained }
      if (obtained.isCovered && !isRepeated) return null
      if (obtained.needsApproval) throw approvalMissing(obtained)
      if (obtained.lasting) return { kind: 'lasting', permit: obtained.lasting }
      if (takesPermits(challenge)) return { kind: 'own', nonce: obtained.nonce }
      throw allowanceMissing(obtained, challenge)
    },
  }
}

/**
 * Returns whether a payment needs a permit by what the node says. What is left of an approval may suffice for one payment
 * and not for all that are under way: then each would be refused in turn, which is `too_little`. A wallet that approved
 * nothing, or has one payment under way, pays with a permit. Without a node that answers, nothing is known.
 */
async function readCheaply(
  node: AllowanceNode | null,
  { asset, maximum }: Challenge,
  wanted: bigint,
): Promise<bigint | null | 'too_little'> {
  try {
    const allowance = (await node?.allowance(asset)) ?? null
    if (node === null || allowance === null || allowance >= wanted) return null
    return allowance === 0n || wanted <= maximum ? await node.permitNonce(asset) : 'too_little'
  } catch {
    return null
  }
}

/** Returns the nonce to sign with a service that does not tell about allowances. Throws its error without another way. */
async function nonceOfNode(node: AllowanceNode | null, challenge: Challenge, error: unknown): Promise<bigint> {
  if (node === null || !(error instanceof ServiceError) || !takesPermits(challenge)) throw error
  return await node.permitNonce(challenge.asset).catch(() => {
    throw error
  })
}

async function readObtained(context: CoverContext): Promise<Obtained & { readonly status: AllowanceStatus }> {
  // Those that join meanwhile count, and so do those that are interrupted.
  const asked = context.budget.underWay()
  // A payment's own permit uses only the nonce of it, and has the asset, spender and amount of the payment.
  const status = await askAllowance(context)
  if (!/^\d{1,78}$/.test(status.permit_nonce))
    throw uncharged(
      'unexpected_answer',
      `${new URL(context.baseUrl).origin} did not answer with a permit nonce.`,
      'Check the URL of the service; nothing was signed.',
    )
  const state = allowanceState(status)
  const underWay = context.budget.underWay()
  const isCovered = isSufficient(state, underWay > asked ? underWay : asked)
  const needsApproval = (status.approval ?? null) !== null
  return { status, state, nonce: BigInt(status.permit_nonce), isCovered, needsApproval, lasting: null }
}

/** Returns what may still be charged by the limits, payments under way included. */
function payable(budget: CoverContext['budget']): bigint {
  const least = leastLeft(budget.left())
  if (least === null) return UNLIMITED
  return (least > 0n ? least : 0n) + budget.underWay()
}

function takesPermits({ required }: Challenge): boolean {
  return required.extensions?.['eip2612GasSponsoring'] !== undefined
}

function allowanceMissing({ state }: Obtained, { maximum }: Challenge): FareboxError {
  return uncharged(
    'permit2_allowance_required',
    `Permit2 may take ${formatUsdc(state.allowance)} USDC of the wallet, the call costs up to ${formatUsdc(maximum)}, and the service takes no permit with a payment.`,
    'Approve Permit2 once with approve().',
  )
}

/** The service's sentence has the transaction. */
function approvalMissing({ state }: Obtained): FareboxError {
  return uncharged(
    'permit2_allowance_required',
    `Permit2 may take ${formatUsdc(state.allowance)} USDC of the wallet, which signs no permits. ${state.storing.message ?? ''}`.trim(),
    'Send that transaction from the wallet once, then repeat the call with the same key.',
  )
}

function interrupted(): FareboxError {
  return uncharged(
    'aborted',
    'The call was interrupted.',
    'Repeat the call with the same key: it is charged at most once.',
  )
}
