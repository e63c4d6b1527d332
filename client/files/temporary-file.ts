import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostTag, isOfThisHost, isRunning } from '../journal/file-names.ts'

const NAME = /^\.farebox(-.+)\.tmp$/
const FOLDER_NAME = /^farebox-[a-z]+(-.+)$/

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
