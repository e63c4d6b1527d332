import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { lock } from 'proper-lockfile'
import type { BudgetAmounts } from '../../budget/limits.ts'
import { parseUsdc } from '../../budget/usdc.ts'
import { replaceFile } from '../../files/files.ts'
import { limitsForm, readLimitsFile, type SpendingLimits, unusable } from './limits-file.ts'

const RETRIES = { retries: 50, minTimeout: 10, maxTimeout: 100 }

export interface WriteOptions {
  /** The text that the limits were read from; another one is not replaced. Without it, any is. */
  readonly replaces?: string | null | undefined
}

/** Removes a limit of a tool. */
export const NO_LIMIT = 'none'

/** What a person changes: amounts, or for a tool `NO_LIMIT`. */
export interface LimitsChange extends BudgetAmounts {
  readonly tool?: string | undefined
  readonly confirmAbove?: string | undefined
}

/** One limit that differs. */
export interface LimitDifference {
  /** Such as `day` or `chat day`. */
  readonly name: string
  readonly before: string | null
  readonly after: string | null
  readonly isRaised: boolean
}

const AMOUNTS = ['call', 'session', 'day'] as const

/** Returns the limits after a change. */
export function changeLimits(before: SpendingLimits, { tool, confirmAbove, ...amounts }: LimitsChange): SpendingLimits {
  if (tool !== undefined) {
    const { [tool]: own = {}, ...others } = before.tools
    const changed = changeAmounts(own, amounts)
    const tools = Object.keys(changed).length === 0 ? others : { ...others, [tool]: changed }
    return { ...before, tools }
  }
  const { call, session, day } = before
  return {
    call: amounts.call ?? call,
    session: amounts.session ?? session,
    day: amounts.day ?? day,
    confirmAbove: confirmAbove ?? before.confirmAbove,
    tools: before.tools,
  }
}

function changeAmounts(own: BudgetAmounts, change: BudgetAmounts): BudgetAmounts {
  const kept = AMOUNTS.flatMap((name) => {
    const value = change[name] ?? own[name]
    return value === undefined || value === NO_LIMIT ? [] : [[name, value] as const]
  })
  return Object.fromEntries(kept)
}

/** Returns what differs, in the order in which limits are shown. */
export function differences(before: SpendingLimits, after: SpendingLimits): readonly LimitDifference[] {
  const [old, changed] = [flat(before), flat(after)]
  return [...new Set([...old.keys(), ...changed.keys()])].flatMap((name) => {
    const [from, to] = [old.get(name) ?? null, changed.get(name) ?? null]
    return from === to ? [] : [{ name, before: from, after: to, isRaised: isRaised(from, to) }]
  })
}

/** A limit that is removed is raised; one that is added is not. */
function isRaised(before: string | null, after: string | null): boolean {
  if (before === null) return false
  return after === null || parseUsdc(after) > parseUsdc(before)
}

function flat({ tools, confirmAbove, ...amounts }: SpendingLimits): ReadonlyMap<string, string> {
  const own = Object.entries(tools).flatMap(([tool, limits]) => named(limits, `${tool} `))
  return new Map([...named(amounts, ''), ['confirm above', confirmAbove], ...own])
}

function named(limits: BudgetAmounts, prefix: string): readonly (readonly [string, string])[] {
  return AMOUNTS.flatMap((name) => {
    const amount = limits[name]
    return amount === undefined ? [] : [[`${prefix}${name}`, amount] as const]
  })
}

/** Replaces the limits file at once: a process that reads it sees the old limits or the new ones. */
export async function writeLimits(
  path: string,
  limits: SpendingLimits,
  { replaces }: WriteOptions = {},
): Promise<void> {
  const folder = dirname(path)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw unwritable(path, cause)
  }
  const release = await lock(folder, {
    lockfilePath: join(folder, 'limits.lock'),
    realpath: false,
    retries: RETRIES,
  }).catch((cause: unknown) => {
    throw unwritable(path, cause)
  })
  try {
    if (replaces !== undefined && (readLimitsFile(path)?.text ?? null) !== replaces) throw changed(path)
    const text = `${JSON.stringify(limitsForm(limits), null, 2)}\n`
    await replaceFile(path, text, { mode: 0o600, followsLinks: false }).catch((cause: unknown) => {
      throw unwritable(path, cause)
    })
  } finally {
    await release()
  }
}

function changed(path: string) {
  return unusable(`The limits file ${path} was changed meanwhile, and was left as it is.`, 'Run the command again.')
}

function unwritable(path: string, cause: unknown) {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return unusable(
    `The limits file ${path} cannot be written (${reason}).`,
    'Free its disk, or set FAREBOX_HOME.',
    cause,
  )
}
