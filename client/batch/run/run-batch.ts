import { parseUsdc } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import type { FareboxError } from '../../wire/farebox-error.ts'
import { OutputFolders } from '../output/output-folders.ts'
import { asFareboxError } from '../plan/planned-file.ts'
import type { Preparer } from '../plan/preparer.ts'
import { type Job, workOf } from '../plan/work.ts'
import { BegunPacks } from '../record/begun-packs.ts'
import type { BatchOptions, BatchOutcome, BatchPlan, OnBatchEvent, StoppedBy } from '../types.ts'
import { Affordable } from './affordable.ts'
import { Gate } from './gate.ts'
import type { RunContext } from './run-context.ts'
import { runJob, targetsOf } from './run-job.ts'
import { Tally } from './tally.ts'

/**
 * Transcribes the files of a plan that are to do, pays for them and writes their transcripts. A file that fails fails
 * alone; what ends the whole run (budget, funds, an interruption) is in the outcome. Nothing is paid twice, however often
 * a plan is run.
 */
export async function runBatch(
  farebox: Farebox,
  plan: BatchPlan,
  options: BatchOptions,
  onEvent: OnBatchEvent = () => undefined,
): Promise<BatchOutcome> {
  const startedAt = performance.now()
  const tally = new Tally(plan.files, onEvent)
  const stopped: Stopped = {}
  try {
    await runJobs({ farebox, plan, options, tally, onEvent }, stopped)
  } finally {
    await plan.discard()
  }
  const interrupted = options.signal?.aborted === true || options.drain?.aborted === true
  return {
    ...tally.progress(),
    kept: tally.kept,
    ...openPayments(farebox, plan),
    failures: tally.failures,
    elapsedMs: Math.round(performance.now() - startedAt),
    interrupted,
    ...(stopped.by !== undefined && { stoppedBy: stopped.by }),
    ...(stopped.error !== undefined && { stopError: stopped.error }),
  }
}

/** What was left under way may still be charged, once: the next run finds out. */
function openPayments(farebox: Farebox, plan: BatchPlan): Pick<BatchOutcome, 'openPayments' | 'openMaximum'> {
  const works = workOf(plan).jobs.flatMap((job) => (job.kind === 'pack' ? [job.upload] : job.uploads))
  const open = new Map<string, bigint>()
  for (const { key } of works) {
    const known = farebox.knownCall(key)
    if (known?.state === 'signed') open.set(key, parseUsdc(known.maximum ?? '0'))
  }
  const openMaximum = [...open.values()].reduce((sum, maximum) => sum + maximum, 0n)
  return { openPayments: open.size, openMaximum }
}

interface Stopped {
  by?: StoppedBy
  error?: FareboxError
}

interface Run extends Pick<RunContext, 'farebox' | 'options' | 'tally' | 'onEvent'> {
  readonly plan: BatchPlan
}

async function runJobs({ farebox, plan, options, tally, onEvent }: Run, stopped: Stopped): Promise<void> {
  const work = workOf(plan)
  if (work.preparer === undefined || work.jobs.length === 0) return
  const gate = new Gate({
    limit: options.concurrency,
    onChange: (concurrency, reason) => onEvent({ event: 'concurrency', concurrency, reason }),
  })
  const stop = (stoppedBy: StoppedBy, error?: FareboxError) => {
    gate.close()
    if (stopped.by !== undefined) return
    stopped.by = stoppedBy
    if (error !== undefined && stoppedBy !== 'interrupt') stopped.error = error
    const { underWay } = tally.progress()
    onEvent({ event: 'stopping', stoppedBy, underWay, ...(error !== undefined && { error }) })
  }
  const context = createContext({ farebox, options, work, tally, gate, stop, onEvent }, work.preparer)
  const forget = listen(options, stop, gate)
  try {
    work.finished.beginAgain(
      work.again.map(({ sha256, occurrence }) => ({ sha256, request: work.request.callDigest, again: occurrence })),
    )
    await approveOnce(context, plan)
    await runAll(context, work.jobs, stopped)
  } finally {
    forget()
    gate.dispose()
  }
}

type Shared = Pick<RunContext, 'farebox' | 'options' | 'work' | 'tally' | 'gate' | 'stop' | 'onEvent'>

function createContext(shared: Shared, preparer: Preparer): RunContext {
  return {
    ...shared,
    preparer,
    folders: shared.options.output.files ?? new OutputFolders(),
    begunPacks: new BegunPacks(shared.farebox.home),
    charges: new Map(),
  }
}

/** Reacts to interruptions; returns what ends that. */
function listen({ drain, signal }: BatchOptions, stop: RunContext['stop'], gate: Gate): () => void {
  const onDrain = () => stop('interrupt')
  const onAbort = () => {
    stop('interrupt')
    gate.abort()
  }
  drain?.addEventListener('abort', onDrain)
  signal?.addEventListener('abort', onAbort)
  if (drain?.aborted === true) onDrain()
  if (signal?.aborted === true) onAbort()
  return () => {
    drain?.removeEventListener('abort', onDrain)
    signal?.removeEventListener('abort', onAbort)
  }
}

/** Without an approval each payment needs a permit, of which the service takes one at a time. */
async function approveOnce({ farebox, options, gate, onEvent }: RunContext, { totals }: BatchPlan): Promise<void> {
  if (totals.uploads < 2 || options.signal?.aborted === true || options.drain?.aborted === true) return
  try {
    if (options.approves === false) {
      if (!(await farebox.allowance()).isApproved) gate.oneAtATime('not_approved')
      return
    }
    const { outcome, transaction, allowance } = await farebox.approve({ signal: options.signal })
    if (outcome === 'approved') onEvent({ event: 'approved', transaction, allowance })
  } catch (error) {
    const { code, message } = asFareboxError(error, 'approval')
    // It is one for all payments that bring it.
    if (code === 'permit_travels_with_payment') return
    onEvent({
      event: 'warning',
      code: 'not_approved',
      text: `Permit2 could not be approved, so files are sent one after the other. ${message}`,
    })
    gate.oneAtATime('not_approved')
  }
}

/** Begins one job after the other, as many at the same time as the gate admits. */
async function runAll(context: RunContext, jobs: readonly Job[], stopped: Stopped): Promise<void> {
  const { gate, stop, charges } = context
  const affordable = new Affordable(context.farebox, context.options.group)
  const underWay = new Set<Promise<void>>()
  for (const job of jobs) {
    if (!(await gate.enter('file'))) break
    const targets = targetsOf(job)
    const unaffordable = stopped.by === undefined ? affordable.begin(targets) : undefined
    if (stopped.by !== undefined || unaffordable !== undefined) {
      gate.leave()
      if (unaffordable !== undefined) stop('budget', unaffordable)
      break
    }
    const running = runJob(context, job).finally(() => {
      const charged = targets.reduce((sum, { index }) => sum + (charges.get(index) ?? 0n), 0n)
      affordable.end(targets, charged)
      underWay.delete(running)
    })
    underWay.add(running)
  }
  await Promise.all(underWay)
}
