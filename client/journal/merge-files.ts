import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { LONGEST_TIMEOUT_SECONDS } from '../payment/check-challenge.ts'
import { syncDirectory } from './appended-file.ts'
import type { JournalEntry } from './entries.ts'
import { FROM_START, readMergedFile, readOwnFile, renderPart, type WrittenEntry } from './file-entries.ts'
import { type FileKind, isOfThisHost, isRunning, MERGED_SUFFIX, newWriterName, readFileName } from './file-names.ts'
import { withLock } from './lock.ts'

/** What makes merging worthwhile. */
export interface MergeThreshold {
  readonly files: number
  readonly bytes: number
}

const MOST_MERGED_FILES = 8
/** One merge holds the lock for about a second at most; the next one takes the rest. */
const MOST_BYTES = 64 << 20
/** A process that was killed is not mistaken for one that is about to write. */
const DEAD_FOR_MS = 3_600_000

/** The names under which this process writes: its number may also be that of an earlier one. */
export const openWriters = new Set<string>()

interface MergedFile {
  readonly file: string
  readonly kind: FileKind
  readonly writer: string
  readonly bytes: number
}

/**
 * Merges the files of processes that have ended, so that a journal of any age is opened quickly. The merged file is
 * complete and durable before the others are removed, and every line keeps its number: a process that has read a part of
 * a file finds the rest. A failure leaves the files as they are.
 */
export async function mergeFiles(
  directory: string,
  threshold: MergeThreshold,
  now: () => number = Date.now,
): Promise<void> {
  if (!isWorthwhile(endedFiles(directory, now()), threshold)) return
  await withLock(directory, () => {
    // Another process may have merged them meanwhile.
    const files = endedFiles(directory, now())
    if (isWorthwhile(files, threshold)) merge(directory, files, now())
  })
}

function isWorthwhile(files: readonly MergedFile[], threshold: MergeThreshold): boolean {
  const unmerged = files.filter(({ kind }) => kind !== 'merged')
  const bytes = unmerged.reduce((sum, file) => sum + file.bytes, 0)
  return unmerged.length > 0 && (unmerged.length >= threshold.files || bytes >= threshold.bytes)
}

/** Returns the files that nobody appends to, oldest first. */
function endedFiles(directory: string, now: number): readonly MergedFile[] {
  return readdirSync(directory)
    .sort()
    .flatMap((file) => {
      const name = readFileName(file)
      if (name === null) return []
      const stat = statSync(join(directory, file), { throwIfNoEntry: false })
      if (stat === undefined) return []
      const isEnded = name.kind !== 'live' || isDead(name.writer, stat.mtimeMs, now)
      return isEnded ? [{ file, ...name, bytes: stat.size }] : []
    })
}

function isDead(writer: string, changedAt: number, now: number): boolean {
  if (openWriters.has(writer) || isRunning(writer)) return false
  return isOfThisHost(writer) && now - changedAt > DEAD_FOR_MS
}

function merge(directory: string, files: readonly MergedFile[], now: number): void {
  const merged = files.filter(({ kind }) => kind === 'merged')
  const isFull = merged.length >= MOST_MERGED_FILES
  const chosen: MergedFile[] = []
  let bytes = 0
  for (const file of files) {
    if (file.kind === 'merged' && !isFull) continue
    if (bytes + file.bytes > MOST_BYTES && chosen.length > 0) continue
    chosen.push(file)
    bytes += file.bytes
  }
  const path = join(directory, `${newWriterName(now)}${MERGED_SUFFIX}`)
  writeDurably(
    path,
    chosen.flatMap((file) => partsOf(directory, file, now)),
  )
  syncDirectory(directory)
  for (const { file } of chosen) rmSync(join(directory, file))
}

function partsOf(directory: string, { file, kind, writer }: MergedFile, now: number): readonly string[] {
  const byWriter = new Map<string, WrittenEntry[]>()
  const add = (written: WrittenEntry) => {
    const of = byWriter.get(written.writer)
    if (of === undefined) byWriter.set(written.writer, [written])
    else of.push(written)
  }
  const path = join(directory, file)
  if (kind === 'merged') for (const each of readMergedFile(path, add)) byWriter.set(each, byWriter.get(each) ?? [])
  else {
    // Also a writer without entries is listed: a process that reads its file knows that it has ended.
    byWriter.set(writer, [])
    readOwnFile(path, writer, FROM_START, add)
  }
  return [...byWriter].map(([each, entries]) => renderPart(each, compactEntries(entries, now)))
}

function writeDurably(path: string, parts: readonly string[]): void {
  const temporary = `${path}.tmp`
  try {
    const descriptor = openSync(temporary, 'wx', 0o600)
    try {
      for (const part of parts) writeWhole(descriptor, Buffer.from(part))
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

function writeWhole(descriptor: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length;) written += writeSync(descriptor, bytes, written)
}

/**
 * Leaves out what later entries of the same writer supersede: payments and reservations of calls whose outcome is known,
 * and repeated intents. Receipts, open payments and the last outcome of each call stay, so that the remaining entries have
 * the same effect, also between those of other writers. Refused payments stay as long as they could be settled.
 */
export function compactEntries(entries: readonly WrittenEntry[], now: number): readonly WrittenEntry[] {
  const byKey = new Map<string, WrittenEntry[]>()
  for (const written of entries) {
    const of = byKey.get(written.entry.key)
    if (of === undefined) byKey.set(written.entry.key, [written])
    else of.push(written)
  }
  const kept = [...byKey.values()].flatMap((call) => (hasRefusedLately(call, now) ? call : compactCall(call)))
  return kept.sort((a, b) => a.line - b.line)
}

/** They count against what may be signed until their deadlines. */
function hasRefusedLately(call: readonly WrittenEntry[], now: number): boolean {
  const since = now - LONGEST_TIMEOUT_SECONDS * 1000
  return call.some(({ entry }) => entry.phase === 'refused' && Date.parse(entry.at) > since)
}

function compactCall(call: readonly WrittenEntry[]): readonly WrittenEntry[] {
  const lastOutcome = call.findLastIndex(({ entry: { phase } }) => phase === 'answered' || phase === 'refused')
  const described = new Set([...lastOf(call, 'intended'), ...lastOf(call, 'verified')])
  const receipts = new Set<string>()
  return call.filter((written, index) => {
    const { entry } = written
    switch (entry.phase) {
      case 'intended':
      case 'verified':
        return described.has(written)
      case 'quoted':
      case 'signed':
        return index > lastOutcome
      case 'refused':
        return index === lastOutcome
      case 'answered':
        // The last one ends what other writers have opened, even if it repeats an answer.
        return isNewReceipt(entry.receiptId, receipts) || index === lastOutcome
    }
  })
}

/** Without an id, every answer counts as a charge of its own. */
function isNewReceipt(receiptId: string | null, receipts: Set<string>): boolean {
  if (receiptId === null) return true
  const isNew = !receipts.has(receiptId)
  receipts.add(receiptId)
  return isNew
}

/** Returns the last entry of a phase, and the last one that names the model. */
function lastOf(call: readonly WrittenEntry[], phase: JournalEntry['phase']): readonly WrittenEntry[] {
  const all = call.filter(({ entry }) => entry.phase === phase)
  const named = all.filter(({ entry }) => 'model' in entry && entry.model !== undefined)
  return [all.at(-1), named.at(-1)].filter((written) => written !== undefined)
}
