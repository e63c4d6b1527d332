import { EventEmitter, once } from 'node:events'
import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { watch } from 'chokidar'
import { findRecordings } from '../../batch/find/find-recordings.ts'
import type { Source } from '../../batch/types.ts'
import { leastLeft } from '../../budget/budget.ts'
import type { Farebox } from '../../farebox.ts'
import { EXIT, type ExitCode, exitCodeOf, UsageError } from '../exit-codes.ts'
import type { CommandContext } from '../run.ts'
import { usdc } from './amounts.ts'
import { ask, requireTerminal } from './ask.ts'
import type { TranscribeTask } from './read-task.ts'

/** Files that arrive together are one batch. */
const GATHERING_MS = 500

/** Collects the files that arrived since the last batch. */
export class ArrivedFiles {
  #paths = new Set<string>()
  readonly #arrivals = new EventEmitter()

  add(path: string): void {
    this.#paths.add(resolve(path))
    this.#arrivals.emit('file')
  }

  addAll(paths: Iterable<string>): void {
    for (const path of paths) this.add(path)
  }

  /** Waits for files and returns them all; none when the signal is aborted. */
  async next(signal: AbortSignal): Promise<ReadonlySet<string>> {
    if (this.#paths.size === 0) await once(this.#arrivals, 'file', { signal }).catch(() => undefined)
    if (!signal.aborted) await setTimeout(GATHERING_MS)
    const paths = this.#paths
    this.#paths = new Set()
    return paths
  }
}

/** A file is complete when its size has not changed for this long. */
const STABLE_MS = 2000
const POLL_MS = 200
/** What could not be begun is tried again after this time. */
const RETRY_MS = 30_000

export interface BatchEnd {
  readonly exitCode: ExitCode
  /** Some recordings were not begun or failed for a reason that concerns all of them. */
  readonly isUnfinished: boolean
}

/** Plans, pays and reports one batch, without a question. */
type TranscribeSources = (sources: readonly Source[]) => Promise<BatchEnd>

/** Transcribes what is in folders and what arrives in them, until it is interrupted or cannot pay. */
export async function watchFolders(
  context: CommandContext,
  farebox: Farebox,
  task: TranscribeTask,
  transcribe: TranscribeSources,
): Promise<ExitCode> {
  const { io, output, interrupts } = context
  for (const path of task.paths) await requireFolder(path)
  if (!task.isConfirmed) {
    requireTerminal(io, task.isInputTaken)
    if (!(await ask(io, questionOf(farebox), interrupts.finish))) return EXIT.interrupted
  }
  const arrived = new ArrivedFiles()
  const watcher = watch([...task.paths], {
    awaitWriteFinish: { stabilityThreshold: STABLE_MS, pollInterval: POLL_MS },
  })
  watcher.on('add', (path) => arrived.add(path)).on('change', (path) => arrived.add(path))
  watcher.on('error', (error) => output.warn(`watching: ${error instanceof Error ? error.message : String(error)}`))
  try {
    while (!interrupts.finish.aborted) {
      const paths = await arrived.next(interrupts.finish)
      if (interrupts.finish.aborted) break
      const { exitCode, isUnfinished } = await transcribeArrived(context, task, paths, transcribe)
      if (exitCode === EXIT.budget || exitCode === EXIT.funds || exitCode === EXIT.usage) return exitCode
      if (isUnfinished) void pause(RETRY_MS, interrupts.finish).then(() => arrived.addAll(paths))
    }
    return EXIT.interrupted
  } finally {
    await watcher.close()
  }
}

/** Transcribes files that arrived. A service that is away does not end the watch. */
async function transcribeArrived(
  context: CommandContext,
  task: TranscribeTask,
  paths: ReadonlySet<string>,
  transcribe: TranscribeSources,
): Promise<BatchEnd> {
  try {
    const sources = (await findRecordings(task.paths)).filter(({ path }) => paths.has(path))
    if (sources.length === 0) return { exitCode: EXIT.done, isUnfinished: false }
    return await transcribe(sources)
  } catch (error) {
    context.output.error(error)
    return { exitCode: exitCodeOf(error), isUnfinished: true }
  }
}

/** What does not exist would be waited for without a word. */
async function requireFolder(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory() !== true) throw new UsageError(`--watch takes folders only: ${path} is none.`)
}

/** Waits, or until the signal is aborted; does not keep a program that ends. */
async function pause(durationMs: number, signal: AbortSignal): Promise<void> {
  await setTimeout(durationMs, undefined, { signal, ref: false }).catch(() => undefined)
}

function questionOf(farebox: Farebox): string {
  const left = leastLeft(farebox.budgetLeft())
  const limit = left === null ? 'without a budget' : `up to ${usdc(left)}`
  return `Pay for recordings as they arrive from ${farebox.address}, ${limit}? [y/N] `
}
