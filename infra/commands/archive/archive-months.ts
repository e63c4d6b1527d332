import { callLine, transactionLine } from '#shared/archive/archived-line.ts'
import { DamagedObject, type PackedObject, packObject } from '#shared/archive/archived-object.ts'
import type { ArchiveRun, ArchiveStore, MonthTotals } from '#shared/ledger/archive/archive-store.ts'
import type { Documents } from '#shared/ledger/archive/read-documents.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'

/** What a run did in a month. */
export interface ArchivedMonth {
  readonly month: string
  readonly calls: number
  readonly objects: number
  readonly bytes: number
  /** Completed calls that are not over. */
  readonly remaining: number
  /** Whether the month is complete now. */
  readonly isDone: boolean
}

interface Dependencies {
  readonly run: ArchiveRun
  readonly objects: Pick<ObjectStore, 'get' | 'put'>
  /** Called after each object and once at the end of each month. */
  readonly onProgress: (month: ArchivedMonth) => void
}

/** A call that is over hardly ever changes between the reading and the erasure. */
const ATTEMPTS = 3
const REPORT_EVERY_MS = 5000
const MEGABYTE = 1_000_000

/** Archives what finished before a month, oldest month first. */
export async function archiveMonths(
  store: Pick<ArchiveStore, 'findMonths'>,
  dependencies: Dependencies,
  before: string,
): Promise<void> {
  for (const month of await store.findMonths(before)) await archiveMonth(dependencies, month)
}

async function archiveMonth({ run, objects, onProgress }: Dependencies, month: string): Promise<void> {
  let done: ArchivedMonth = { month, calls: 0, objects: 0, bytes: 0, remaining: 0, isDone: false }
  for await (const jobIds of run.findCalls(month)) {
    const { calls, bytes } = await archiveCalls({ run, objects }, month, jobIds)
    done = {
      ...done,
      calls: done.calls + calls,
      objects: done.objects + (calls > 0 ? 1 : 0),
      bytes: done.bytes + bytes,
      remaining: done.remaining + jobIds.length - calls,
    }
    onProgress(done)
  }
  await run.finishMonth(month, done.remaining)
  onProgress({ ...done, isDone: true })
}

/** Stores the documents of those calls that are over, reads them back, and only then has them erased in the ledger. */
async function archiveCalls(
  { run, objects }: Pick<Dependencies, 'run' | 'objects'>,
  month: string,
  jobIds: readonly string[],
): Promise<{ calls: number; bytes: number }> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const documents = await run.readDocuments(jobIds)
    if (documents.calls.length === 0) return { calls: 0, bytes: 0 }
    const object = await packObject(month, linesOf(documents))
    await store(objects, object)
    const bytes = object.bytes.length
    if (await run.erase(month, { ...object, bytes }, documents)) return { calls: documents.calls.length, bytes }
  }
  throw new Error(`calls of ${month} changed while they were archived; run the command again`)
}

function linesOf({ calls, transactions }: Documents): readonly string[] {
  return [...calls.map(callLine), ...transactions.map(transactionLine)]
}

/** Stores an object and compares what the store returns. Throws `DamagedObject` when it returns anything else. */
async function store(objects: Dependencies['objects'], { key, bytes }: PackedObject): Promise<void> {
  await objects.put(key, bytes)
  const stored = await objects.get(key)
  if (stored === null || !Buffer.from(stored).equals(bytes))
    throw new DamagedObject(`the object store returned other bytes than were stored as ${key}`)
}

/** Returns a function that prints each finished month that had calls, and how far a long one is. */
export function createProgress(): (month: ArchivedMonth) => void {
  const startedAt = performance.now()
  let [reportedAt, calls] = [startedAt, 0]
  return (done) => {
    if (done.isDone) {
      calls += done.calls
      if (done.calls + done.remaining > 0) console.log(renderMonth(done))
      return
    }
    if (performance.now() - reportedAt < REPORT_EVERY_MS) return
    reportedAt = performance.now()
    const perSecond = (calls + done.calls) / ((reportedAt - startedAt) / 1000)
    console.log(`${done.month}: ${done.calls} calls so far, ${Math.round(perSecond)} a second`)
  }
}

function renderMonth({ month, calls, objects, bytes, remaining }: ArchivedMonth): string {
  return `${month}: ${calls} calls in ${objects} objects of ${megabytes(bytes)} together; ${renderRemaining(remaining)}`
}

export function renderTotals({ month, calls, bytes, remaining }: MonthTotals): string {
  return `${month}: ${calls} calls with documents of ${megabytes(bytes)}, and their transactions; ${renderRemaining(remaining)}`
}

function renderRemaining(remaining: number): string {
  return remaining === 0 ? 'all are over' : `${remaining} are not over and stay as they are`
}

function megabytes(bytes: number): string {
  return `${(bytes / MEGABYTE).toFixed(1)} MB`
}
