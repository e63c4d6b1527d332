import { parseUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import { wait } from '../payment/retry-schedule.ts'
import { askForJson, type Followed } from '../wire/ask-service.ts'
import type { Allowance, AllowanceRequest } from '../wire/schemas.ts'
import { ServiceError } from '../wire/service-error.ts'
import { signPermit } from './allowance-terms.ts'
import { asRefusal, refusalOf } from './approval-refused.ts'
import { allowanceState, askAllowance, isSufficient, UNLIMITED } from './read-allowance.ts'

export interface ApproveOptions extends Followed {
  /** What Permit2 may take in all, as decimal USDC; without a limit by default. Each payment still needs a signature. */
  readonly value?: string | undefined
  /** How long to wait for the confirmation; five minutes by default. */
  readonly patienceMs?: number | undefined
}

/** The outcome of an approval. Amounts are atomic USDC. */
export interface Approval {
  /** `already_approved`: nothing was signed or sent. */
  readonly outcome: 'approved' | 'already_approved'
  readonly owner: string
  readonly spender: string
  readonly allowance: bigint
  /** The transaction that the service paid for; `null` when none was needed, or payments bring the permit to the chain. */
  readonly transaction: string | null
}

type ApprovalContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'wallet'>

const DEFAULT_PATIENCE_MS = 5 * 60_000
/** Another permit of the wallet was used in the meantime, or time has passed: the next nonce and deadline are signed. */
const CURED_BY_SIGNING: ReadonlySet<string> = new Set(['permit_invalid', 'permit_expired', 'permit_rejected'])
const MOST_SIGNATURES = 2
/** The service answers when the permit is on chain. */
const ANSWER_WITHIN_MS = 60_000
/** A refusal for no longer is for a permit in progress, often one of the same wallet by another process. */
const SOON_MS = 10_000
/** How long such refusals are waited out, and the time between two questions. */
const SOON_PATIENCE_MS = 30_000
const SOON_PAUSE_MS = 1000

/**
 * Lets Permit2 take USDC of the wallet, by one signature that the service submits at its own cost; does nothing when it
 * may already. Repeated and concurrent requests for one permit cause one transaction. Throws `ApprovalRefused` when the
 * service does not pay for it.
 */
export async function approve(context: ApprovalContext, options: ApproveOptions = {}): Promise<Approval> {
  const value = options.value === undefined ? UNLIMITED : parseUsdc(options.value)
  const soonEndsAt = context.now() + SOON_PATIENCE_MS
  for (let signatures = 0; ; ) {
    const status = await askAllowance(context, { signal: options.signal })
    const state = allowanceState(status)
    const { owner, spender, allowance } = state
    if (isSufficient(state, value)) return { outcome: 'already_approved', owner, spender, allowance, transaction: null }
    if (!state.sponsoring.isAvailable) {
      const refusal = refusalOf(state)
      const { retryAfterMs } = refusal
      if (retryAfterMs === null || retryAfterMs > SOON_MS || context.now() >= soonEndsAt) throw refusal
      options.onWait?.(refusal, SOON_PAUSE_MS)
      await wait(SOON_PAUSE_MS, options.signal).catch(() => {
        throw refusal
      })
      continue
    }
    signatures += 1
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
    timeoutMs: ANSWER_WITHIN_MS,
    signal,
    onWait,
  })
  const { owner, spender, transaction } = answer
  return { outcome: 'approved', owner, spender, allowance: BigInt(answer.allowance), transaction }
}
