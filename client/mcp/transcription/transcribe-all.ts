import { planBatch, runBatch } from '../../batch/batch.ts'
import { exactJobsOf, workOf } from '../../batch/plan/work.ts'
import type { BatchEvent, BatchOptions, BatchOutcome, BatchPlan, OutputFormat } from '../../batch/types.ts'
import type { Farebox } from '../../farebox.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { Exchange, McpSession } from '../tool.ts'
import { agreeToBatch, requireSameCall } from './agree-batch.ts'
import { BatchProgressReport } from './batch-progress.ts'
import { findRecordings, type Named, type Recordings } from './recordings.ts'

export interface TranscriptionCall extends Named {
  readonly request: BatchOptions['request']
  readonly formats: readonly OutputFormat[]
  /** Where transcripts are written; without it those of one recording are returned, those of a folder stand next to it. */
  readonly outputFolder: string | undefined
  readonly requestId: string | undefined
}

export interface Transcribed {
  readonly recordings: Recordings
  readonly plan: BatchPlan
  readonly outcome: BatchOutcome
  /** The last event of each file, by its index. */
  readonly ends: ReadonlyMap<number, FileEnd>
  /** In the order of the formats, if they are not written. */
  readonly texts: readonly string[] | null
}

export type FileEnd = Extract<BatchEvent, { event: 'finished' | 'failed' }>

/** Less than the command's: an agent's machine does other work. */
const CONCURRENCY = 4
const PATIENCE_MS = 10 * 60_000

/** Prices recordings, has their price agreed to, transcribes them and pays for each once. */
export async function transcribeAll(
  session: McpSession,
  exchange: Exchange,
  call: TranscriptionCall,
): Promise<Transcribed> {
  const farebox = await session.farebox()
  // An unusable limits file ends the call before anything is read.
  session.limits.current()
  const report = new BatchProgressReport(exchange)
  try {
    const recordings = await findRecordings(session, exchange, call, (message) => report.step(message))
    const texts = call.outputFolder === undefined && recordings.kind !== 'folder' ? [] : null
    const options = await batchOptions(session, exchange, call, texts)
    const plan = await planBatch(farebox, recordings.sources, options, (event) => report.onEvent(event))
    try {
      await requireSafe(session, exchange, recordings, plan)
      await requireSameCall(session, farebox, plan, { requestId: call.requestId, options: keptOptions(call, plan) })
      const beforePayment = await agreeToBatch(session, exchange, farebox, plan)
      return { recordings, plan, texts, ...(await run(farebox, plan, { ...options, beforePayment }, report)) }
    } finally {
      await plan.discard()
    }
  } finally {
    report.end()
  }
}

async function run(farebox: Farebox, plan: BatchPlan, options: BatchOptions, report: BatchProgressReport) {
  const ends = new Map<number, FileEnd>()
  const outcome = await runBatch(farebox, plan, options, (event) => {
    if (event.event === 'finished' || event.event === 'failed') ends.set(event.file.index, event)
    report.onEvent(event)
  })
  return { outcome, ends }
}

async function batchOptions(
  { folders }: Pick<McpSession, 'folders'>,
  { signal }: Pick<Exchange, 'signal'>,
  { request, formats, outputFolder }: TranscriptionCall,
  texts: string[] | null,
): Promise<BatchOptions> {
  const { language } = request
  return {
    request,
    formats,
    output: {
      files: folders.output,
      ...(outputFolder !== undefined && { folder: await folders.outputFolder(outputFolder) }),
      ...(texts !== null && { print: (text: string) => void texts.push(text) }),
    },
    subtitles: { ...(language !== undefined && { language }) },
    receipts: false,
    concurrency: CONCURRENCY,
    pack: false,
    again: false,
    copiesSources: true,
    // A person approves, with `farebox approve`; no tool does.
    approves: false,
    purpose: 'mcp transcribe',
    group: 'transcribe',
    patienceMs: PATIENCE_MS,
    signal,
  }
}

/** What decides about the transcripts, apart from the recordings. */
function keptOptions({ formats, outputFolder }: TranscriptionCall, plan: BatchPlan): unknown {
  return { request: workOf(plan).request.fields, formats, outputFolder: outputFolder ?? null }
}

/**
 * Throws unless what is to be sent was read from allowed folders, and no file would be overwritten that is not a transcript.
 */
async function requireSafe(
  { folders }: Pick<McpSession, 'folders'>,
  { signal }: Pick<Exchange, 'signal'>,
  { kind }: Recordings,
  plan: BatchPlan,
): Promise<void> {
  const works = exactJobsOf(plan).flatMap((job) => (job.kind === 'pack' ? job.clips : [job]))
  if (kind !== 'url') {
    const measured = works.map(({ recording: { path, sha256 } }) => ({ path, sha256 }))
    await folders.requireMeasured(measured, signal)
  }
  const kept = works.flatMap(({ targets }) => targets.flatMap((target) => target.kept ?? []))
  const foreign = kept.find(({ reason }) => reason === 'foreign')
  if (foreign !== undefined)
    throw new FareboxError({
      code: 'output_exists',
      problem: `${foreign.path} exists and is not a transcript of farebox.`,
      money: 'none',
      advice: 'Name another output_folder, or other formats.',
    })
}
