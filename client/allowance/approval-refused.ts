import { formatUsdc } from '../budget/usdc.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { ServiceError } from '../wire/service-error.ts'
import type { AllowanceState } from './read-allowance.ts'

/** The service does not submit a permit of this wallet now. */
export class ApprovalRefused extends FareboxError {
  override readonly name = 'ApprovalRefused'
  /** When to ask again; `null` if time alone changes nothing. */
  readonly retryAfterMs: number | null

  constructor(code: string, problem: string, retryAfterMs: number | null, cause?: unknown) {
    super({ code, problem, money: 'none', advice: adviceFor(code, retryAfterMs), cause })
    this.retryAfterMs = retryAfterMs
  }
}

const OTHERWISE =
  'approve Permit2 for USDC in a transaction of your own, which needs ETH for gas; until then calls are paid one after the other, each with a permit'

const PROBLEMS: Readonly<Record<string, string>> = {
  owner_has_code:
    'The wallet’s account has code (a smart account or an EIP-7702 delegation), so the service submits no permit of it.',
  owner_allowance_limit: 'The service has submitted a permit of this wallet lately, and does so once a day.',
  sponsored_gas_limit: 'The service has spent what it pays for permits a day.',
  permit_travels_with_payment: 'The service pays for approvals of wallets that have paid a call before.',
  sponsoring_disabled: 'The service pays for no approvals.',
  sponsoring_unavailable: 'The service cannot pay for the approval at the moment.',
}

/** Returns why the service would refuse an approval, by what it says about the wallet. */
export function refusalOf({ balance, sponsoring }: AllowanceState): ApprovalRefused {
  const { code, message, retryAfterMs, minimumValue } = sponsoring
  const problem =
    code === 'owner_balance_too_low'
      ? `The wallet has ${formatUsdc(balance)} USDC, and the service pays for an approval from ${formatUsdc(minimumValue)} USDC on.`
      : (PROBLEMS[code ?? ''] ?? message ?? 'The service does not pay for an approval now.')
  return new ApprovalRefused(code ?? 'sponsoring_unavailable', problem, retryAfterMs)
}

/** Returns the refusal that an answer states, or the error itself when it is about something else. */
export function asRefusal(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const problem = PROBLEMS[error.code]
  if (problem !== undefined) return new ApprovalRefused(error.code, problem, error.retryAfterMs ?? null, error)
  return error.code === 'owner_balance_too_low' ? new ApprovalRefused(error.code, error.problem, null, error) : error
}

function adviceFor(code: string, retryAfterMs: number | null): string {
  if (code === 'owner_balance_too_low') return 'Add USDC to the wallet, then approve again.'
  if (code === 'permit_travels_with_payment') return 'Make a paid call first; it brings a permit of its own.'
  if (code === 'owner_has_code') return 'Pay from an account without code.'
  if (retryAfterMs === null) return `${OTHERWISE[0]?.toUpperCase()}${OTHERWISE.slice(1)}.`
  return `Approve again in ${duration(retryAfterMs)}; otherwise ${OTHERWISE}.`
}

function duration(milliseconds: number): string {
  const minutes = Math.ceil(milliseconds / 60_000)
  return minutes < 120 ? `${minutes} min` : `${Math.ceil(minutes / 60)} h`
}
