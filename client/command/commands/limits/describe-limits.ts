import { parseUsdc } from '../../../budget/usdc.ts'
import type { SpendingLimits } from '../../../mcp/tool.ts'
import { renderFacts } from '../text-table.ts'

const NAMES = { call: 'a call', session: 'a session', day: 'a day' } as const

/** Renders limits for a person. */
export function describeLimits(limits: SpendingLimits, path: string, isDefault: boolean): string {
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

function amountFacts(limits: SpendingLimits['tools'][string], prefix: string): (readonly [string, string])[] {
  return (['call', 'session', 'day'] as const).flatMap((name) => {
    const amount = limits[name]
    return amount === undefined ? [] : [[`${prefix}${NAMES[name]}`, `${amount} USDC`] as const]
  })
}
