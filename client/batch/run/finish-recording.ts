import { hash } from 'node:crypto'
import { lstat, readFile } from 'node:fs/promises'
import type { Transcript } from '../../audio/transcript.ts'
import type { Payment } from '../../payment/paid-call.ts'
import { fetchReceipt } from '../../receipts/read-receipt.ts'
import { ReceiptStore } from '../../receipts/receipt-store.ts'
import type { Receipt } from '../../wire/schemas.ts'
import { type RenderedTranscript, renderTranscript } from '../output/render-transcript.ts'
import { pathsOf } from '../plan/choose-outputs.ts'
import { asFareboxError, asPaidError } from '../plan/planned-file.ts'
import type { RecordingWork } from '../plan/work.ts'
import type { PlannedFile } from '../types.ts'
import { type RunContext, warn } from './run-context.ts'
import { stopIfHopeless } from './stop-reason.ts'

/** A recording whose transcript is complete. */
export interface TranscribedRecording {
  readonly work: RecordingWork
  readonly transcript: Transcript
  readonly payments: readonly Payment[]
  /** The receipts of the payments, read once for all clips of a pack. */
  readonly receipts: Promise<readonly Receipt[]>
  /** What this run was charged for it, in atomic units. */
  readonly charged: bigint
  readonly startedAt: number
}

/** Writes the transcripts of a recording for each file that has its content. One that cannot be written fails alone. */
export async function finishRecording(context: RunContext, recording: TranscribedRecording): Promise<void> {
  const { tally } = context
  const { work } = recording
  const rendered = render(context, recording)
  if (rendered === null) return
  for (const target of work.targets) {
    const charged = target === work.file ? recording.charged : 0n
    let file = target
    try {
      file = await writeAll(context, recording, target, rendered.texts)
    } catch (error) {
      stopIfHopeless(context, error)
      tally.fail(target, asPaidError(error, target.label), charged)
      continue
    }
    context.onEvent({
      event: 'finished',
      file,
      charged,
      replayed: recording.payments.every(({ replayed }) => replayed),
      receiptIds: recording.payments.flatMap(({ receiptId }) => receiptId ?? []),
      transactions: recording.payments.flatMap(({ transaction }) => transaction ?? []),
      violations: rendered.violations,
      elapsedMs: Math.round(performance.now() - recording.startedAt),
    })
    tally.finish(file)
  }
}

/** Returns `null` when the words cannot be written as the options say: all files of the recording fail. */
function render(
  { options: { formats, subtitles }, tally }: RunContext,
  { work, transcript, charged }: TranscribedRecording,
): RenderedTranscript | null {
  try {
    return renderTranscript(transcript, formats, subtitles, work.file.durationMs)
  } catch (error) {
    for (const file of work.targets) tally.fail(file, asPaidError(error, file.label), file === work.file ? charged : 0n)
    return null
  }
}

/** Writes and records; returns the file with the names that its transcripts have. */
async function writeAll(
  context: RunContext,
  recording: TranscribedRecording,
  target: PlannedFile,
  texts: readonly string[],
): Promise<PlannedFile> {
  const { options, folders } = context
  const { print } = options.output
  if (print !== undefined) {
    for (const text of texts) await print(text, target)
    return target
  }
  const [receipt] = target.receipt === undefined ? [] : await Promise.allSettled([recording.receipts])
  const contents = receipt?.status === 'fulfilled' ? [...texts, renderReceipts(receipt.value)] : texts
  const { file, paths } = await asPreferred(target, contents)
  const written = paths.flatMap(({ path, isPresent }, index) => {
    const content = contents[index]
    return content === undefined ? [] : [{ path, isPresent, content, digest: hash('sha256', content) }]
  })
  const missing = written.filter(({ isPresent }) => !isPresent)
  await Promise.all(missing.map(({ path, content }) => folders.write(path, content)))
  if (receipt?.status === 'rejected') throw receipt.reason
  record(context, recording, file, written)
  return file
}

/**
 * Gives a file the names that it would have without those that were kept, if these are the same transcripts: they were
 * written by a run that was killed before it recorded them, or by one whose record was deleted.
 */
async function asPreferred(target: PlannedFile, contents: readonly string[]) {
  const { preferred, kept: _, ...rest } = target
  if (preferred !== undefined) {
    const present = await Promise.all(
      pathsOf(preferred).map(async (path) => ({ path, content: await contentAt(path) })),
    )
    const isSame = present.every(({ content }, index) => content === undefined || content === contents[index])
    if (isSame) {
      const file: PlannedFile = { ...rest, ...preferred }
      return { file, paths: present.map(({ path, content }) => ({ path, isPresent: content !== undefined })) }
    }
  }
  return { file: target, paths: pathsOf(target).map((path) => ({ path, isPresent: false })) }
}

/** Returns what a file has, `null` for what is no readable file, `undefined` if nothing is there. */
async function contentAt(path: string): Promise<string | null | undefined> {
  try {
    return (await lstat(path)).isFile() ? await readFile(path, 'utf8') : null
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : null
  }
}

/** One receipt is written as it is, so that it can be verified as it is. */
function renderReceipts(receipts: readonly Receipt[]): string {
  const [only] = receipts
  return `${JSON.stringify(receipts.length === 1 ? only : receipts, null, 2)}\n`
}

/** A file without a record is looked at another time, which costs nothing. */
function record(
  context: RunContext,
  { work, payments }: TranscribedRecording,
  file: PlannedFile,
  written: readonly { readonly path: string; readonly digest: string }[],
): void {
  const { finished, request } = context.work
  const { sha256 } = work.recording
  try {
    finished.add({
      path: file.path,
      bytes: file.bytes,
      modifiedMs: file.modifiedMs,
      sha256,
      request: request.callDigest,
      rendering: request.renderingDigest,
      occurrence: work.occurrence,
      durationMs: file.durationMs,
      outputs: written.map(({ path }) => path),
      outputDigests: written.map(({ digest }) => digest),
      receiptIds: payments.flatMap(({ receiptId }) => receiptId ?? []),
    })
  } catch (error) {
    const { message } = asFareboxError(error, file.label)
    warn(context, 'record_unwritable', `It is not recorded that ${file.label} is finished: ${message}`, file)
  }
}

/** Returns the receipts of payments, if they are to be written. A failure is reported by the file that needs them. */
export function receiptsOf(context: RunContext, payments: readonly Payment[]): Promise<readonly Receipt[]> {
  const receipts = readAll(context, payments)
  // They are awaited only after transcripts are written; until then a failure would end the process.
  receipts.catch(() => undefined)
  return receipts
}

/** What is written is the document that was verified, where it is kept. */
async function readAll({ farebox, options }: RunContext, payments: readonly Payment[]): Promise<readonly Receipt[]> {
  if (!options.receipts) return []
  const { fetch, baseUrl, home } = farebox
  const verified = new ReceiptStore(home)
  const read = async (id: string, token: string) =>
    (await verified.load(id)) ??
    (await fetchReceipt({ fetch, now: Date.now, baseUrl }, id, token, { signal: options.signal }))
  return await Promise.all(
    payments.flatMap(({ receiptId, receiptToken }) =>
      receiptId === null || receiptToken === null ? [] : [read(receiptId, receiptToken)],
    ),
  )
}
