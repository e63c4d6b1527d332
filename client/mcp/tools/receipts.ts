import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import type { ReceiptRecord } from '../../farebox.ts'
import { noticeSchema, safeName, UNTRUSTED_RULE, untrustedJson } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'

const MOST_RECEIPTS = 200
const DEFAULT_RECEIPTS = 20

const receiptSchema = z.object({
  receipt_id: z.string().nullable(),
  at: z.string(),
  charge_usdc: z.string(),
  operation: z.string(),
  model: z.string().nullable(),
  purpose: z.string().describe('What made the call.'),
  transaction: z.string().nullable(),
  verified: z.enum(['not_checked', 'passed', 'failed']),
  problems: z.array(z.string()),
})

/** Lists what was paid. */
export const receiptsTool = defineTool({
  ...TOOL_TEXTS.receipts,
  inputSchema: z.strictObject({
    since: z
      .union([z.iso.date(), z.iso.datetime({ offset: true })])
      .optional()
      .describe('From a UTC day such as 2026-11-22, or a time.'),
    limit: z.int().min(1).max(MOST_RECEIPTS).optional().describe(`${DEFAULT_RECEIPTS} by default.`),
  }),
  outputSchema: z.object({
    receipts: z.array(receiptSchema),
    more: z.boolean().describe('Whether there are more than the limit.'),
    notice: noticeSchema,
  }),
  run: async (session, _call, { since, limit = DEFAULT_RECEIPTS }) => {
    const farebox = await session.farebox()
    const from = since === undefined ? undefined : new Date(since)
    const records = farebox.receipts({ since: from })
    const receipts = records.slice(0, limit).map(receiptForm)
    const more = records.length > limit
    const text = `${receipts.length} ${receipts.length === 1 ? 'receipt' : 'receipts'}${more ? ', and there are more' : ''}`
    const structured = { receipts, more, notice: UNTRUSTED_RULE }
    return { structured, content: [{ type: 'text', text }, ...untrustedJson('receipt', receipts)] }
  },
})

/** The token that opens a receipt stays in the journal. */
function receiptForm(record: ReceiptRecord): z.infer<typeof receiptSchema> {
  const { receiptId, at, charged, operation, model, purpose, transaction, verified, problems } = record
  return {
    receipt_id: receiptId,
    at: at.toISOString(),
    charge_usdc: formatUsdc(charged),
    operation: safeName(operation),
    model: model === null ? null : safeName(model),
    purpose: safeName(purpose),
    transaction: transaction === null ? null : safeName(transaction),
    verified,
    problems: problems.map(safeName),
  }
}
