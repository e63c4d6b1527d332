import type { LimitName } from './budget-exceeded.ts'
import { parseUsdc } from './usdc.ts'

/** Limits as decimal USDC; a missing one does not limit. A day is a UTC day, over all processes with the same journal. */
export interface BudgetAmounts {
  readonly call?: string | undefined
  readonly session?: string | undefined
  readonly day?: string | undefined
}

export interface BudgetLimits extends BudgetAmounts {
  /** Limits of the calls that name a group, within those of all calls. */
  readonly groups?: Readonly<Record<string, BudgetAmounts>> | undefined
  /** Says how to allow a call that was refused, where it is not an option of the command. */
  readonly advice?: ((refused: RefusedLimit) => string) | undefined
}

/** A limit that a call does not fit into. */
export interface RefusedLimit {
  readonly name: LimitName
  /** `null` for all calls. */
  readonly group: string | null
  readonly limitAtomic: bigint
  /** The limit that the call would fit into. */
  readonly neededAtomic: bigint
}

/** One limit, in atomic units. */
export interface Limit {
  readonly name: LimitName
  /** `null` for all calls. */
  readonly group: string | null
  readonly atomic: bigint
  readonly advice: BudgetLimits['advice']
}

/** Reads limits; those of all calls come first. Throws `RangeError` for a text that is no amount. */
export function readLimits({ groups = {}, advice, ...all }: BudgetLimits): readonly Limit[] {
  const read = (amounts: BudgetAmounts, group: string | null) => readAmounts(amounts, group, advice)
  return [read(all, null), ...Object.entries(groups).map(([group, amounts]) => read(amounts, group))].flat()
}

/** Returns the limits of the calls of a group. */
export function limitsOf(limits: readonly Limit[], group: string | null): readonly Limit[] {
  return limits.filter((limit) => limit.group === null || limit.group === group)
}

function readAmounts(amounts: BudgetAmounts, group: string | null, advice: BudgetLimits['advice']): readonly Limit[] {
  return (['call', 'session', 'day'] as const).flatMap((name) => {
    const amount = amounts[name]
    return amount === undefined ? [] : [{ name, group, atomic: parseUsdc(amount), advice }]
  })
}
