import { createHash } from 'node:crypto'
import { constants, createReadStream, createWriteStream, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AudioError, fileError, writeError } from './audio-error.ts'

/** What identifies the content of a file, measured in one reading of it. */
export interface FileFacts {
  readonly path: string
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
  readonly modifiedMs: number
}

export interface ReadRecording extends FileFacts {
  /** The whole content, or its beginning if the file is larger than the caller wants to hold in memory. */
  readonly content: Uint8Array
}

interface ReadOptions {
  /** A larger file is hashed, and only its beginning is returned. */
  readonly maximumContentBytes: number
  readonly signal?: AbortSignal
}

/** How much of a file is returned that is too large to be held: more than any signature of a format needs. */
const BEGINNING_BYTES = 65_536
const PIECE_BYTES = 256 * 1024

/** Reads and hashes a recording. Throws an `AudioError` if it is not a readable, nonempty file, or changes meanwhile. */
export async function readRecording(path: string, options: ReadOptions): Promise<ReadRecording> {
  try {
    // Checked before it is opened: opening a pipe would wait for its writer.
    requireRegularFile(path, await stat(path))
    const file = await open(path, 'r')
    try {
      return await readOpened(path, file, options)
    } finally {
      await file.close()
    }
  } catch (error) {
    options.signal?.throwIfAborted()
    throw fileError(path, error)
  }
}

/** Reads a file again that was read before. Throws `file_changed` unless it still has the same content. */
export async function readAgain(facts: FileFacts, signal?: AbortSignal): Promise<Uint8Array> {
  const read = await readRecording(facts.path, {
    maximumContentBytes: facts.bytes,
    ...(signal === undefined ? {} : { signal }),
  })
  if (read.bytes !== facts.bytes || read.sha256 !== facts.sha256) throw changed(facts.path, 'since it was measured')
  return read.content
}

function requireRegularFile(path: string, found: Stats): void {
  if (found.isDirectory()) throw new AudioError('not_a_file', 'it is a folder.', { path })
  if (!found.isFile()) throw new AudioError('not_a_file', 'it is not a regular file.', { path })
}

async function readOpened(path: string, file: FileHandle, options: ReadOptions): Promise<ReadRecording> {
  const before = await file.stat()
  requireRegularFile(path, before)
  if (before.size === 0) throw new AudioError('empty_file', 'the file is empty.', { path })
  const isHeld = before.size <= options.maximumContentBytes
  const content = new Uint8Array(isHeld ? before.size : Math.min(before.size, BEGINNING_BYTES))
  const hash = createHash('sha256')
  const buffer = new Uint8Array(PIECE_BYTES)
  let bytes = 0
  // No stream: one that a signal aborts after its end has an error that nobody can catch.
  for (;;) {
    options.signal?.throwIfAborted()
    const { bytesRead } = await file.read(buffer, 0, PIECE_BYTES)
    if (bytesRead === 0) break
    const read = buffer.subarray(0, bytesRead)
    hash.update(read)
    if (bytes < content.length) content.set(read.subarray(0, content.length - bytes), bytes)
    bytes += bytesRead
  }
  requireUnchanged(path, before, await file.stat(), bytes)
  // A file that was replaced has another inode; the one that is still open would look unchanged.
  requireUnchanged(path, before, await stat(path), bytes)
  return { path, bytes, sha256: hash.digest('hex'), modifiedMs: before.mtimeMs, content }
}

function requireUnchanged(path: string, before: Stats, after: Stats, bytesRead: number): void {
  const isSame = before.size === bytesRead && after.size === bytesRead && after.mtimeMs === before.mtimeMs
  if (!isSame || after.ino !== before.ino) throw changed(path, 'while it was read')
}

function changed(path: string, when: string): AudioError {
  return new AudioError('file_changed', `the file changed ${when}.`, { path })
}

/** Without waiting for the writer of a pipe that took the file's place. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** Copies a recording that was measured. Throws `file_changed` unless the copy is what was measured. */
export async function copyRecording(source: FileFacts, copy: string, signal?: AbortSignal): Promise<void> {
  const { path } = source
  await mkdir(dirname(copy), { recursive: true }).catch((error: unknown) => {
    throw writeError(copy, error)
  })
  const hash = createHash('sha256')
  const hashing = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  const output = createWriteStream(copy, { flags: 'wx', mode: 0o600 })
  let isWriting = false
  output.once('error', () => {
    isWriting = true
  })
  try {
    await pipeline(
      createReadStream(path, { flags: READ as never }),
      hashing,
      output,
      ...(signal === undefined ? [] : [{ signal }]),
    )
  } catch (error) {
    signal?.throwIfAborted()
    throw isWriting ? writeError(copy, error) : fileError(path, error)
  }
  if (hash.digest('hex') !== source.sha256)
    throw new AudioError('file_changed', 'the file changed since it was measured.', { path })
}
