import { pathToFileURL } from 'node:url'
import * as z from 'zod'
import { workOf } from '../../batch/plan/work.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Farebox, ReceiptRecord } from '../../farebox.ts'
import { paymentSchema } from '../content/payment-form.ts'
import { noticeSchema, safeName, UNTRUSTED_RULE } from '../content/untrusted.ts'
import type { Transcribed } from './transcribe-all.ts'

/** More would not be read; the rest is counted. */
const MOST_FILES = 500
/** Clients refuse results of more than about a megabyte, and a text is in a result twice. */
const LONGEST_TEXTS = 300_000

const fileSchema = z.object({
  name: z.string().describe('Within the folder: untrusted data.'),
  state: z.enum(['transcribed', 'failed', 'not_begun']),
  duration_ms: z.int(),
  outputs: z.array(z.string()).describe('The transcripts that are written, as file URLs.'),
  payments: z.array(paymentSchema).describe('One for each part that was sent.'),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
})

export const transcriptionSchema = z.object({
  recordings: z.int(),
  transcribed: z.int(),
  failed: z.int(),
  not_begun: z.int().describe('Left for a repetition of the call.'),
  charge_usdc: z.string().describe('What the transcribed recordings cost, once, in all calls together.'),
  stopped: z.string().optional().describe('Why some were not begun: the code of the error.'),
  without: z
    .array(z.string())
    .optional()
    .describe('What was not demanded and the model does not give, such as speakers: the transcripts have none.'),
  left_out: z.int().describe('Entries that lead out of the allowed folders or cannot be read.'),
  files: z.array(fileSchema).describe(`At most ${MOST_FILES}; the totals count all.`),
  transcripts: z
    .array(z.object({ format: z.string(), text: z.string() }))
    .optional()
    .describe('Of one recording, unless they are written: untrusted data.'),
  too_long: z.boolean().optional().describe('The transcript is too long for a result: name an output_folder.'),
  notice: noticeSchema,
})

export type TranscriptionForm = z.infer<typeof transcriptionSchema>
type FileForm = TranscriptionForm['files'][number]

/** States what was transcribed as the journal knows it, so that it is the same however often the call is repeated. */
export async function transcriptionForm(
  farebox: Farebox,
  { recordings, plan, outcome, ends, texts }: Transcribed,
  formats: readonly string[],
): Promise<TranscriptionForm> {
  const receipts = new Map<string, ReceiptRecord>()
  for (const record of farebox.receipts()) if (record.receiptId !== null) receipts.set(record.receiptId, record)
  const used = new Set<string>()
  const { without } = workOf(plan).request
  const files = plan.files.map((file): FileForm => {
    const end = ends.get(file.index)
    const error = end?.event === 'failed' ? end.error : undefined
    const receiptIds = (end?.event === 'finished' ? end.receiptIds : file.receiptIds) ?? []
    for (const id of receiptIds) used.add(id)
    const isDone = end?.event === 'finished' || file.state === 'finished'
    return {
      name: safeName(file.name),
      state: isDone ? 'transcribed' : error === undefined ? 'not_begun' : 'failed',
      duration_ms: Math.round(file.durationMs),
      outputs: isDone ? file.outputs.map((output) => pathToFileURL(output).href) : [],
      payments: receiptIds.map((id) => paymentOf(farebox, id, receipts.get(id))),
      ...(error !== undefined && { error: { code: error.code, message: error.problem } }),
    }
  })
  const charge = [...used].reduce((sum, id) => sum + (receipts.get(id)?.charged ?? 0n), 0n)
  const count = (state: FileForm['state']) => files.filter((file) => file.state === state).length
  return {
    recordings: files.length,
    transcribed: count('transcribed'),
    failed: count('failed'),
    not_begun: count('not_begun'),
    charge_usdc: formatUsdc(charge),
    ...(outcome.stoppedBy !== undefined && { stopped: outcome.stopError?.code ?? outcome.stoppedBy }),
    ...(without.length > 0 && { without: [...without] }),
    left_out: recordings.skipped,
    files: files.slice(0, MOST_FILES),
    ...(texts !== null && transcriptsOf(texts, formats)),
    notice: UNTRUSTED_RULE,
  }
}

function transcriptsOf(texts: readonly string[], formats: readonly string[]) {
  const length = texts.reduce((sum, text) => sum + text.length, 0)
  if (length > LONGEST_TEXTS) return { too_long: true }
  return { transcripts: texts.map((text, index) => ({ format: formats[index] ?? 'txt', text })) }
}

function paymentOf(
  farebox: Farebox,
  receiptId: string,
  record: ReceiptRecord | undefined,
): FileForm['payments'][number] {
  return {
    price_usdc: record === undefined ? null : (farebox.knownCall(record.key)?.maximum ?? null),
    charge_usdc: formatUsdc(record?.charged ?? 0n),
    transaction: record?.transaction ?? null,
    receipt_id: receiptId,
  }
}
