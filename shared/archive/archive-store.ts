import type { CallDocuments, TransactionDocument } from './archived-line.ts'
import type { PackedObject, RecordedObject } from './archived-object.ts'

/** The documents of some calls that are over, and of the transactions that no other call needs. */
export interface Documents {
  readonly calls: readonly CallDocuments[]
  readonly transactions: readonly TransactionDocument[]
}

/** What a run would archive of a month. */
export interface MonthTotals {
  readonly month: string
  readonly calls: number
  /** What erasing their documents would free in their rows. */
  readonly bytes: number
  /** Completed calls that are not archived and not over. */
  readonly remaining: number
}

/** A call whose documents are archived. */
export interface ArchivedCall {
  readonly receiptId: string
  readonly object: RecordedObject
  /** Where its transactions are; those of a batch whose other calls are not all archived are in the ledger. */
  readonly transactions: readonly { readonly hash: string; readonly object: RecordedObject }[]
}

/** A process of another version, which does not know the archive. */
export interface OtherProcess {
  readonly instance: string
  readonly kind: string
  readonly version: string
}

/** The ledger as a run of the archive sees it. Months are written `2026-08`. */
export interface ArchiveStore {
  /** Returns the processes that run now and are not of this version. */
  findOtherProcesses(version: string): Promise<readonly OtherProcess[]>
  /** Returns the months before `before` with completed calls that are not archived, oldest first. */
  findMonths(before: string): Promise<readonly string[]>
  readTotals(month: string): Promise<MonthTotals>
  /** Returns where the documents of a receipt or a job are; `null` when they are not archived. */
  findCall(id: string): Promise<ArchivedCall | null>
  /** Returns what was archived, newest first. */
  listObjects(): AsyncIterable<RecordedObject>
  /** Begins a run. Returns `null` while another one is under way. */
  begin(): Promise<ArchiveRun | null>
}

/** One run, which no other is beside. */
export interface ArchiveRun extends AsyncDisposable {
  /**
   * Returns the ids of a month's completed calls that are not archived, some hundred at a time: by payer, then by time, so that
   * a payer's receipts are in few objects.
   */
  findCalls(month: string): AsyncIterable<readonly string[]>
  /** Reads the documents of those calls that are over. */
  readDocuments(jobIds: readonly string[]): Promise<Documents>
  /**
   * Records the object, which is stored and was read back, and erases its documents, in one transaction. Returns `false` and
   * changes nothing when one of the calls is not over any more, or was archived meanwhile.
   */
  erase(
    month: string,
    object: Omit<PackedObject, 'bytes'> & { readonly bytes: number },
    of: Documents,
  ): Promise<boolean>
  /** Records that the whole month was looked at. */
  finishMonth(month: string, remaining: number): Promise<void>
}
