import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import type { SpendRow } from '../../farebox.ts'
import { noticeSchema, safeName, UNTRUSTED_RULE, untrustedJson } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'
import * as given from './arguments.ts'

const MOST_DAYS = 366
const DEFAULT_DAYS = 30
/** A year of days. */
const MOST_ROWS = 400

const COLUMNS = ['day', 'model', 'operation', 'purpose'] as const

const rowSchema = z.object({
  value: z.string().nullable().describe('The day, model, operation or purpose; null where it is not known.'),
  calls: z.int(),
  charge_usdc: z.string(),
})

/** Adds up what was paid. */
export const spendTool = defineTool({
  ...TOOL_TEXTS.spend,
  inputSchema: z.strictObject({
    days: z.int().min(1).max(MOST_DAYS).optional().describe(`UTC days, today included; ${DEFAULT_DAYS} by default.`),
    by: z
      .enum(COLUMNS)
      .optional()
      .describe('What one row is for; day by default. The purpose of a call of these tools has the name of its tool.'),
    from_service: given.fromService,
  }),
  outputSchema: z.object({
    from: z.string(),
    to: z.string(),
    by: z.enum(COLUMNS),
    calls: z.int(),
    charge_usdc: z.string(),
    open_usdc: z.string().nullable().describe('What may still be charged for calls without a known outcome.'),
    rows: z.array(rowSchema).describe(`At most ${MOST_ROWS}; the totals count all.`),
    notice: noticeSchema,
  }),
  run: async (session, { signal }, { days = DEFAULT_DAYS, by = 'day', from_service: fromService = false }) => {
    const farebox = await session.farebox()
    const spend = await farebox.spend({ days, source: fromService ? 'service' : 'journal', signal })
    const { from, to, calls, charged, open } = spend
    const rows = addUp(spend.rows, by)
    const charge = formatUsdc(charged)
    const structured = {
      from: safeName(from),
      to: safeName(to),
      by,
      calls,
      charge_usdc: charge,
      open_usdc: open === null ? null : formatUsdc(open),
      rows: rows.slice(0, MOST_ROWS),
      notice: UNTRUSTED_RULE,
    }
    const text = `${calls} ${calls === 1 ? 'call' : 'calls'}, charged ${charge} USDC`
    return { structured, content: [{ type: 'text', text }, ...untrustedJson('receipt', structured.rows)] }
  },
})

/** Adds up rows that agree in one column: days newest first, others by what they cost. */
function addUp(rows: readonly SpendRow[], by: (typeof COLUMNS)[number]): z.infer<typeof rowSchema>[] {
  const sums = new Map<string | null, { calls: number; charged: bigint }>()
  for (const row of rows) {
    const { calls, charged } = sums.get(row[by]) ?? { calls: 0, charged: 0n }
    sums.set(row[by], { calls: calls + row.calls, charged: charged + row.charged })
  }
  const all = [...sums]
  if (by !== 'day') all.sort(([, one], [, other]) => (one.charged < other.charged ? 1 : -1))
  return all.map(([value, { calls, charged }]) => ({
    value: value === null ? null : safeName(value),
    calls,
    charge_usdc: formatUsdc(charged),
  }))
}
