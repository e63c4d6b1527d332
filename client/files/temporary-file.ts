import { randomBytes } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hostTag, isOfThisHost, isRunning } from '../journal/file-names.ts'

const NAME = /^\.farebox(-.+)\.tmp$/

/** Returns the path of a temporary file that names its process, not its target, whose name may be as long as a name can be. */
export function temporaryIn(folder: string): string {
  return join(folder, `.farebox-${hostTag()}-${process.pid}-${randomBytes(4).toString('hex')}.tmp`)
}

/** Removes what killed processes of this machine left in a folder. */
export async function removeAbandoned(folder: string): Promise<void> {
  for (const file of await readdir(folder)) {
    const writer = NAME.exec(file)?.[1]
    if (writer === undefined || !isOfThisHost(writer) || isRunning(writer)) continue
    if (!writer.includes(`-${process.pid}-`)) await rm(join(folder, file), { force: true })
  }
}
