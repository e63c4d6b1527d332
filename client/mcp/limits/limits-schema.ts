import * as z from 'zod'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import type { AmountLimits, SpendingLimits } from '../tool.ts'

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
export const limitsSchema = z
  .strictObject({
    call: amount.default(DEFAULT_LIMITS.call),
    session: amount.default(DEFAULT_LIMITS.session),
    day: amount.default(DEFAULT_LIMITS.day),
    confirm_above: amount.default(DEFAULT_LIMITS.confirmAbove),
    tools: z.strictObject(Object.fromEntries(PAYING_TOOLS.map((name) => [name, toolLimits.optional()]))).default({}),
  })
  .transform(({ confirm_above: confirmAbove, tools, ...limits }): SpendingLimits => {
    const set = Object.entries(tools).flatMap(([name, own]) => (own === undefined ? [] : [[name, own] as const]))
    return { ...limits, confirmAbove, tools: Object.fromEntries<AmountLimits>(set) }
  })

/** Returns the limits as the file and `--json` have them. */
export function limitsForm({ confirmAbove, tools, ...limits }: SpendingLimits) {
  return { ...limits, confirm_above: confirmAbove, tools }
}
