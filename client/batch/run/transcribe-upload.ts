import { readTranscript, type Transcript } from '../../audio/transcript.ts'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import type { Payment } from '../../payment/paid-call.ts'
import type { FareboxError } from '../../wire/farebox-error.ts'
import { NoAnswer } from '../../wire/no-answer.ts'
import { ServiceError } from '../../wire/service-error.ts'
import type { UploadWork } from '../plan/price-uploads.ts'
import type { PlannedFile } from '../types.ts'
import { type RunContext, warn } from './run-context.ts'

/** The answer for one upload. */
export interface TranscribedUpload {
  readonly transcript: Transcript
  readonly payment: Payment
  /** What was charged now, in atomic units. */
  readonly charged: bigint
}

/** An archive is worth waiting for a service that is away. */
const DEFAULT_PATIENCE_MS = 60 * 60_000
const BUSY_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** Pays for one upload and returns its transcript. `file` is the one that events name. */
export async function transcribeUpload(
  context: RunContext,
  { upload, key, price }: UploadWork,
  path: string,
  file: PlannedFile,
): Promise<TranscribedUpload> {
  const { farebox, options, work, gate, tally, charges } = context
  const { sha256, bytes, durationMs } = upload
  context.called.add(key)
  const { result, payment } = await farebox.transcriptions.create(
    { ...work.request.fields, file: path, audio: { sha256, bytes, duration_ms: durationMs } },
    {
      requestId: key,
      maximum: formatUsdc(price),
      signal: options.signal,
      patienceMs: options.patienceMs ?? DEFAULT_PATIENCE_MS,
      purpose: options.purpose ?? 'transcribe',
      group: options.group,
      beforePayment: options.beforePayment,
      onWait: (error, waitMs) => reportWait(context, file, error, waitMs),
    },
  )
  gate.succeeded()
  const amount = parseUsdc(payment.charged)
  const charged = payment.replayed ? 0n : amount
  tally.charge(amount, payment.replayed)
  charges.set(file.index, (charges.get(file.index) ?? 0n) + charged)
  reportPayment(context, file, payment)
  const transcript = readTranscript(result)
  if (work.request.fields.diarize === true && !namesSpeakers(transcript))
    warn(
      context,
      'no_speakers',
      `${file.label}: speakers were asked for, and the model that answered names none.`,
      file,
    )
  if (work.request.fields.timestamps !== 'none' && transcript.words === undefined)
    warn(
      context,
      'no_word_times',
      `${file.label}: the model that answered tells no times of words; subtitles are spread over the recording.`,
      file,
    )
  return { transcript, payment, charged }
}

/** A recording without words has no speakers either. */
function namesSpeakers({ words = [] }: Transcript): boolean {
  const spoken = words.filter(({ type }) => type !== 'spacing' && type !== 'audio_event')
  return spoken.length === 0 || spoken.some(({ speaker }) => speaker !== undefined)
}

function reportWait({ gate, onEvent }: RunContext, file: PlannedFile, error: FareboxError, waitMs: number): void {
  const silentMs = error instanceof NoAnswer ? error.silentMs : undefined
  onEvent({ event: 'waiting', file, code: error.code, reason: error.problem, waitMs, ...(silentMs && { silentMs }) })
  const isLost = error.code === 'connection_lost' || error.code === 'no_answer'
  const isBusy = error instanceof ServiceError ? BUSY_STATUSES.has(error.status) : isLost
  if (isBusy) gate.slowDown(error.code, waitMs)
}

function reportPayment(context: RunContext, file: PlannedFile, payment: Payment): void {
  const problems = payment.problems.join('; ')
  const receipt = `The receipt ${payment.receiptId ?? ''} of ${file.label}`
  if (payment.verified === 'failed') warn(context, 'receipt_failed', `${receipt} does not verify: ${problems}.`, file)
  else if (problems !== '') warn(context, 'receipt_not_checked', `${receipt} is not verified: ${problems}.`, file)
  if (payment.recorded) return
  const text = `The journal could not record the charge for ${file.label}; its maximum stays reserved in the budget.`
  warn(context, 'journal_unwritable', text, file)
}
