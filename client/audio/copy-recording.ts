import { createHash } from 'node:crypto'
import { constants, createReadStream, createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AudioError, fileError, writeError } from './audio-error.ts'
import type { FileFacts } from './read-recording.ts'

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
