import { addAbortSignal, type Readable } from 'node:stream'
import { findRecordings } from '../../batch/find/find-recordings.ts'
import { planBatch } from '../../batch/plan/plan-batch.ts'
import { runBatch } from '../../batch/run/run-batch.ts'
import type { BatchOptions, BatchPlan, OnBatchEvent, Source } from '../../batch/types.ts'
import { leastLeft } from '../../budget/budget.ts'
import type { Farebox } from '../../farebox.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Output } from '../output/output.ts'
import type { CommandContext } from '../run.ts'
import { usdc } from './amounts.ts'
import { ask, requireTerminal } from './ask.ts'
import { describeFailures, describeOutcome, eventLine, exitCodeOfOutcome, summaryLine } from './describe-outcome.ts'
import { describeFiles, describeTotals, describeWarnings, packHint } from './describe-plan.ts'
import { type BatchReporter, createLineReporter, createPlanReporter } from './line-reporter.ts'
import { readTask, type TranscribeOptions, type TranscribeTask } from './read-task.ts'

/** Transcribes what the arguments name. */
export async function transcribe(
  context: CommandContext,
  paths: readonly string[],
  options: TranscribeOptions,
): Promise<ExitCode> {
  const task = readTask(paths, options, context.settings.json)
  const farebox = await context.farebox({ needsWallet: !task.isDryRun })
  const stdin = context.io.stdin as Readable
  // Nothing is read to the end after an interrupt.
  if (task.isInputTaken) addAbortSignal(context.interrupts.finish, stdin)
  const sources = await findRecordings(task.paths, {
    filesFrom: task.filesFrom === '-' ? stdin : task.filesFrom,
    ...(task.paths.includes('-') && { stdin }),
  })
  return await transcribeSources(context, farebox, task, sources)
}

/** Plans, asks, pays and reports one batch. */
async function transcribeSources(
  context: CommandContext,
  farebox: Farebox,
  task: TranscribeTask,
  sources: readonly Source[],
): Promise<ExitCode> {
  const { output, interrupts } = context
  const options = batchOptions(context, task)
  const plan = await makePlan(context, farebox, sources, options)
  try {
    reportPlan(context, farebox, task, plan)
    if (task.isDryRun) return plan.totals.failed > 0 ? EXIT.failed : EXIT.done
    if (!(await isAgreed(context, farebox, task, plan))) return EXIT.interrupted
    const reporter = await startReporter(context, farebox, task, plan)
    const report = reportTo(output, reporter)
    const outcome = await runBatch(farebox, plan, options, report).finally(() => reporter.close())
    const exitCode = interrupts.finish.aborted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
    const failures = describeFailures(outcome.failures)
    if (failures !== undefined) output.note(failures)
    if (plan.totals.toDo > 0) output.note(describeOutcome(outcome, leastLeft(farebox.budgetLeft())))
    output.event(summaryLine(outcome, exitCode))
    return exitCode
  } finally {
    await plan.discard()
  }
}

function batchOptions(
  { interrupts, output }: CommandContext,
  { batch, isPrinted, isDryRun }: TranscribeTask,
): BatchOptions {
  const left = new AbortController()
  const print = async (text: string) => {
    if ((await output.content(text)) || left.signal.aborted) return
    output.warn('The reader of standard output has left: nothing more is paid for.')
    left.abort()
  }
  return {
    ...batch,
    // The list of a dry run is worth the wait for exact prices; the question is not.
    estimates: !isDryRun,
    output: { ...batch.output, ...(isPrinted && { print }) },
    signal: interrupts.abort,
    drain: AbortSignal.any([interrupts.finish, left.signal]),
  }
}

/** Planning pays nothing, so the first Ctrl-C ends it. */
async function makePlan(
  { output, interrupts }: CommandContext,
  farebox: Farebox,
  sources: readonly Source[],
  options: BatchOptions,
): Promise<BatchPlan> {
  const reporter = createPlanReporter(output)
  const planOptions = { ...options, signal: interrupts.finish }
  return await planBatch(farebox, sources, planOptions, reportTo(output, reporter)).finally(() => reporter.close())
}

function reportTo(output: Output, reporter: BatchReporter): OnBatchEvent {
  return (event) => {
    reporter.onEvent(event)
    const line = eventLine(event)
    if (line !== undefined) output.event(line)
  }
}

function reportPlan({ output }: CommandContext, farebox: Farebox, task: TranscribeTask, plan: BatchPlan): void {
  if (task.isDryRun && !output.json && plan.files.length > 0) output.result(plan.totals, describeFiles(plan))
  if (!task.isDryRun) for (const warning of describeWarnings(plan)) output.warn(warning)
  output.note(describeTotals(plan.totals))
  const hint = packHint(plan)
  if (hint !== undefined) output.note(hint)
  const left = leastLeft(farebox.budgetLeft())
  if (left !== null && left < plan.totals.toCharge)
    output.warn(`The budget has ${usdc(left)} left: what does not fit is left for another run.`)
}

async function isAgreed(
  { io, interrupts }: CommandContext,
  { address }: Farebox,
  task: TranscribeTask,
  { totals }: BatchPlan,
): Promise<boolean> {
  if (interrupts.finish.aborted) return false
  if (task.isConfirmed || totals.toCharge === 0n) return true
  requireTerminal(io, task.isInputTaken)
  return await ask(io, `Pay up to ${usdc(totals.toCharge)} from ${address}? [y/N] `, interrupts.finish)
}

async function startReporter(
  { io, output }: CommandContext,
  farebox: Farebox,
  { batch, isPrinted }: TranscribeTask,
  { totals }: BatchPlan,
): Promise<BatchReporter> {
  const isStdoutShown = (output.json || isPrinted) && io.stdout.isTTY === true
  if (output.terminal.isTerminal && !isStdoutShown && totals.toDo > 0) {
    const { createLiveReporter } = await import('./live-reporter.ts')
    const left = () => leastLeft(farebox.budgetLeft())
    return createLiveReporter(io, output, { totals, concurrency: batch.concurrency, budgetLeft: left })
  }
  return createLineReporter(output, totals, batch.concurrency)
}
