import { createHash, hash } from 'node:crypto'
import { createReadStream, openAsBlob } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
import type { AudioClaim } from './operations.ts'

/** The content of a recording, as it can be sent any number of times. */
export interface RecordingContent {
  readonly sha256: string
  /** Returns what is sent; throws unless it has the hash. */
  readonly open: () => Blob | Promise<Blob>
}

/** Larger files are not held in memory: dozens may be under way, each for as long as its transcription takes. */
const MAXIMUM_HELD_BYTES = 1024 * 1024

/**
 * Returns the content of a recording. A file with a claim is read only when it is sent; otherwise it is read once, so
 * that what is priced, signed and sent is the same.
 */
export async function contentOf(
  file: string | Uint8Array | Blob,
  claim: AudioClaim | undefined,
): Promise<RecordingContent> {
  if (typeof file === 'string' && claim !== undefined)
    return { sha256: claim.sha256, open: () => openClaimed(file, claim) }
  const held =
    typeof file === 'string'
      ? new Blob([await readWhole(file)])
      : file instanceof Blob
        ? file
        : new Blob([new Uint8Array(file)])
  const sha256 = hash('sha256', new Uint8Array(await held.arrayBuffer()))
  if (claim !== undefined && claim.sha256 !== sha256) throw changed(claim.sha256, sha256)
  return { sha256, open: () => held }
}

async function openClaimed(path: string, { bytes, sha256 }: AudioClaim): Promise<Blob> {
  if (bytes <= MAXIMUM_HELD_BYTES) {
    const content = await readWhole(path)
    const actual = hash('sha256', content)
    if (actual !== sha256) throw changed(sha256, actual)
    return new Blob([content])
  }
  try {
    // A blob of a file cannot be read any more after the file changed, so it is opened before the hash is taken.
    const blob = await openAsBlob(path)
    const actual = await digestOfFile(path)
    if (actual !== sha256) throw changed(sha256, actual)
    return blob
  } catch (error) {
    throw error instanceof FareboxError ? error : unreadable(path, error)
  }
}

async function readWhole(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await readFile(path))
  } catch (cause) {
    throw unreadable(path, cause)
  }
}

async function digestOfFile(path: string): Promise<string> {
  const digest = createHash('sha256')
  for await (const chunk of createReadStream(path)) digest.update(chunk as Buffer)
  return digest.digest('hex')
}

function unreadable(path: string, cause: unknown): FareboxError {
  return uncharged('file_unreadable', `The recording ${path} cannot be read.`, 'Check its path and permissions.', cause)
}

function changed(expected: string, actual: string): FareboxError {
  return uncharged(
    'file_changed',
    `The recording is not the one that was measured: its SHA-256 is ${actual} instead of ${expected}.`,
    'Measure the file again when nothing writes to it.',
  )
}
