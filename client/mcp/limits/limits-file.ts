import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import * as z from 'zod'
import type { BudgetAmounts } from '../../budget/limits.ts'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import { homeDirectory } from '../../journal/home-directory.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { shellQuoted } from '../../wire/plain-text.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'

/** The limits that a person has set, as decimal USDC. Nothing that a model can reach changes them. */
export interface SpendingLimits extends BudgetAmounts {
  readonly call: string
  readonly session: string
  readonly day: string
  /** A call that may cost more needs the agreement of a person. */
  readonly confirmAbove: string
  /** Limits of single tools, within those of all. */
  readonly tools: Readonly<Record<string, BudgetAmounts>>
}

/** The tools that pay, which are those that may have limits of their own. */
export const PAYING_TOOLS: readonly string[] = Object.values(TOOL_TEXTS)
  .filter(({ annotations }) => !annotations.readOnlyHint)
  .map(({ name }) => name)

/** What holds where a person has set nothing. */
export const DEFAULT_LIMITS: SpendingLimits = { call: '0.1', session: '1', day: '5', confirmAbove: '0.05', tools: {} }

const amount = z
  .string()
  .regex(/^\d{1,12}(\.\d{1,6})?$/, 'must be USDC in quotes with at most six decimals, such as "0.15"')
  .transform((text) => formatUsdc(parseUsdc(text)))

const toolLimits = z.strictObject({ call: amount.optional(), session: amount.optional(), day: amount.optional() })

/** A name that is not known is refused: a misspelled limit would limit nothing. */
const limitsSchema = z
  .strictObject({
    call: amount.default(DEFAULT_LIMITS.call),
    session: amount.default(DEFAULT_LIMITS.session),
    day: amount.default(DEFAULT_LIMITS.day),
    confirm_above: amount.default(DEFAULT_LIMITS.confirmAbove),
    tools: z.strictObject(Object.fromEntries(PAYING_TOOLS.map((name) => [name, toolLimits.optional()]))).default({}),
  })
  .transform(({ confirm_above: confirmAbove, tools, ...limits }): SpendingLimits => {
    const set = Object.entries(tools).flatMap(([name, own]) => (own === undefined ? [] : [[name, own] as const]))
    return { ...limits, confirmAbove, tools: Object.fromEntries<BudgetAmounts>(set) }
  })

const SUFFIX = '-limits'
const PLAIN = /^[\w./-]+$/

const OTHERS_MAY_READ = 0o077
const OTHERS_MAY_WRITE = 0o022
/** Many times what all limits need. */
const MOST_BYTES = 64 << 10

// Windows knows none of these.
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants> & { O_RDONLY: number }

/** Reads a limits file; `null` if there is none. Throws `limits_unusable` unless only its owner can have written it. */
export function readLimitsFile(path: string): { limits: SpendingLimits; text: string } | null {
  const text = readPrivateText(path)
  if (text === null) return null
  const { success, data, error } = limitsSchema.safeParse(parse(path, text))
  if (success) return { limits: data, text }
  throw unusable(`The limits file ${path} is not valid: ${z.prettifyError(error)}`, resetAdvice(path))
}

function resetAdvice(path: string): string {
  return `The person corrects it, or runs in a terminal: ${limitsCommand(path, 'reset')}`
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw unusable(`The limits file ${path} is not JSON.`, resetAdvice(path), cause)
  }
}

/** Reads the file that was checked, whatever its name means meanwhile. */
function readPrivateText(path: string): string | null {
  const descriptor = open(path)
  if (descriptor === null) return null
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) throw unusable(`The limits file ${path} is not a regular file.`, resetAdvice(path))
    requirePrivate(path, stats, OTHERS_MAY_READ, 'chmod 600')
    requirePrivate(dirname(path), statSync(dirname(path)), OTHERS_MAY_WRITE, 'chmod 700')
    if (stats.size > MOST_BYTES) throw unusable(`The limits file ${path} is too large.`, resetAdvice(path))
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}

function open(path: string): number | null {
  try {
    return openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    const problem = code === 'ELOOP' ? 'is a symbolic link' : 'cannot be read'
    throw unusable(`The limits file ${path} ${problem}.`, resetAdvice(path), cause)
  }
}

function requirePrivate(path: string, { mode, uid }: Stats, others: number, mend: string): void {
  // Windows has no such modes.
  if (process.platform === 'win32') return
  if (uid !== process.getuid?.())
    throw unusable(
      `${path} belongs to another user.`,
      `Its owner runs in a terminal: chown ${process.getuid?.()} ${path}`,
    )
  if ((mode & others) === 0) return
  const octal = (mode & 0o777).toString(8)
  throw unusable(`${path} is accessible to other users (mode ${octal}).`, `The person runs: ${mend} ${path}`)
}

/** Nothing is paid for until a person has mended the file. */
export function unusable(problem: string, advice: string, cause?: unknown): FareboxError {
  return uncharged('limits_unusable', problem, advice, cause)
}

/** Returns the limits as the file and `--json` have them. */
export function limitsForm({ confirmAbove, tools, ...limits }: SpendingLimits) {
  return { ...limits, confirm_above: confirmAbove, tools }
}

/** Returns the limits file that belongs to a journal: in a folder of its own, in which nothing else is written. */
export function limitsPath(home: string): string {
  return join(`${resolve(home)}${SUFFIX}`, 'limits.json')
}

/** Returns what a person runs in a terminal to change a limits file, also where it is not the one of the default home. */
export function limitsCommand(path: string, change: string): string {
  const home = dirname(path).slice(0, -SUFFIX.length)
  const option = home === resolve(homeDirectory({})) ? '' : ` --home ${PLAIN.test(home) ? home : shellQuoted(home)}`
  return `farebox limits ${change}${option}`
}
