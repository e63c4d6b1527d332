import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import { DEFAULT_DAYS, MOST_DAYS, SPEND_COLUMNS, sumsBy } from '../../receipts/spend.ts'
import { noticeSchema, safeName, UNTRUSTED_RULE, untrustedJson } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'

/** A year of days. */
const MOST_ROWS = 400

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
      .enum(SPEND_COLUMNS)
      .optional()
      .describe('What one row is for; day by default. The purpose of a call of these tools has the name of its tool.'),
  }),
  outputSchema: z.object({
    from: z.string(),
    to: z.string(),
    by: z.enum(SPEND_COLUMNS),
    calls: z.int(),
    charge_usdc: z.string(),
    open_usdc: z.string().describe('What may still be charged for calls without a known outcome.'),
    rows: z.array(rowSchema).describe(`At most ${MOST_ROWS}; the totals count all.`),
    notice: noticeSchema,
  }),
  run: async (session, _call, { days = DEFAULT_DAYS, by = 'day' }) => {
    const farebox = await session.farebox()
    const spend = farebox.spend({ days })
    const { from, to, calls, charged, open } = spend
    const rows = sumsBy(spend.rows, by).map(({ value, calls, charged }) => ({
      value: value === null ? null : safeName(value),
      calls,
      charge_usdc: formatUsdc(charged),
    }))
    const charge = formatUsdc(charged)
    const structured = {
      from: safeName(from),
      to: safeName(to),
      by,
      calls,
      charge_usdc: charge,
      open_usdc: formatUsdc(open),
      rows: rows.slice(0, MOST_ROWS),
      notice: UNTRUSTED_RULE,
    }
    const text = `${calls} ${calls === 1 ? 'call' : 'calls'}, charged ${charge} USDC`
    return { structured, content: [{ type: 'text', text }, ...untrustedJson('receipt', structured.rows)] }
  },
})
