import { formatUsdc } from '../budget/usdc.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { ServiceError } from '../wire/service-error.ts'
import type { AllowanceState } from './read-allowance.ts'

/** The service stores no permit of this wallet. */
export class ApprovalRefused extends FareboxError {
  override readonly name = 'ApprovalRefused'

  constructor(code: string, problem: string, cause?: unknown) {
    super({ code, problem, money: 'none', advice: ADVICE[code] ?? OTHERWISE, cause })
  }
}

const OTHERWISE =
  'Approve Permit2 for USDC in a transaction of your own, which needs ETH for gas; until then calls are paid one after the other, each with a permit.'
const ADVICE: Readonly<Record<string, string>> = {
  owner_balance_too_low: 'Add USDC to the wallet, then approve again.',
  owner_has_code: 'Approve Permit2 for USDC in a transaction of the wallet’s own.',
}
const PROBLEMS: Readonly<Record<string, string>> = {
  owner_has_code:
    'The wallet’s account has code (a smart account or an EIP-7702 delegation), so the service stores no permit of it.',
  permits_not_stored: 'The service stores no permits.',
}

/** Returns why the service would refuse an approval, by what it says about the wallet. */
export function refusalOf({ balance, storing: { code, message, minimumValue } }: AllowanceState): ApprovalRefused {
  const problem =
    code === 'owner_balance_too_low'
      ? `The wallet has ${formatUsdc(balance)} USDC, and the service stores a permit from ${formatUsdc(minimumValue)} USDC on.`
      : (PROBLEMS[code ?? ''] ?? message ?? 'The service stores no permit now.')
  return new ApprovalRefused(code ?? 'permits_not_stored', problem)
}

/** Returns the refusal that an answer states, or the error itself when it is about something else. */
export function asRefusal(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const problem = PROBLEMS[error.code]
  if (problem !== undefined) return new ApprovalRefused(error.code, problem, error)
  return error.code === 'owner_balance_too_low' ? new ApprovalRefused(error.code, error.problem, error) : error
}
