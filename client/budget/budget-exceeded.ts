import { FareboxError } from '../wire/farebox-error.ts'
import { formatUsdc } from './usdc.ts'

export type LimitName = 'call' | 'session' | 'day'

const ADVICE: Readonly<Record<LimitName, string>> = {
  call: 'Raise the budget for one call, or make the request smaller.',
  session: 'Raise the budget of the session, or start another one.',
  day: 'Raise the budget of the day, or continue after midnight UTC.',
}

/** A call was not made because its maximum does not fit into the budget. */
export class BudgetExceeded extends FareboxError {
  override readonly name = 'BudgetExceeded'
  readonly limit: LimitName
  readonly limitAtomic: bigint
  readonly leftAtomic: bigint
  readonly askedAtomic: bigint
  /** The group of calls that the limit is for; `null` for all. */
  readonly group: string | null

  constructor(
    limit: LimitName,
    limitAtomic: bigint,
    leftAtomic: bigint,
    askedAtomic: bigint,
    {
      group = null,
      advice = ADVICE[limit],
    }: { readonly group?: string | null; readonly advice?: string | undefined } = {},
  ) {
    const budget = `${limit} budget of ${formatUsdc(limitAtomic)} USDC${group === null ? '' : ` for ${group}`}`
    super({
      code: 'budget_exceeded',
      problem: `The call costs at most ${formatUsdc(askedAtomic)} USDC, but the ${budget} has ${formatUsdc(leftAtomic)} USDC left.`,
      money: 'none',
      advice,
    })
    this.limit = limit
    this.limitAtomic = limitAtomic
    this.leftAtomic = leftAtomic
    this.askedAtomic = askedAtomic
    this.group = group
  }
}

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
