import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Farebox, ReceiptVerification, Wire } from '../../farebox.ts'
import { isReceiptId } from '../../receipts/receipt-store.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { parseObject } from '../../wire/json.ts'
import { plainText } from '../../wire/plain-text.ts'
import { noticeSchema, safeName, UNTRUSTED_RULE, untrustedJson } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool, type McpSession } from '../tool.ts'

const LONGEST_PATH = 4096
/** A file has the receipts of one transcript. */
const MOST_RECEIPTS = 100
const MOST_BYTES = 1024 * 1024

const verificationSchema = z.object({
  receipt_id: z.string(),
  valid: z.boolean(),
  charge_usdc: z.string(),
  operation: z.string(),
  model: z.string(),
  checks: z.array(z.object({ name: z.string(), outcome: z.enum(['passed', 'failed', 'skipped']), detail: z.string() })),
})

/** Checks receipts without trusting the service. */
export const verifyReceiptTool = defineTool({
  ...TOOL_TEXTS.verify_receipt,
  inputSchema: z.strictObject({
    receipt_id: z.uuid().optional().describe('The id of a receipt of this wallet.'),
    path: z
      .string()
      .min(1)
      .max(LONGEST_PATH)
      .optional()
      .describe('A saved receipt in an allowed folder, such as the a.receipt.json of a transcript.'),
    receipt: z.record(z.string(), z.unknown()).optional().describe('The document itself.'),
  }),
  outputSchema: z.object({
    valid: z.boolean().describe('Whether all of them are.'),
    receipts: z.array(verificationSchema),
    notice: noticeSchema,
  }),
  run: async (session, { signal }, input) => {
    const documents = await documentsOf(session, input)
    const farebox = await session.farebox()
    const receipts: z.infer<typeof verificationSchema>[] = []
    for (const document of documents) {
      signal.throwIfAborted()
      receipts.push(verificationForm(await verify(farebox, document, signal)))
    }
    const valid = receipts.every((receipt) => receipt.valid)
    const count = receipts.filter((receipt) => receipt.valid).length
    const text = `${count} of ${receipts.length} ${receipts.length === 1 ? 'receipt is' : 'receipts are'} valid`
    const structured = { valid, receipts, notice: UNTRUSTED_RULE }
    return { structured, content: [{ type: 'text', text }, ...untrustedJson('receipt', receipts)] }
  },
})

/** An id or documents: a path that an agent names is never opened by the library, which reads any file. */
async function documentsOf(
  { folders }: Pick<McpSession, 'folders'>,
  {
    receipt_id: id,
    path,
    receipt,
  }: { receipt_id?: string | undefined; path?: string | undefined; receipt?: Record<string, unknown> | undefined },
): Promise<readonly (string | Record<string, unknown>)[]> {
  if ([id, path, receipt].filter((one) => one !== undefined).length !== 1)
    throw invalid('A call names one of receipt_id, path and receipt.')
  if (receipt !== undefined) return [receipt]
  if (id !== undefined) return [id.toLowerCase()]
  const { handle, bytes } = await folders.open(path ?? '')
  try {
    if (bytes > MOST_BYTES) throw notAReceipt()
    return receiptsIn(await handle.readFile('utf8'))
  } finally {
    await handle.close()
  }
}

function receiptsIn(text: string): readonly Record<string, unknown>[] {
  const value = parseObject(text)
  const documents: readonly unknown[] = Array.isArray(value) ? value : [value]
  const areObjects = documents.every((each) => typeof each === 'object' && each !== null)
  if (!areObjects || documents.length === 0 || documents.length > MOST_RECEIPTS) throw notAReceipt()
  return documents as Record<string, unknown>[]
}

async function verify(farebox: Farebox, receipt: string | Record<string, unknown>, signal: AbortSignal) {
  if (typeof receipt !== 'string') return await farebox.verify(receipt as unknown as Wire.Receipt, { signal })
  if (!isReceiptId(receipt)) throw invalid('The receipt_id is not the id of a receipt.')
  return await farebox.verify(receipt, { signal })
}

function verificationForm({ receiptId, outcome, checks, receipt }: ReceiptVerification) {
  return {
    receipt_id: safeName(receiptId),
    valid: outcome === 'passed',
    charge_usdc: formatUsdc(BigInt(receipt.charge_atomic)),
    operation: safeName(receipt.operation),
    model: safeName(receipt.model),
    checks: checks.map((check) => ({ name: check.name, outcome: check.outcome, detail: plainText(check.detail) })),
  }
}

function invalid(problem: string): FareboxError {
  return uncharged('invalid_arguments', problem, 'Correct the arguments.')
}

function notAReceipt(): FareboxError {
  return uncharged(
    'not_a_receipt',
    'The file is not a receipt or a list of receipts.',
    'Name a file such as the a.receipt.json of a transcript, or a receipt_id.',
  )
}
