/** Settlements that reverted on chain within {@link REVERTS_WINDOW_SECONDS}. */
export interface RecentReverts {
  readonly count: number
  /** Time since the newest one; 0 when there is none. */
  readonly secondsSinceNewest: number
}

/** The reverts that decide when a payer may pay for a withheld result again. */
export interface RevertHistory {
  readonly ofJob: RecentReverts
  /** Reverts over all jobs of the payer, this one included. */
  readonly ofPayer: RecentReverts
  /** Whether another charge of the payer is being settled. */
  readonly settlesAnother: boolean
}

/** Time within which a reverted settlement counts, in seconds. */
export const REVERTS_WINDOW_SECONDS = 86_400

/** Reverts without a pause: an honest payer too may move funds, or revoke the allowance, at the wrong moment. */
const FREE_REVERTS_OF_JOB = 2
const FREE_REVERTS_OF_PAYER = 4
const FIRST_PAUSE_SECONDS = 60
/** Bounds both the gas that a payer can burn and the time that an honest one waits to pay a debt. */
const LONGEST_PAUSE_SECONDS = 3600
/** Beyond the free ones, a payer settles one withheld result at a time. */
const IN_TURN_SECONDS = 5

/**
 * Returns how long a payer must wait before another authorization may settle a withheld result; 0 for no wait. Every
 * revert costs the service gas and the payer nothing, so the pauses double with each one.
 */
export function settlementPause({ ofJob, ofPayer, settlesAnother }: RevertHistory): number {
  const inTurn = settlesAnother && ofPayer.count >= FREE_REVERTS_OF_PAYER ? IN_TURN_SECONDS : 0
  return Math.max(inTurn, remainingPause(ofJob, FREE_REVERTS_OF_JOB), remainingPause(ofPayer, FREE_REVERTS_OF_PAYER))
}

function remainingPause({ count, secondsSinceNewest }: RecentReverts, free: number): number {
  if (count < free) return 0
  const pause = Math.min(FIRST_PAUSE_SECONDS * 2 ** (count - free), LONGEST_PAUSE_SECONDS)
  return Math.max(0, Math.ceil(pause - secondsSinceNewest))
}
