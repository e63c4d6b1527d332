import { parseUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import { askForJson, type Followed } from '../wire/ask-service.ts'
import type { Allowance, AllowanceRequest } from '../wire/schemas.ts'
import { ServiceError } from '../wire/service-error.ts'
import { signPermit } from './allowance-terms.ts'
import { asRefusal, refusalOf } from './approval-refused.ts'
import { allowanceOf, allowanceState, askAllowance, isSufficient, UNLIMITED } from './read-allowance.ts'

export interface ApproveOptions extends Followed {
  /** What Permit2 may take in all, as decimal USDC; without a limit by default. Each payment still needs a signature. */
  readonly value?: string | undefined
  /** How long to wait for a service that does not answer; five minutes by default. */
  readonly patienceMs?: number | undefined
}

/** The outcome of an approval. Amounts are atomic USDC. */
export interface Approval {
  /** `already_approved`: nothing was signed or sent. */
  readonly outcome: 'approved' | 'already_approved'
  readonly owner: string
  readonly spender: string
  /** What Permit2 may take from now on: the next charge brings the permit to the chain. */
  readonly allowance: bigint
}

type ApprovalContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'wallet'>

const DEFAULT_PATIENCE_MS = 5 * 60_000
/** Another permit of the wallet was used in the meantime, or time has passed: the next nonce and deadline are signed. */
const CURED_BY_SIGNING: ReadonlySet<string> = new Set(['permit_invalid', 'permit_expired'])
const MOST_SIGNATURES = 2

/**
 * Lets Permit2 take USDC of the wallet, by one signature that the service keeps until it brings it to the chain with the
 * next charge; does nothing when Permit2 may already. Throws `ApprovalRefused` when the service does not keep it.
 */
export async function approve(context: ApprovalContext, options: ApproveOptions = {}): Promise<Approval> {
  const value = options.value === undefined ? UNLIMITED : parseUsdc(options.value)
  for (let signatures = 1; ; signatures += 1) {
    const status = await askAllowance(context, { signal: options.signal })
    const state = allowanceState(status)
    const { owner, spender, allowance } = state
    if (isSufficient(state, value)) return { outcome: 'already_approved', owner, spender, allowance }
    if (!state.storing.isAvailable) throw refusalOf(state)
    try {
      const permit = { owner, spender, ...(await signPermit(context, status, value)) }
      return await submit(context, { permit }, options)
    } catch (error) {
      const isCurable = error instanceof ServiceError && CURED_BY_SIGNING.has(error.code)
      if (!isCurable || signatures >= MOST_SIGNATURES) throw asRefusal(error)
    }
  }
}

async function submit(
  context: ApprovalContext,
  request: AllowanceRequest,
  { patienceMs = DEFAULT_PATIENCE_MS, signal, onWait }: ApproveOptions,
): Promise<Approval> {
  const answer = await askForJson<Allowance>(context, new URL('/v1/allowances', context.baseUrl).href, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
    patienceMs,
    signal,
    onWait,
  })
  const { owner, spender } = answer
  return { outcome: 'approved', owner, spender, allowance: allowanceOf(answer) }
}
