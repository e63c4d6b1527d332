import { FareboxError } from '../wire/farebox-error.ts'
import { formatUsdc } from './usdc.ts'

/**
 * Another payment was not signed, because the service has refused payments that it could still settle, together as much
 * as the budget. Their signatures end at `until`.
 */
export class TooManyRefused extends FareboxError {
  override readonly name = 'TooManyRefused'
  /** Milliseconds. */
  readonly until: number

  constructor(refusedAtomic: bigint, until: number) {
    const time = new Date(until).toISOString()
    super({
      code: 'too_many_refused',
      problem: `The service has refused payments of ${formatUsdc(refusedAtomic)} USDC in all, which it could still take until ${time}; no other is signed before.`,
      money: 'none',
      advice: 'Repeat the call after that time; ask the operator if it happens again.',
    })
    this.until = until
  }
}
