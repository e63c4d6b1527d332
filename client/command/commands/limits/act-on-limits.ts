import type { BudgetAmounts } from '../../../budget/limits.ts'
import { parseUsdc } from '../../../budget/usdc.ts'
import {
  changeLimits,
  differences,
  type LimitDifference,
  type LimitsChange,
  NO_LIMIT,
  type WriteOptions,
  writeLimits,
} from '../../../mcp/limits/change-limits.ts'
import {
  DEFAULT_LIMITS,
  limitsForm,
  limitsPath,
  PAYING_TOOLS,
  readLimitsFile,
  type SpendingLimits,
} from '../../../mcp/limits/limits-file.ts'
import { FareboxError } from '../../../wire/farebox-error.ts'
import { EXIT, type ExitCode, UsageError } from '../../exit-codes.ts'
import type { CommandContext } from '../../run.ts'
import { ask } from '../../transcribe/ask.ts'
import { renderFacts } from '../text-table.ts'

const NAMES = { call: 'a call', session: 'a session', day: 'a day' } as const

export function showLimits({ output }: CommandContext, home: string): undefined {
  const path = limitsPath(home)
  const file = readLimitsFile(path)
  const limits = file?.limits ?? DEFAULT_LIMITS
  output.result({ path, isDefault: file === null, ...limitsForm(limits) }, describeLimits(limits, path, file === null))
}

/** Changes what was named, if the person at the terminal agrees. */
export async function setLimits(
  context: CommandContext,
  home: string,
  change: LimitsChange,
  isConfirmed: boolean,
): Promise<ExitCode> {
  requireChange(change)
  const path = limitsPath(home)
  const file = readLimitsFile(path)
  const before = file?.limits ?? DEFAULT_LIMITS
  const after = changeLimits(before, change)
  const replaces = file?.text ?? null
  return await replace(context, path, { before, after, isConfirmed, replaces })
}

/** Puts the limits that hold at first in the place of any file, also of one that cannot be used. */
export async function resetLimits(context: CommandContext, home: string, isConfirmed: boolean): Promise<ExitCode> {
  const path = limitsPath(home)
  return await replace(context, path, { before: readable(path), after: DEFAULT_LIMITS, isConfirmed })
}

interface Replacement extends WriteOptions {
  /** `null` if they cannot be read. */
  readonly before: SpendingLimits | null
  readonly after: SpendingLimits
  readonly isConfirmed: boolean
}

async function replace(
  { io, output, interrupts }: CommandContext,
  path: string,
  { before, after, isConfirmed, replaces }: Replacement,
): Promise<ExitCode> {
  for (const difference of before === null ? [] : differences(before, after)) output.note(describe(difference))
  if (before === null) output.note(describeLimits(after, path, false))
  if (!isConfirmed) {
    if (io.stdin.isTTY !== true || io.stderr.isTTY !== true)
      throw new UsageError('There is no terminal to ask on whether to change the limits. Add --yes.')
    if (!(await ask(io, 'Change what agents may spend? [y/N] ', interrupts.finish))) return EXIT.interrupted
  }
  await writeLimits(path, after, { replaces })
  output.result({ path, isDefault: false, ...limitsForm(after) }, describeLimits(after, path, false))
  return EXIT.done
}

function describe({ name, before, after, isRaised }: LimitDifference): string {
  return `${name}: ${shown(before)} → ${shown(after)}${isRaised ? ' (raised)' : ''}`
}

function shown(amount: string | null): string {
  return amount === null ? 'none' : `${amount} USDC`
}

function requireChange({ tool, confirmAbove, call, session, day }: LimitsChange): void {
  const amounts = [call, session, day]
  if ([...amounts, confirmAbove].every((value) => value === undefined))
    throw new UsageError('Say what to set: --call, --session, --day or --confirm-above.')
  if (tool === undefined) {
    if (amounts.includes(NO_LIMIT)) throw new UsageError('Only the limits of a tool can be removed: add --tool.')
    return
  }
  if (!PAYING_TOOLS.includes(tool))
    throw new UsageError(`No tool of that name pays. These do: ${PAYING_TOOLS.join(', ')}.`)
  if (confirmAbove !== undefined) throw new UsageError('--confirm-above holds for all tools: leave out --tool.')
}

function readable(path: string): SpendingLimits | null {
  try {
    return readLimitsFile(path)?.limits ?? DEFAULT_LIMITS
  } catch (error) {
    if (error instanceof FareboxError) return null
    throw error
  }
}

/** Renders limits for a person. */
function describeLimits(limits: SpendingLimits, path: string, isDefault: boolean): string {
  const { confirmAbove, tools } = limits
  const isAsking = parseUsdc(confirmAbove) < parseUsdc(limits.call)
  const facts: (readonly [string, string])[] = [
    ...amountFacts(limits, ''),
    ['asks above', `${confirmAbove} USDC${isAsking ? '' : ': never, since no call may cost more'}`],
    ...Object.entries(tools).flatMap(([tool, own]) => amountFacts(own, `${tool}, `)),
    ['file', isDefault ? `${path} (not there: these limits hold at first)` : path],
  ]
  return renderFacts(facts)
}

function amountFacts(limits: BudgetAmounts, prefix: string): (readonly [string, string])[] {
  return (['call', 'session', 'day'] as const).flatMap((name) => {
    const amount = limits[name]
    return amount === undefined ? [] : [[`${prefix}${NAMES[name]}`, `${amount} USDC`] as const]
  })
}
