import { basename } from 'node:path'
import { planBatch } from '../../batch/plan/plan-batch.ts'
import { exactJobsOf, workOf } from '../../batch/plan/work.ts'
import { runBatch } from '../../batch/run/run-batch.ts'
import type { BatchEvent, BatchOptions, BatchOutcome, BatchPlan, OutputFormat } from '../../batch/types.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import type { FoundRecordings } from '../folders/find-allowed.ts'
import type { Exchange, McpSession } from '../tool.ts'
import { agreeToBatch, requireSameCall } from './agree-batch.ts'

/** The recordings of one call. */
type Recordings = Omit<FoundRecordings, 'kind'> & { readonly kind: FoundRecordings['kind'] | 'url' }

const BYTES_PER_REPORT = 4 * 1024 * 1024
const LONGEST_NAME = 100

/** Clients end a call that reports nothing for a minute. */
const HEARTBEAT_MS = 10_000
/** What a report adds that follows no file, since each report must be higher than the one before. */
const STEP = 0.001

/**
 * Reports the progress of a batch: each file counts once when it is priced and once when it is transcribed. Names of
 * files are texts of others, so no report has any.
 */
function reportBatch(exchange: Pick<Exchange, 'progress'>) {
  let [reported, done, message] = [0, 0, 'looking for recordings']
  let total: number | undefined
  const report = () => {
    // It may only rise, and not above the total: a heartbeat before the answer would.
    if (total !== undefined && reported >= total) return
    reported = Math.max(reported + STEP, done)
    exchange.progress(reported, total, message)
  }
  const step = (next: string) => {
    message = next
    report()
  }
  const timer = setInterval(report, HEARTBEAT_MS)
  report()
  return {
    step,
    onEvent: (event: BatchEvent) => {
      if (event.event === 'planned') {
        total = 2 * event.of
        done = event.done
        step(`measured ${event.done} of ${event.of}`)
      } else if (event.event === 'progress') {
        const { finished, skipped, failed, charged } = event.progress
        const files = (total ?? 0) / 2
        if (files + finished + skipped + failed <= done) return
        done = files + finished + skipped + failed
        step(`${finished + skipped} of ${files} transcribed, ${failed} failed, charged ${formatUsdc(charged)} USDC`)
      } else if (event.event === 'waiting') step('waiting for the service')
    },
    end: () => clearInterval(timer),
  }
}

interface TranscriptionCall {
  /** One of both is named. */
  readonly path?: string | undefined
  readonly url?: string | undefined
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

type FileEnd = Extract<BatchEvent, { event: 'finished' | 'failed' }>

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
  const report = reportBatch(exchange)
  try {
    const recordings = await findRecordings(session, exchange, call, report.step)
    const texts = call.outputFolder === undefined && recordings.kind !== 'folder' ? [] : null
    const options = await batchOptions(session, exchange, call, texts)
    const plan = await planBatch(farebox, recordings.sources, options, report.onEvent)
    try {
      await requireSafe(session, exchange, recordings, plan)
      const { requestId, formats, outputFolder = null } = call
      const kept = { request: workOf(plan).request.fields, formats, outputFolder }
      await requireSameCall(session, farebox, plan, { requestId, options: kept })
      const beforePayment = await agreeToBatch(session, exchange, farebox, plan)
      const ends = new Map<number, FileEnd>()
      const outcome = await runBatch(farebox, plan, { ...options, beforePayment }, (event) => {
        if (event.event === 'finished' || event.event === 'failed') ends.set(event.file.index, event)
        report.onEvent(event)
      })
      return { recordings, plan, outcome, ends, texts }
    } finally {
      await plan.discard()
    }
  } finally {
    report.end()
  }
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
    throw uncharged(
      'output_exists',
      `${foreign.path} exists and is not a transcript of farebox.`,
      'Name another output_folder, or other formats.',
    )
}

/** Finds the recordings at a path, or fetches the one of a URL. */
async function findRecordings(
  { folders }: Pick<McpSession, 'folders'>,
  { signal }: Pick<Exchange, 'signal'>,
  { path, url }: TranscriptionCall,
  report: (message: string) => void,
): Promise<Recordings> {
  if ((path === undefined) === (url === undefined))
    throw uncharged('invalid_arguments', 'A call names either a path or a url.', 'Name one of both.')
  if (path !== undefined) return await folders.find(path)
  const named = url ?? ''
  let reported = 0
  const fetched = await folders.fetch(named, {
    signal,
    onProgress: (bytes) => {
      if (bytes - reported < BYTES_PER_REPORT) return
      reported = bytes
      report(`fetched ${Math.floor(bytes / 1024 / 1024)} MiB`)
    },
  })
  const source = { path: fetched, label: 'The recording of the URL', name: nameOf(named) }
  return { kind: 'url', sources: [source], skipped: 0 }
}

/** Returns the last part of a URL's path as a name that is safe to write. */
function nameOf(url: string): string {
  const name = basename(new URL(url).pathname)
    .replace(/[^\w.-]+/g, '_')
    .replace(/^\.+/, '')
  return name.slice(-LONGEST_NAME) || 'recording'
}
