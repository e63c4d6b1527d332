import { BudgetExceeded } from '../../budget/budget-exceeded.ts'
import { ChallengeRefused } from '../../payment/check-challenge.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { StoppedBy } from '../types.ts'
import type { RunContext } from './run-context.ts'

/** What every other call of the wallet would be answered, too. */
const FUNDS: ReadonlySet<string> = new Set([
  'insufficient_funds',
  'permit2_allowance_required',
  'payer_has_code',
  'payer_not_deployed',
  'unpaid_debt',
  'payer_blocked',
])
const LOCAL: ReadonlySet<string> = new Set([
  'journal_unwritable',
  'journal_locked',
  'pins_unreadable',
  'signing_failed',
  'challenge_expired_locally',
  // A clock that is ahead, or a wallet that signs for another address.
  'payment_not_yet_valid',
  'payment_signature_invalid',
])
/** What is wrong with a disk, and not with one path on it. */
const DISK: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO'])
const SERVICE: ReadonlySet<string> = new Set([
  'connection_lost',
  'no_answer',
  'not_the_service',
  'challenge_unreadable',
])

/** Returns why a batch cannot go on after this error; `undefined` if it concerns one file only. */
export function stopReasonOf(error: FareboxError): StoppedBy | undefined {
  if (error instanceof BudgetExceeded) return error.limit === 'call' ? undefined : 'budget'
  if (error instanceof ChallengeRefused)
    return error.differences.every(({ term }) => term === 'maximum') ? undefined : 'service'
  if (error.code === 'aborted') return 'interrupt'
  if (FUNDS.has(error.code)) return 'funds'
  if (error.code === 'output_unwritable' && isDiskUnusable(error)) return 'local'
  if (LOCAL.has(error.code)) return 'local'
  return SERVICE.has(error.code) ? 'service' : undefined
}

/** Every other transcript would be paid for and not written either. */
function isDiskUnusable({ cause }: FareboxError): boolean {
  const { code } = (cause ?? {}) as NodeJS.ErrnoException
  return code !== undefined && DISK.has(code)
}

/** Whether a file that met the error is left for a later run instead of being reported as failed. */
export function isLeftForLater(reason: StoppedBy | undefined): boolean {
  return reason === 'budget' || reason === 'funds' || reason === 'interrupt'
}

/** Stops the run after an error that every other file would meet, before the place at the gate is free for one. */
export function stopIfHopeless({ stop }: Pick<RunContext, 'stop'>, error: unknown): void {
  if (!(error instanceof FareboxError)) return
  const reason = stopReasonOf(error)
  if (reason !== undefined) stop(reason, error)
}
