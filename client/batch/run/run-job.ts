import { stitch } from '../../audio/parts/stitch.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import { FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { pathsOf } from '../plan/choose-outputs.ts'
import { asFareboxError, durationOf } from '../plan/planned-file.ts'
import type { FileJob, Job, PlannedJob, RecordingWork, StatedJob } from '../plan/work.ts'
import type { PlannedFile } from '../types.ts'
import { finishRecording, receiptsOf } from './finish-recording.ts'
import { type RunContext, warn } from './run-context.ts'
import { runPackJob } from './run-pack-job.ts'
import { isLeftForLater, stopIfHopeless, stopReasonOf } from './stop-reason.ts'
import { transcribeUpload } from './transcribe-upload.ts'

/** Returns the files that a job writes. */
export function targetsOf(job: PlannedJob): readonly PlannedFile[] {
  return job.kind === 'pack' ? job.clips.flatMap(({ targets }) => targets) : job.targets
}

/**
 * Returns a job that can enter the gate; nothing if its recording cannot be prepared, or if the run was interrupted
 * meanwhile. Never throws.
 */
export async function makeReady(context: RunContext, job: PlannedJob): Promise<Job | undefined> {
  if (job.kind !== 'stated') return job
  const { drain, signal } = context.options
  try {
    return await prepareStated(context, job)
  } catch (error) {
    if (drain?.aborted === true || signal?.aborted === true) return undefined
    context.tally.begin(job.targets)
    failAll(context, job, asFareboxError(error, job.file.label))
    return undefined
  }
}

/** Does a job that has entered the gate. Never throws: its files fail alone, or the run stops. */
export async function runJob(context: RunContext, job: Job): Promise<void> {
  context.tally.begin(targetsOf(job))
  const writable = await withWritableTargets(context, job)
  const targets = targetsOf(writable)
  if (targets.length === 0) {
    context.gate.leave()
    return
  }
  try {
    if (writable.kind === 'pack') await runPackJob(context, writable)
    else await runFileJob(context, writable)
  } catch (error) {
    failAll(context, writable, asFareboxError(error, targets[0]?.label ?? ''))
  }
}

/** Nothing is paid for a transcript that could not be written. */
async function withWritableTargets(context: RunContext, job: Job): Promise<Job> {
  if (job.kind === 'file') return { ...job, ...(await withWritable(context, job)) }
  const clips = await Promise.all(job.clips.map((clip) => withWritable(context, clip)))
  return { ...job, clips }
}

async function withWritable(context: RunContext, work: RecordingWork): Promise<RecordingWork> {
  const { folders, tally } = context
  const targets: PlannedFile[] = []
  for (const file of work.targets) {
    try {
      await folders.requireWritable(pathsOf(file))
      targets.push(file)
    } catch (error) {
      stopIfHopeless(context, error)
      tally.fail(file, asFareboxError(error, file.label), 0n)
    }
  }
  return { ...work, file: targets[0] ?? work.file, targets }
}

function failAll(context: RunContext, job: PlannedJob, error: FareboxError): void {
  const { tally, charges } = context
  stopIfHopeless(context, error)
  if (error.code === 'result_expired') rememberExpired(context, job)
  const reason = stopReasonOf(error)
  for (const file of targetsOf(job)) {
    if (isLeftForLater(reason)) tally.leave()
    else {
      const charged = charges.get(file.index) ?? 0n
      tally.fail(file, job.kind === 'pack' ? errorOfClip(file, error) : withParts(file, error, charged), charged)
    }
  }
}

/** `again` asks for another transcript then, also where no record says that there was one. */
function rememberExpired({ work: { finished, request } }: RunContext, job: PlannedJob): void {
  const works: readonly (RecordingWork | StatedJob)[] = job.kind === 'pack' ? job.clips : [job]
  try {
    finished.beginAgain(
      works.map(({ recording: { sha256 }, occurrence }) => {
        return { sha256, request: request.callDigest, again: occurrence, isExpired: true }
      }),
    )
  } catch {
    // The next run meets the same answer.
  }
}

/** Parts that were paid for before one failed are not lost. */
function withParts({ label }: PlannedFile, error: FareboxError, charged: bigint): FareboxError {
  if (charged === 0n || error.money !== 'none') return error
  return new FareboxError({
    code: error.code,
    problem: `${label}: a part of it failed (${error.problem}) Others were charged ${formatUsdc(charged)} USDC.`,
    money: 'settled',
    advice: 'Run the command again: it pays only for what is missing.',
    requestId: error.requestId,
    cause: error,
  })
}

/** A clip that changed keeps the others of its pack from being sent. */
function errorOfClip(file: PlannedFile, error: FareboxError): FareboxError {
  const { path } = error as { readonly path?: unknown }
  if (typeof path !== 'string' || path === file.path) return error
  return new FareboxError({
    code: 'pack_incomplete',
    problem: `${file.label} was not sent: it is in one pack with ${path} (${error.problem})`,
    money: error.money,
    advice: 'Run the command again.',
    cause: error,
  })
}

/** Transcribes a recording, its parts at the same time, and writes it. The first part has entered the gate already. */
async function runFileJob(context: RunContext, job: FileJob): Promise<void> {
  const startedAt = performance.now()
  const { gate, preparer, work, onEvent } = context
  const { num_speakers: numSpeakers } = work.request.fields
  const { file, recording, uploads } = job
  let failure: { readonly error: unknown } | undefined
  const parts = await Promise.all(
    uploads.map(async (upload, index) => {
      if (index > 0) await gate.enter('part')
      try {
        // What is paid already can be had later; the rest of a recording that fails is not paid.
        if (failure !== undefined) return undefined
        const done = await transcribeUpload(context, upload, await preparer.pathOf(recording, index), file)
        const { charged, payment } = done
        onEvent({ event: 'part', file, part: index + 1, parts: uploads.length, charged, replayed: payment.replayed })
        return done
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
  const receipts = receiptsOf(context, payments)
  await finishRecording(context, { work: job, transcript, payments, receipts, charged, startedAt })
  await preparer.remove(recording.uploads)
}

/** Prepares a recording that was priced by what its file states. Throws if it would cost more than was agreed to. */
async function prepareStated(context: RunContext, job: StatedJob): Promise<FileJob> {
  const { preparer, pricer } = context
  const { occurrence, file: planned, recording: stated } = job
  const recording = await preparer.prepareStated(stated)
  const { uploads, price, alreadyPaid } = pricer.price(recording.uploads, occurrence)
  const exact = price - alreadyPaid
  if (exact > planned.price)
    throw uncharged(
      'price_above_estimate',
      `${planned.label} is longer than its file states: it costs ${formatUsdc(exact)} USDC, and at most ${formatUsdc(planned.price)} USDC was agreed to.`,
      'Run the command again: it shows the exact price.',
    )
  const { warnings } = recording
  const known = { durationMs: durationOf(recording), parts: uploads.length, warnings }
  const targets = job.targets.map((target): PlannedFile => {
    const { isEstimate: _, ...rest } = target
    return { ...rest, ...known, ...(target === planned && { price, alreadyPaid }) }
  })
  const [file] = targets
  if (file === undefined) throw new RangeError('a recording is prepared for the files that it is written for')
  for (const warning of warnings.filter((text) => !stated.warnings.includes(text)))
    warn(context, 'incomplete_recording', `${file.label}: ${warning}`, file)
  return { kind: 'file', file, recording, occurrence, targets, uploads }
}
