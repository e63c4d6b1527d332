import { stitch } from '../../audio/audio.ts'
import type { FileJob } from '../plan/work.ts'
import { fetchReceipts, finishRecording } from './finish-recording.ts'
import type { RunContext } from './run-context.ts'
import { stopIfHopeless } from './stop-if-hopeless.ts'
import { type TranscribedUpload, transcribeUpload } from './transcribe-upload.ts'

/** Transcribes a recording, its parts at the same time, and writes it. The first part has entered the gate already. */
export async function runFileJob(context: RunContext, job: FileJob): Promise<void> {
  const startedAt = performance.now()
  const { gate, preparer, work } = context
  const { num_speakers: numSpeakers } = work.request.fields
  const { recording, uploads } = job
  let failure: { readonly error: unknown } | undefined
  const parts = await Promise.all(
    uploads.map(async (upload, index) => {
      if (index > 0) await gate.enter('part')
      try {
        // What is paid already can be had later; the rest of a recording that fails is not paid.
        if (failure !== undefined) return undefined
        const part = await transcribeUpload(context, upload, await preparer.pathOf(recording, index), job.file)
        reportPart(context, job, index, part)
        return part
      } catch (error) {
        failure ??= { error }
        stopIfHopeless(context, error)
        return undefined
      } finally {
        gate.leave()
      }
    }),
  )
  if (failure !== undefined) throw failure.error
  const done = parts.filter((part) => part !== undefined)
  const transcript = stitch(
    done.map(({ transcript: own }, index) => ({
      transcript: own,
      offsetMs: recording.uploads[index]?.offsetMs ?? 0,
      durationMs: recording.uploads[index]?.durationMs ?? 0,
    })),
    numSpeakers === undefined ? {} : { speakers: numSpeakers },
  )
  const payments = done.map(({ payment }) => payment)
  const charged = done.reduce((sum, part) => sum + part.charged, 0n)
  const receipts = fetchReceipts(context, payments)
  await finishRecording(context, { work: job, transcript, payments, receipts, charged, startedAt })
  await preparer.remove(recording.uploads)
}

function reportPart({ onEvent }: RunContext, { file, uploads }: FileJob, index: number, part: TranscribedUpload): void {
  const { charged, payment } = part
  onEvent({ event: 'part', file, part: index + 1, parts: uploads.length, charged, replayed: payment.replayed })
}
