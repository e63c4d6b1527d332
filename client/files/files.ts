import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { hostTag, isOfThisHost, isRunning } from '../journal/file-names.ts'

const NAME = /^\.farebox(-.+)\.tmp$/
const FOLDER_NAME = /^farebox-[a-z]+(-.+)$/

interface ReplaceOptions {
  /** That of the present file by default. */
  readonly mode?: number | undefined
  /** Whether the content must survive a loss of power; true by default. */
  readonly isDurable?: boolean | undefined
  /** Whether a symbolic link is followed instead of replaced; true by default. */
  readonly followsLinks?: boolean | undefined
}

/**
 * Replaces a file, or creates it: other processes see the old content or the new one, never a part. When it cannot be
 * written completely, as on a full disk, the old content stays and the error is thrown.
 *
 * `write-file-atomic` (version 7) does not look at how much was written and puts a cut file in place.
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  { mode, isDurable = true, followsLinks = true }: ReplaceOptions = {},
): Promise<void> {
  const target = followsLinks ? await realpath(path).catch(() => path) : path
  const present = await stat(target).catch(() => null)
  const temporary = temporaryIn(dirname(target))
  try {
    const handle = await open(temporary, 'wx', mode ?? 0o666)
    try {
      await handle.writeFile(content)
      // Unlike the mode of a new file, that of a present one is not subject to the umask.
      if (mode === undefined && present !== null) await handle.chmod(present.mode)
      if (isDurable) await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(temporary, target)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  if (isDurable) await syncDirectory(dirname(target))
}

/** Makes a file's name durable, where directories can be synchronized. */
async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Returns the path of a temporary file that names its process, not its target, whose name may be as long as a name can be. */
export function temporaryIn(folder: string): string {
  return join(folder, `.farebox-${hostTag()}-${process.pid}-${randomBytes(4).toString('hex')}.tmp`)
}

/** Makes a folder of this process in that of temporary files, and removes those that killed processes left there. */
export async function openTemporaryFolder(purpose: string): Promise<string> {
  await removeLeft(tmpdir(), FOLDER_NAME).catch(() => undefined)
  const writer = `${hostTag()}-${process.pid}-${randomBytes(4).toString('hex')}`
  const folder = join(tmpdir(), `farebox-${purpose}-${writer}`)
  await mkdir(folder, { mode: 0o700 })
  return folder
}

/** Removes the temporary files that killed processes of this machine left in a folder. */
export async function removeAbandoned(folder: string): Promise<void> {
  await removeLeft(folder, NAME)
}

async function removeLeft(folder: string, pattern: RegExp): Promise<void> {
  for (const file of await readdir(folder)) {
    const writer = pattern.exec(file)?.[1]
    if (writer === undefined || !isOfThisHost(writer) || isRunning(writer)) continue
    if (!writer.includes(`-${process.pid}-`))
      await rm(join(folder, file), { recursive: true, force: true }).catch(() => undefined)
  }
}
