import { takeApart } from '../../audio/pack/take-apart.ts'
import { stitch } from '../../audio/parts/stitch.ts'
import type { Transcript } from '../../audio/transcript.ts'
import { sharesOf } from '../plan/group-packs.ts'
import { asPaidError } from '../plan/planned-file.ts'
import type { PackJob, RecordingWork } from '../plan/work.ts'
import { finishRecording, receiptsOf } from './finish-recording.ts'
import { type RunContext, warn } from './run-context.ts'
import { stopIfHopeless } from './stop-reason.ts'
import { type TranscribedUpload, transcribeUpload } from './transcribe-upload.ts'

/** Transcribes a pack, which has entered the gate already, and writes each of its clips. */
export async function runPackJob(context: RunContext, job: PackJob): Promise<void> {
  const startedAt = performance.now()
  const { clips } = job
  const transcribed = await transcribePack(context, job)
  const { transcript, payment } = transcribed
  const apart = takeApartPaid(transcript, job)
  const shares = sharesOf(
    transcribed.charged,
    clips.map(({ targets, recording }) => (targets.length === 0 ? 0 : (recording.uploads[0]?.durationMs ?? 0))),
  )
  const receipts = receiptsOf(context, [payment])
  for (const [index, work] of clips.entries()) {
    const clip = apart[index]
    const [upload] = work.recording.uploads
    if (work.targets.length === 0 || clip === undefined || upload === undefined) continue
    const { wordsInSilence, ...own } = clip
    if (wordsInSilence > 0)
      warn(
        context,
        'words_in_silence',
        `${work.file.label}: ${wordsInSilence} words were heard in the silence next to the clip.`,
        work.file,
      )
    await finishRecording(context, {
      work,
      transcript: stitch([{ transcript: own, offsetMs: upload.offsetMs, durationMs: upload.durationMs }]),
      payments: [payment],
      receipts,
      charged: shares[index] ?? 0n,
      startedAt,
    })
  }
}

/** Without words and times a pack cannot be taken apart; it is paid for all the same. */
function takeApartPaid(transcript: Transcript, { clips, spans }: PackJob) {
  try {
    return takeApart(transcript, spans)
  } catch (error) {
    throw asPaidError(error, firstToDo(clips).label)
  }
}

async function transcribePack(context: RunContext, job: PackJob): Promise<TranscribedUpload> {
  const { gate, preparer, begunPacks, onEvent, work } = context
  const { clips, upload, spans } = job
  const recordings = clips.map(({ recording }) => recording)
  const file = firstToDo(clips)
  try {
    const path = await preparer.pathOfPack({ upload: upload.upload, spans }, recordings)
    // Recorded before it is paid: a later run sends the same pack again, and not one with other clips.
    begunPacks.add({
      request: work.request.callDigest,
      clips: recordings.map(({ path: clip, bytes, modifiedMs }) => ({ path: clip, bytes, modifiedMs })),
      upload: upload.upload,
      spans,
    })
    const transcribed = await transcribeUpload(context, upload, path, file)
    const { charged, payment } = transcribed
    onEvent({ event: 'part', file, part: 1, parts: 1, charged, replayed: payment.replayed })
    return transcribed
  } catch (error) {
    stopIfHopeless(context, error)
    throw error
  } finally {
    gate.leave()
    await preparer.remove([upload.upload, ...recordings.flatMap((recording) => recording.uploads)])
  }
}

function firstToDo(clips: readonly RecordingWork[]) {
  const [first] = clips.filter(({ targets }) => targets.length > 0)
  if (first === undefined) throw new RangeError('nothing of the pack is to do')
  return first.file
}
