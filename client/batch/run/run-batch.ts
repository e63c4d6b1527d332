import pLimit from 'p-limit'
import { leastLeft } from '../../budget/budget.ts'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { OutputFolders } from '../output/output-folders.ts'
import { asFareboxError } from '../plan/planned-file.ts'
import { keysOf, type PlannedJob, type PlannedWork, workOf } from '../plan/work.ts'
import { BegunPacks } from '../record/begun-packs.ts'
import type { BatchOptions, BatchOutcome, BatchPlan, OnBatchEvent, PlannedFile, StoppedBy } from '../types.ts'
import { Gate } from './gate.ts'
import { type RunContext, warn } from './run-context.ts'
import { makeReady, runJob, targetsOf } from './run-job.ts'
import { Tally } from './tally.ts'

/**
 * Keeps a recording of several parts from being paid for in part: a file is begun only if all of it fits into what the
 * budget had at the start, less all that was begun. The budget itself refuses what exceeds it in any case.
 */
function createAffordable(farebox: Pick<Farebox, 'budgetLeft' | 'knownCall'>, group?: string) {
  const budget = farebox.budgetLeft(group)
  let begun = 0n
  /** What of it the day had counted at the start already. */
  let counted = 0n
  const leftFor = (signed: bigint) => {
    const session = budget.session === null ? null : budget.session - begun
    const day = budget.day === null ? null : budget.day - begun + counted + signed
    const left = leastLeft({ session, day })
    return { left, name: left === session ? 'session' : 'day' }
  }
  return {
    /**
     * Returns what an earlier run signed for a job without an outcome. The day counts it until that is known, so that it is no
     * reason to leave the job that finds it out.
     */
    signedFor: (job: PlannedJob): bigint => {
      if (budget.day === null) return 0n
      const known = keysOf(job).map((key) => farebox.knownCall(key))
      const open = known.reduce((sum, call) => sum + parseUsdc((call?.state === 'signed' && call.maximum) || '0'), 0n)
      const price = toCharge(targetsOf(job))
      return open < price ? open : price
    },
    fits: (price: bigint, signed: bigint) => {
      const { left } = leftFor(signed)
      return left === null || price <= left
    },
    /** Returns the error of files that do not fit. */
    refusal: (files: readonly PlannedFile[], signed: bigint): FareboxError => {
      const { left, name } = leftFor(signed)
      return uncharged(
        'budget_exceeded',
        `${files[0]?.label ?? ''} costs ${formatUsdc(toCharge(files))} USDC, but the ${name} budget has ${formatUsdc(left ?? 0n)} USDC left.`,
        'Raise the budget, then run the command again: it does what is missing.',
      )
    },
    begin: (files: readonly PlannedFile[], signed: bigint) => {
      begun += toCharge(files)
      counted += signed
    },
    /** Corrects the sum by what was really charged. */
    end: (files: readonly PlannedFile[], charged: bigint) => {
      begun += charged - toCharge(files)
    },
  }
}

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
  const called = new Set<string>()
  try {
    await runJobs(plan, { farebox, options, tally, onEvent, called }, stopped)
  } finally {
    await plan.discard()
  }
  const interrupted = options.signal?.aborted === true || options.drain?.aborted === true
  return {
    ...tally.progress(),
    kept: tally.kept,
    ...openPayments(farebox, [...workOf(plan).jobs.flatMap(keysOf), ...called]),
    failures: tally.failures,
    elapsedMs: Math.round(performance.now() - startedAt),
    interrupted,
    ...(stopped.by !== undefined && { stoppedBy: stopped.by }),
    ...(stopped.error !== undefined && { stopError: stopped.error }),
  }
}

/** What was left under way may still be charged, once: the next run finds out. */
function openPayments(farebox: Farebox, keys: readonly string[]): Pick<BatchOutcome, 'openPayments' | 'openMaximum'> {
  const open = new Map<string, bigint>()
  for (const key of keys) {
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

async function runJobs(
  plan: BatchPlan,
  run: Pick<RunContext, 'farebox' | 'options' | 'tally' | 'onEvent' | 'called'>,
  stopped: Stopped,
): Promise<void> {
  const { options, tally, onEvent } = run
  const work = workOf(plan)
  if (work.means === undefined || work.jobs.length === 0) return
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
  const context = createContext({ ...run, work, gate, stop }, work.means)
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

type Shared = Pick<RunContext, Exclude<keyof RunContext, 'preparer' | 'pricer' | 'folders' | 'begunPacks' | 'charges'>>

function createContext(shared: Shared, means: NonNullable<PlannedWork['means']>): RunContext {
  return {
    ...shared,
    ...means,
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
    const { outcome, allowance } = await farebox.approve({ signal: options.signal })
    if (outcome === 'approved') onEvent({ event: 'approved', allowance })
  } catch (error) {
    const { code, message } = asFareboxError(error, 'approval')
    // Its payments bring one permit for all of them.
    if (code === 'owner_balance_too_low') return
    const text = `Permit2 could not be approved, so files are sent one after the other. ${message}`
    warn({ onEvent }, 'not_approved', text)
    gate.oneAtATime('not_approved')
  }
}

/** How many recordings are prepared beyond those under way, so that no upload waits for ffmpeg, and the disk holds few. */
const PREPARED_AHEAD = 2

/**
 * Begins one job after the other, as many at the same time as the gate admits. What does not fit into the budget is left
 * for another run, and what comes after it goes on: one long recording must not keep all others from a nightly run.
 */
async function runAll(context: RunContext, jobs: readonly PlannedJob[], stopped: Stopped): Promise<void> {
  const { farebox, options, gate, stop, charges } = context
  const affordable = createAffordable(farebox, options.group)
  const nearby = pLimit(options.concurrency + PREPARED_AHEAD)
  const prices = jobs.map((job) => toCharge(targetsOf(job)))
  const lowestPrice = prices.reduce((lowest, price) => (price < lowest ? price : lowest))
  let refusal: FareboxError | undefined
  const leave = (files: readonly PlannedFile[], signed: bigint) => {
    refusal ??= affordable.refusal(files, signed)
  }
  const begin = async (planned: PlannedJob) => {
    if (stopped.by !== undefined) return
    const signed = affordable.signedFor(planned)
    // Nothing is converted any more once not even the cheapest would fit.
    if (!affordable.fits(lowestPrice, signed)) return leave(targetsOf(planned), signed)
    const job = await makeReady(context, planned)
    if (job === undefined || !(await gate.enter('file'))) return
    const targets = targetsOf(job)
    const isAffordable = affordable.fits(toCharge(targets), signed)
    if (stopped.by !== undefined || !isAffordable) {
      gate.leave()
      if (!isAffordable) leave(targets, signed)
      return
    }
    affordable.begin(targets, signed)
    await runJob(context, job)
    const charged = targets.reduce((sum, { index }) => sum + (charges.get(index) ?? 0n), 0n)
    affordable.end(targets, charged)
  }
  await Promise.all(jobs.map((job) => nearby(() => begin(job))))
  if (refusal !== undefined) stop('budget', refusal)
}

function toCharge(files: readonly PlannedFile[]): bigint {
  return files.reduce((sum, { price, alreadyPaid }) => sum + price - alreadyPaid, 0n)
}
