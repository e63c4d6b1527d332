import { hash, randomBytes } from 'node:crypto'
import { hostname } from 'node:os'

/** A process appends to its own live file and renames it at its end, so that finished files are read only once. */
export const LIVE_SUFFIX = '.live.ndjson'
/** Finished files in one, without what later entries supersede. */
export const MERGED_SUFFIX = '.merged.ndjson'
export const FINISHED_SUFFIX = '.ndjson'

export type FileKind = 'live' | 'finished' | 'merged'

/** Tells what a file of the journal is; `null` for any other file. */
export function readFileName(file: string): { readonly kind: FileKind; readonly writer: string } | null {
  const suffixes = { live: LIVE_SUFFIX, merged: MERGED_SUFFIX, finished: FINISHED_SUFFIX } as const
  for (const [kind, suffix] of Object.entries(suffixes))
    if (file.endsWith(suffix)) return { kind: kind as FileKind, writer: file.slice(0, -suffix.length) }
  return null
}

/** Returns a name that no other process uses: time, host, process and a random part. */
export function newWriterName(now: number): string {
  const started = new Date(now).toISOString().replace(/[:.]/g, '-')
  return `${started}-${hostTag()}-${process.pid}-${randomBytes(4).toString('hex')}`
}

/** Returns whether the process that writes under this name may still run. */
export function isRunning(writer: string): boolean {
  const pid = Number(/-(\d+)-[0-9a-f]{8}$/.exec(writer)?.[1] ?? 0)
  if (pid === 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // A process of another user exists, too, although it cannot be signaled.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Returns whether this machine can tell if the process runs: elsewhere its number means another one. */
export function isOfThisHost(writer: string): boolean {
  return new RegExp(`-${hostTag()}-\\d+-[0-9a-f]{8}$`).test(writer)
}

/** Returns a short name of this machine. */
export function hostTag(): string {
  return hash('sha256', hostname()).slice(0, 8)
}
