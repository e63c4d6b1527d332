import { createHash } from 'node:crypto'
import pLimit from 'p-limit'
import type { FareboxError } from '../../wire/farebox-error.ts'
import type { MeasuredFile, OpenedFile } from './folders.ts'
import { type AllowedFolder, locate, pathError } from './locate.ts'
import { OpenFolder } from './open-folder.ts'

const READ_AT_ONCE = 4

/** Opens a regular file of an allowed folder. */
export async function openAllowed(allowed: readonly AllowedFolder[], named: string): Promise<OpenedFile> {
  const { root, names, path } = await locate(allowed, named)
  const name = names.at(-1)
  if (name === undefined) throw notAFile(named)
  const folder = await OpenFolder.open(root, names.slice(0, -1)).catch((cause) => throwChanged(named, cause))
  try {
    const handle = await folder.file(name).catch((cause) => throwChanged(named, cause))
    const found = await handle.stat()
    if (found.isFile()) return { path, handle, bytes: found.size }
    await handle.close()
    throw notAFile(named)
  } finally {
    await folder.close()
  }
}

/**
 * Throws unless the files have the content that was measured by their paths. What is sent is compared with the measured
 * content, too, so it is certainly the content of a file of an allowed folder.
 */
export async function requireMeasured(
  allowed: readonly AllowedFolder[],
  files: readonly MeasuredFile[],
  signal?: AbortSignal,
): Promise<void> {
  const limit = pLimit(READ_AT_ONCE)
  await Promise.all(
    files.map(({ path, sha256 }) =>
      limit(async () => {
        signal?.throwIfAborted()
        if ((await digestOf(allowed, path, signal)) !== sha256) throw changed(path)
      }),
    ),
  )
}

async function digestOf(allowed: readonly AllowedFolder[], path: string, signal?: AbortSignal): Promise<string> {
  const { handle } = await openAllowed(allowed, path)
  const hash = createHash('sha256')
  try {
    for await (const chunk of handle.createReadStream({ autoClose: false, ...(signal && { signal }) }))
      hash.update(chunk as Buffer)
  } finally {
    await handle.close()
  }
  return hash.digest('hex')
}

function notAFile(named: string): FareboxError {
  return pathError('not_a_file', `${named} is not a regular file.`, 'Name a regular file.')
}

/** A link was put on the path since it was resolved, or the file was removed. */
function throwChanged(named: string, cause: unknown): never {
  throw changed(named, cause)
}

function changed(named: string, cause?: unknown): FareboxError {
  const problem = `${named} cannot be read or was changed while it was looked at.`
  return pathError(
    'file_changed',
    problem,
    'Check its permissions, and repeat the call when nothing changes it.',
    cause,
  )
}
